"""One object of the shared tier: entries of columns that are read together, signed as a whole.

========  ========  ===========  ===========================================================================
offset    width     type         meaning
========  ========  ===========  ===========================================================================
0         4         bytes        ``PSH1``
4         8         u64, little  *n*, bytes of the object
12        8         u64, little  *m*, bytes of the entries, unpacked
20        32        bytes        HMAC-SHA256, with the operator's key, of the object's name, of bytes 0 to
                                 20, and of all from byte 52 on
52        4         u32, little  *c*, the number of entries
56        8 *c*     u64, little  where each entry ends, unpacked; none is one that ends where it begins
56 + 8 c  to *n*    zstd         entries (:mod:`app.storage.disk.column_entry`), each at a multiple of 64
========  ========  ===========  ===========================================================================

The signature covers all that is used of an object, the name too, which says what it was made of: nobody
without the key can write an object, alter one, or pass one off as another.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.storage.disk.column_entry import DamagedEntryError

LARGEST: Final = 128 << 20
"""Bytes of entries that an object has at most."""

_START: Final = struct.Struct("<4sQQ")
_MAGIC: Final = b"PSH1"
_SIGNATURE_BYTES: Final = 32
_COUNT: Final = struct.Struct("<I")
_ENDS_AT: Final = _START.size + _SIGNATURE_BYTES + _COUNT.size
_ALIGNMENT: Final = 64
_MOST_STORED: Final = LARGEST + (LARGEST >> 6)
"""What cannot be packed grows by less, with the ends of entries."""


def object_name(keys: Sequence[bytes]) -> str:
    """The name of the object whose entries have these keys, in this order."""
    digest = hashlib.sha256()
    for key in keys:
        digest.update(len(key).to_bytes(8, "little") + key)
    return digest.hexdigest()


def key_name(key: bytes) -> str:
    """What names of objects end with that are signed with a key: it tells keys apart, and nothing else."""
    return f"-{hmac.new(key, b'name', hashlib.sha256).hexdigest()[:8]}" if key else ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the beginning of an object says of its bytes, which nothing vouches for yet."""

    stored: int
    unpacked: int

    @classmethod
    def read(cls, start: bytes | memoryview) -> Self:
        """Reads the beginning of an object; DamagedEntryError: it is that of none."""
        if len(start) < _ENDS_AT:
            raise DamagedEntryError(f"expected at least {_ENDS_AT} bytes, found {len(start)}")
        magic, stored, unpacked = _START.unpack_from(start)
        if magic != _MAGIC or not _ENDS_AT <= stored <= _MOST_STORED or unpacked > LARGEST:
            raise DamagedEntryError("no object of this form, or larger than any")
        return cls(stored, unpacked)


def write_object(name: str, key: bytes, entries: Sequence[Sequence[bytes | pa.Buffer]]) -> bytes | None:
    """The bytes of an object; None if it would be larger than any.

    Args:
        entries: each in pieces, without a piece if there is none.
    """
    sink, ends = pa.BufferOutputStream(), []
    for pieces in entries:
        if pieces:
            sink.write(bytes(-sink.tell() % _ALIGNMENT))
        for piece in pieces:
            sink.write(piece)
        ends.append(sink.tell())
    content = sink.getvalue()
    if len(content) > LARGEST:
        return None
    packed = pa.Codec("zstd", 1).compress(content)
    signed = _COUNT.pack(len(ends)) + np.array(ends, "<u8").tobytes()
    stored = _START.size + _SIGNATURE_BYTES + len(signed) + len(packed)
    start = _START.pack(_MAGIC, stored, len(content))
    return b"".join((start, _signature(key, name, start, signed, packed), signed, packed))


def read_object(
    name: str,
    key: bytes,
    content: bytes | memoryview,
    count: int,
    claim: Callable[[int], None] = lambda _: None,
) -> list[NDArray[np.uint8] | None]:
    """The entries of an object; each has its memory to itself.

    ``claim``: has memory claimed, so many bytes in all, once it is known who says how many.

    Raises:
        DamagedEntryError: it is not what a holder of the key has written under this name.
    """
    sizes, view = Sizes.read(content), memoryview(content)
    signed_from = _START.size + _SIGNATURE_BYTES
    signature = _signature(key, name, view[: _START.size], view[signed_from:])
    if sizes.stored != len(content) or not hmac.compare_digest(signature, view[_START.size : signed_from]):
        raise DamagedEntryError("cut, damaged, or not signed with this key")
    (written,) = _COUNT.unpack_from(content, signed_from)
    packed_from = _ENDS_AT + 8 * written
    if written != count or packed_from > len(content):
        raise DamagedEntryError(f"expected {count} entries, found {written}")
    ends = np.frombuffer(content, "<u8", written, _ENDS_AT).tolist()
    # The entries, and a copy of each.
    claim(len(content) + 2 * sizes.unpacked)
    try:
        unpacked = pa.decompress(pa.py_buffer(view[packed_from:]), sizes.unpacked, "zstd")
    except (OSError, ValueError) as error:
        raise DamagedEntryError("its entries cannot be unpacked") from error
    entries, start = [], 0
    for end in ends:
        at = start + -start % _ALIGNMENT
        entry = np.frombuffer(unpacked, np.uint8)[at:end] if end > start else None
        # One that is held must not hold the others.
        entries.append(entry.copy() if entry is not None and written > 1 else entry)
        start = end
    return entries


def _signature(key: bytes, name: str, *parts: bytes | memoryview | pa.Buffer) -> bytes:
    signature = hmac.new(key, name.encode("ascii"), hashlib.sha256)
    for part in parts:
        signature.update(part)
    return signature.digest()
