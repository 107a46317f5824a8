"""SQL's LIKE: ``%`` stands for any characters, ``_`` for one. Backslash escapes either, and itself.

A pattern is parsed into *pieces*: plain text, :data:`ANY` for ``%`` and :data:`ONE` for ``_``. Columns hold
UTF-8: a character is a lead byte and its continuation bytes.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias, final

from app.errors import FilterError

ESCAPE: Final = "\\"

_CONTINUATION_MASK: Final = 0b1100_0000
_CONTINUATION: Final = 0b1000_0000

Pieces: TypeAlias = "tuple[bytes | Wildcard, ...]"


@final
class Wildcard(Enum):
    """Piece of a pattern that is not plain text."""

    ANY = "%"
    ONE = "_"


ANY: Final = Wildcard.ANY
ONE: Final = Wildcard.ONE


@lru_cache(maxsize=256)
def read_pattern(pattern: str, escape: str = ESCAPE) -> Pieces:
    """Parse a pattern into pieces, merging neighbouring plain characters, and neighbouring ``%``.

    Raises FilterError if the escape character precedes anything but ``%``, ``_`` or itself.
    """
    pieces: list[bytes | Wildcard] = []
    plain: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                raise FilterError(
                    f"{escape!r} in the pattern {pattern!r:.100} escapes neither '%', '_' nor itself"
                )
            plain.append(escaped)
        elif character not in "%_":
            plain.append(character)
        else:
            _finish(plain, pieces)
            wildcard = Wildcard(character)
            if not (wildcard is ANY and pieces[-1:] == [ANY]):
                pieces.append(wildcard)
    _finish(plain, pieces)
    return tuple(pieces)


def _finish(plain: list[str], pieces: list[bytes | Wildcard]) -> None:
    if plain:
        try:
            pieces.append("".join(plain).encode())
        except UnicodeEncodeError as error:
            raise FilterError("half a surrogate pair in a pattern, which UTF-8 cannot hold") from error
        plain.clear()


def write_pattern(pieces: Pieces) -> bytes:
    """Format pieces as a pattern with backslash as its escape."""
    return b"".join(
        _plain_pattern(piece) if isinstance(piece, bytes) else piece.value.encode() for piece in pieces
    )


def _plain_pattern(plain: bytes) -> bytes:
    return plain.replace(b"\\", b"\\\\").replace(b"%", b"\\%").replace(b"_", b"\\_")


def literal_prefix(pattern: bytes) -> bytes:
    """Return the text that every match starts with, empty if the pattern starts with a wildcard."""
    pieces = read_pattern(pattern.decode())
    return pieces[0] if pieces and isinstance(pieces[0], bytes) else b""


def like(value: bytes, pattern: bytes) -> bool:
    """Return True if a string matches a pattern with backslash as its escape.

    Time is at worst proportional to the product of the lengths.
    """
    pieces = read_pattern(pattern.decode())
    at = piece = 0
    # After a mismatch it is enough to extend the last ANY.
    retry_piece, retry_at = -1, 0
    while at < len(value) or piece < len(pieces):
        if piece < len(pieces) and pieces[piece] is ANY:
            retry_piece, retry_at = piece, at
            piece += 1
            continue
        end = _match_one(value, at, pieces[piece]) if piece < len(pieces) else None
        if end is not None:
            at, piece = end, piece + 1
        elif retry_piece >= 0 and retry_at < len(value):
            retry_at = _next_character(value, retry_at)
            at, piece = retry_at, retry_piece + 1
        else:
            return False
    return True


def _match_one(value: bytes, at: int, piece: bytes | Wildcard) -> int | None:
    """Return the end of a plain piece or ONE that starts at ``at``. Return None without a match."""
    if isinstance(piece, bytes):
        return at + len(piece) if value.startswith(piece, at) else None
    return _next_character(value, at) if at < len(value) else None


def _next_character(value: bytes, at: int) -> int:
    at += 1
    while at < len(value) and value[at] & _CONTINUATION_MASK == _CONTINUATION:
        at += 1
    return at
