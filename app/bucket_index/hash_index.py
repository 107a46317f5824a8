"""Hash index files: the key hashes of one bucket of a dynamic-bucket table.

======  =====  ===========================================================
offset  width  meaning
======  =====  ===========================================================
0       i32    key hashes, big endian, back to back to the end, unordered
======  =====  ===========================================================

There is no header and no checksum. One file lists every key hash of its bucket, and each commit that adds a
key rewrites it. Keys with equal hashes share an entry, so a hash that is listed says that a key *may* be in
the bucket, and one that is not says that no such key is. As in the engine, a tail shorter than 4 bytes is
ignored. Readers take any order: the engine writes that of its hash set, we ascending ones.

A commit that brings a new hash rewrites the bucket's whole hash index, so everything that the last file lists
is restored first: what is forgotten here would be lost for good, and its keys would be assigned again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from app.errors import CorruptIndexError, RequestError
from app.types.index_files import IndexFileMeta
from app.types.roaring import Buffer

Integers: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]
"""Numbers that are yet to be checked."""

Hashes = npt.NDArray[np.int32]

_STORED: Final = np.dtype(">i4")
_RANGE: Final = np.iinfo(np.int32)


def read(buffer: Buffer) -> Hashes:
    """The hashes in the order of the file; any bytes are one."""
    return np.frombuffer(buffer, _STORED, len(buffer) // _STORED.itemsize).astype(np.int32)


def read_whole(buffer: Buffer, meta: IndexFileMeta) -> Hashes:
    """The hashes of a file that must be all there, since what replaces it is made from them.

    Raises CorruptIndexError: other bytes than the index manifest tells of.
    """
    expected = meta.row_count * _STORED.itemsize
    if not expected == meta.file_size == len(buffer):
        raise CorruptIndexError(
            f"expected {meta.row_count} key hashes in {meta.file_size} bytes, found {len(buffer)} bytes",
            path=meta.file_name,
        )
    return read(buffer)


def write(hashes: Integers) -> bytes:
    """A file of these hashes, in this order. Raises RequestError: a hash is no signed 32-bit integer."""
    return as_hashes(hashes).astype(_STORED).tobytes()


def as_hashes(numbers: Integers) -> Hashes:
    """Numbers as key hashes, none of them cut to fit.

    Raises RequestError: one is no signed 32-bit integer.
    """
    given = np.asarray(numbers)
    if given.dtype == np.int32 and given.ndim == 1:
        return given
    if given.ndim != 1 or (len(given) and not np.issubdtype(given.dtype, np.integer)):
        raise RequestError(f"key hashes are a list of integers, found shape {given.shape} of {given.dtype}")
    outside = given[(given < _RANGE.min) | (given > _RANGE.max)] if len(given) else given
    if len(outside):
        raise RequestError(f"a key hash is a signed 32-bit integer, found {outside[0]}")
    return given.astype(np.int32)


class DynamicBucketIndexMaintainer:
    """The key hashes of one bucket, at first those that its last file lists, if it has one."""

    def __init__(self, hashes: Hashes | None = None) -> None:
        self._hashes: Hashes = np.unique(np.zeros(0, np.int32) if hashes is None else hashes)
        self._listed = len(self._hashes)

    @classmethod
    def restore(cls, meta: IndexFileMeta, content: Buffer) -> Self:
        """Starts from the hash index of the latest snapshot, which the index manifest describes by ``meta``.

        Raises CorruptIndexError: the file is not whole; to go on without it would lose hashes.
        """
        return cls(read_whole(content, meta))

    def __len__(self) -> int:
        """The number of distinct hashes."""
        return len(self._hashes)

    @property
    def is_modified(self) -> bool:
        """Whether hashes were recorded that the last file does not list."""
        return len(self._hashes) > self._listed

    def record(self, hashes: Integers) -> None:
        """Notes the hashes of keys that are written to the bucket.

        Raises RequestError: one is no signed 32-bit integer; none is noted then.
        """
        recorded = np.unique(as_hashes(hashes))
        places = self._hashes.searchsorted(recorded)
        is_new = self._hashes.searchsorted(recorded, side="right") == places
        self._hashes = np.insert(self._hashes, places[is_new], recorded[is_new])

    def content(self) -> bytes:
        """The file that lists all hashes, ascending."""
        return write(self._hashes)
