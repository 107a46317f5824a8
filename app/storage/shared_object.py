"""One object of the shared tier: an entry of columns, packed and signed.

========  ========  ===========  ===========================================================================
offset    width     type         meaning
========  ========  ===========  ===========================================================================
0         4         bytes        ``PSH2``
4         8         u64, little  *n*, bytes of the object
12        8         u64, little  *m*, bytes of the entry, unpacked
20        32        bytes        HMAC-SHA256, with the operator's key, of the object's name, of bytes 0 to
                                 20, and of all from byte 52 on
52        to *n*    zstd         the entry (:mod:`app.storage.disk.column_entry`)
========  ========  ===========  ===========================================================================

The signature covers the name too, which says what the object was derived from. Only holders of the key can
write an object, alter one, or pass one off as another.
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
"""Maximum bytes of an entry in an object."""

_START: Final = struct.Struct("<4sQQ")
_MAGIC: Final = b"PSH2"
_SIGNATURE_BYTES: Final = 32
_PACKED_FROM: Final = _START.size + _SIGNATURE_BYTES
# Maximum bytes of an object: incompressible content grows less than this.
_MOST_STORED: Final = LARGEST + (LARGEST >> 6)


def object_name(key: bytes) -> str:
    """Return the name of the object for an entry's key."""
    return hashlib.sha256(key).hexdigest()


def key_name(key: bytes) -> str:
    """Return the suffix of objects' names for a key. It distinguishes keys and reveals nothing else."""
    return f"-{hmac.new(key, b'name', hashlib.sha256).hexdigest()[:8]}" if key else ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes from the beginning of an object, not verified yet."""

    stored: int
    unpacked: int

    @classmethod
    def read(cls, start: bytes | memoryview) -> Self:
        """Read the beginning of an object. Raises DamagedEntryError if no object begins so."""
        if len(start) < _PACKED_FROM:
            raise DamagedEntryError(f"expected at least {_PACKED_FROM} bytes, found {len(start)}")
        magic, stored, unpacked = _START.unpack_from(start)
        if magic != _MAGIC or not _PACKED_FROM <= stored <= _MOST_STORED or unpacked > LARGEST:
            raise DamagedEntryError("no object of this form, or larger than any")
        return cls(stored, unpacked)


def write_object(name: str, key: bytes, entry: Sequence[bytes | pa.Buffer]) -> bytes | None:
    """Pack and sign an entry, given in pieces. Return None if it is too large."""
    sink = pa.BufferOutputStream()
    for piece in entry:
        sink.write(piece)
    content = sink.getvalue()
    if len(content) > LARGEST:
        return None
    packed = pa.Codec("zstd", 1).compress(content)
    start = _START.pack(_MAGIC, _PACKED_FROM + len(packed), len(content))
    return b"".join((start, _signature(key, name, start, packed), packed))


def read_object(
    name: str, key: bytes, content: bytes | memoryview, claim: Callable[[int], None] = lambda _: None
) -> NDArray[np.uint8]:
    """Verify and unpack an object.

    ``claim`` claims memory for the sizes once they are verified. Raises DamagedEntryError unless a holder of
    the key wrote this content under this name.
    """
    sizes, view = Sizes.read(content), memoryview(content)
    signature = _signature(key, name, view[: _START.size], view[_PACKED_FROM:])
    if sizes.stored != len(content) or not hmac.compare_digest(signature, view[_START.size : _PACKED_FROM]):
        raise DamagedEntryError("cut, damaged, or not signed with this key")
    claim(len(content) + sizes.unpacked)
    try:
        entry = pa.decompress(pa.py_buffer(view[_PACKED_FROM:]), sizes.unpacked, "zstd")
    except (OSError, ValueError) as error:
        raise DamagedEntryError("its entry cannot be unpacked") from error
    return np.frombuffer(entry, np.uint8)


def _signature(key: bytes, name: str, *parts: bytes | memoryview | pa.Buffer) -> bytes:
    signature = hmac.new(key, name.encode("ascii"), hashlib.sha256)
    for part in parts:
        signature.update(part)
    return signature.digest()
