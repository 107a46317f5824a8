"""Java's *modified UTF-8*, in which the container writes names.

U+0000 is ``C0 80``; code points above U+FFFF are two surrogates of three bytes each; nothing takes four
bytes. A u16 in front counts the bytes.
"""

from __future__ import annotations

import struct

from app.errors import CorruptIndexError
from app.file_index.payloads.cursor import Cursor

MAX_BYTES = 65535

_LENGTH = struct.Struct(">H")
_NUL = b"\xc0\x80"


def read_name(cursor: Cursor, what: str) -> str:
    """The next name.

    Raises:
        CorruptIndexError: the bytes are no modified UTF-8, or are half a surrogate pair.
    """
    start = cursor.position
    stored = bytes(cursor.take(cursor.u16(f"length of the {what}"), what))
    try:
        return decode(stored)
    except UnicodeError as error:
        raise CorruptIndexError(
            f"expected modified UTF-8 as the {what}, found {stored!r:.100}", offset=start
        ) from error


def write_name(name: str) -> bytes:
    """A name with its length.

    Raises:
        ValueError: it takes more than 65535 bytes.
    """
    stored = encode(name)
    if len(stored) > MAX_BYTES:
        raise ValueError(f"a name takes at most {MAX_BYTES} bytes, not {len(stored)}")
    return _LENGTH.pack(len(stored)) + stored


def decode(stored: bytes) -> str:
    """Text of modified UTF-8; raises UnicodeDecodeError where it is anything else."""
    if b"\0" in stored:
        raise UnicodeDecodeError(
            "modified-utf-8", stored, stored.index(b"\0"), stored.index(b"\0") + 1, "plain NUL"
        )
    # surrogatepass takes the surrogates apart as UTF-8 would any code point; UTF-16 then joins the pairs.
    # A byte C0 occurs in no UTF-8, so the replacement touches nothing else.
    text = stored.replace(_NUL, b"\0").decode("utf-8", "surrogatepass")
    if any(char > "\uffff" for char in text):
        raise UnicodeDecodeError("modified-utf-8", stored, 0, len(stored), "a sequence of four bytes")
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def encode(text: str) -> bytes:
    """Modified UTF-8 of a text; raises UnicodeEncodeError for half a surrogate pair."""
    units = text.encode("utf-16-be")
    split = "".join(chr(high << 8 | low) for high, low in zip(units[::2], units[1::2], strict=True))
    return split.encode("utf-8", "surrogatepass").replace(b"\0", _NUL)
