"""Hash index files: the key hashes of one bucket of a dynamic-bucket table.

======  =====  ===========================================================
offset  width  meaning
======  =====  ===========================================================
0       i32    key hashes, big endian, back to back to the end, unordered
======  =====  ===========================================================

There is no header and no checksum. Keys with equal hashes share an entry: a listed hash means that a key
*may* be in the bucket, an absent one that it is not. Like the engine, readers ignore a tail shorter than 4
bytes and accept any order: the engine writes the order of its hash set, this project ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from app.errors import CorruptIndexError, RequestError
from app.types.index_files import IndexFileMeta
from app.types.roaring import Buffer

# Numbers that are not checked yet.
HashNumbers: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]

Hashes = npt.NDArray[np.int32]

_STORED: Final = np.dtype(">i4")
_RANGE: Final = np.iinfo(np.int32)


def read(buffer: Buffer) -> Hashes:
    """Decode hashes in the order of the file. Any bytes are valid."""
    return np.frombuffer(buffer, _STORED, len(buffer) // _STORED.itemsize).astype(np.int32)


def read_whole(buffer: Buffer, meta: IndexFileMeta) -> Hashes:
    """Decode the hashes of a complete file.

    Raises CorruptIndexError if its size differs from the manifest's.
    """
    # A commit with a new hash rewrites the whole file: a hash lost here would be lost for good, and its keys
    # would be assigned again.
    expected = meta.row_count * _STORED.itemsize
    if not expected == meta.file_size == len(buffer):
        raise CorruptIndexError(
            f"expected {meta.row_count} key hashes in {meta.file_size} bytes, found {len(buffer)} bytes",
            path=meta.file_name,
        )
    return read(buffer)


def write(hashes: HashNumbers) -> bytes:
    """Encode hashes, in this order. Raises RequestError if one is not a signed 32-bit integer."""
    return as_hashes(hashes).astype(_STORED).tobytes()


def as_hashes(numbers: HashNumbers) -> Hashes:
    """Convert numbers to key hashes without truncation.

    Raises RequestError if one is not a signed 32-bit integer.
    """
    array = np.asarray(numbers)
    if array.dtype == np.int32 and array.ndim == 1:
        return array
    if array.ndim != 1 or (len(array) and not np.issubdtype(array.dtype, np.integer)):
        raise RequestError(f"key hashes are a list of integers, found shape {array.shape} of {array.dtype}")
    outside = array[(array < _RANGE.min) | (array > _RANGE.max)] if len(array) else array
    if len(outside):
        raise RequestError(f"a key hash is a signed 32-bit integer, found {outside[0]}")
    return array.astype(np.int32)


class DynamicBucketIndexMaintainer:
    """Key hashes of one bucket, initially those of its last file."""

    def __init__(self, hashes: Hashes | None = None) -> None:
        self._hashes: Hashes = np.unique(np.zeros(0, np.int32) if hashes is None else hashes)
        self._listed = len(self._hashes)

    @classmethod
    def restore(cls, meta: IndexFileMeta, content: Buffer) -> Self:
        """Start from the latest hash index, which the index manifest describes by ``meta``.

        Raises CorruptIndexError if the file is not whole. Continuing without it would lose hashes.
        """
        return cls(read_whole(content, meta))

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def is_modified(self) -> bool:
        """True if hashes were recorded that the last file does not list."""
        return len(self._hashes) > self._listed

    def record(self, hashes: HashNumbers) -> None:
        """Record hashes of keys written to the bucket.

        Raises RequestError, and records none, if one exceeds 32 bits.
        """
        recorded = np.unique(as_hashes(hashes))
        places = self._hashes.searchsorted(recorded)
        is_new = self._hashes.searchsorted(recorded, side="right") == places
        self._hashes = np.insert(self._hashes, places[is_new], recorded[is_new])

    def content(self) -> bytes:
        """Encode a file with all hashes, ascending."""
        return write(self._hashes)
