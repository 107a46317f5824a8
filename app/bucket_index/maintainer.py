"""The key hashes of one bucket while a writer adds to it.

A commit that brings a new hash rewrites the bucket's whole hash index, so everything that the last file lists
is restored first: what is forgotten here would be lost for good, and its keys would be assigned again.
"""

from __future__ import annotations

from typing import Self

from app.bucket_index import hash_index
from app.bucket_index.hash_index import Integers
from app.java_orders.int_hash_set import IntHashSet
from app.types.binary_row.row import Buffer
from app.types.index_files import IndexFileMeta


class DynamicBucketIndexMaintainer:
    """The key hashes of one bucket.

    Args:
        hashes: those that the last file lists; None if the bucket has no hash index.
    """

    def __init__(self, hashes: IntHashSet | None = None) -> None:
        self._hashes = IntHashSet() if hashes is None else hashes
        self._is_modified = False

    @classmethod
    def restore(cls, meta: IndexFileMeta, content: Buffer) -> Self:
        """Starts from the hash index of the latest snapshot.

        Args:
            meta: what the index manifest says of it.
            content: the file.

        Raises:
            CorruptIndexError: the file is not whole; to go on without it would lose hashes.
        """
        restored = hash_index.read_whole(content, meta)
        # The room decides the order of the next file; the engine makes it for as many as the manifest says.
        hashes = IntHashSet(meta.row_count)
        hashes.add(restored)
        return cls(hashes)

    def __len__(self) -> int:
        """The number of distinct hashes."""
        return len(self._hashes)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the hashes."""
        return self._hashes.nbytes

    @property
    def is_modified(self) -> bool:
        """Whether hashes were recorded that the last file does not list."""
        return self._is_modified

    def record(self, hashes: Integers) -> None:
        """Notes the hashes of keys that are written to the bucket, in their order.

        Raises:
            RequestError: one is no signed 32-bit integer; none is noted then.
        """
        if self._hashes.add(hash_index.as_hashes(hashes)):
            self._is_modified = True

    def content(self) -> bytes:
        """The file that lists all hashes."""
        return hash_index.write(self._hashes.to_array())

    def mark_written(self) -> None:
        """Notes that a file lists all hashes."""
        self._is_modified = False
