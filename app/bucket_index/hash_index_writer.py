"""The hash indexes of all buckets that one writer writes to, from commit to commit.

A bucket's index is restored when its first row comes, grows in memory, and is written out whole by each
commit that adds a hash to it. A bucket that has been idle since a commit before the latest that succeeded is
forgotten, and restored again when it is needed; until then its files may not be in any snapshot yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from app.bucket_index.key_batch import grouped
from app.bucket_index.maintainer import DynamicBucketIndexMaintainer
from app.errors import RequestError
from app.options.dynamic_buckets import MAX_BUCKET
from app.types.index_files import HASH, IndexFileMeta, index_file_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from app.bucket_index.key_batch import KeyBatch

    LoadFile: TypeAlias = Callable[[bytes, int], tuple[IndexFileMeta, bytes] | None]
    """Gives the hash index of a partition's bucket in the latest snapshot, None if there is none."""

    StoreFile: TypeAlias = Callable[[bytes, int, IndexFileMeta, bytes], None]
    """Stores a file of a partition's bucket, or raises."""

_BUCKET_BITS: Final = 16
_BUCKET_MASK: Final = (1 << _BUCKET_BITS) - 1


@dataclass(frozen=True, slots=True)
class WrittenIndex:
    """A hash index that a commit has to announce.

    Attributes:
        partition: the partition's row without the number of fields.
        bucket: the bucket.
        file: what was written.
    """

    partition: bytes
    bucket: int
    file: IndexFileMeta


class HashIndexWriter:
    """The hash indexes of one writer; keeps state, so one thread at a time.

    Args:
        load: gives what a bucket's index is restored from; a writer that overwrites gives None.
        store: puts a file where it belongs.
        names: of new files, without end; they must be new in the table.
    """

    def __init__(self, load: LoadFile, store: StoreFile, names: Iterator[str] | None = None) -> None:
        self._load = load
        self._store = store
        self._names = index_file_names() if names is None else names
        self._buckets: dict[tuple[bytes, int], _Bucket] = {}

    @property
    def cached_buckets(self) -> tuple[tuple[bytes, int], ...]:
        """Partition and bucket of the indexes that are held in memory."""
        return tuple(self._buckets)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the hashes that are held."""
        return sum(bucket.maintainer.nbytes for bucket in self._buckets.values())

    def record(self, batch: KeyBatch, buckets: NDArray[np.integer]) -> None:
        """Notes the keys of rows that are written, in their order.

        Args:
            batch: the keys.
            buckets: where each was assigned to.

        Raises:
            RequestError: a bucket that cannot be, or not one for each key.
            CorruptIndexError: the hash index of a bucket is not whole.
        """
        if buckets.shape != batch.hashes.shape:
            raise RequestError(f"each key has a bucket: found {len(buckets)} for {len(batch.hashes)} keys")
        if len(buckets) and not 0 <= buckets.min() <= buckets.max() <= MAX_BUCKET:
            raise RequestError(
                f"a dynamic bucket is numbered 0 to {MAX_BUCKET}, found {buckets.min()} to {buckets.max()}"
            )
        for number, positions in grouped((batch.codes << _BUCKET_BITS) | buckets):
            partition, bucket = batch.partitions[number >> _BUCKET_BITS], number & _BUCKET_MASK
            self._maintainer(partition, bucket).record(batch.hashes[positions])

    def prepare_commit(
        self, identifier: int, latest_committed: Callable[[], int | None]
    ) -> list[WrittenIndex]:
        """Writes the hash index of each bucket that got new keys, and forgets idle buckets.

        If a file cannot be stored, the next call writes all of them again, under other names.

        Args:
            identifier: of the commit that is being prepared.
            latest_committed: identifier of the latest snapshot of this writer, None if it has none; asked
                only where it matters.
        """
        has_history = any(bucket.last_modified is not None for bucket in self._buckets.values())
        committed = latest_committed() if has_history else None
        modified = [key for key, bucket in self._buckets.items() if bucket.maintainer.is_modified]
        written = [self._write(partition, number) for partition, number in modified]
        for key, bucket in list(self._buckets.items()):
            if bucket.maintainer.is_modified:
                bucket.maintainer.mark_written()
                bucket.last_modified = identifier
            elif committed is not None and bucket.is_older_than(committed):
                del self._buckets[key]
        return written

    def _maintainer(self, partition: bytes, number: int) -> DynamicBucketIndexMaintainer:
        bucket = self._buckets.get((partition, number))
        if bucket is None:
            stored = self._load(partition, number)
            maintainer = (
                DynamicBucketIndexMaintainer()
                if stored is None
                else DynamicBucketIndexMaintainer.restore(*stored)
            )
            bucket = self._buckets[partition, number] = _Bucket(maintainer)
        return bucket.maintainer

    def _write(self, partition: bytes, number: int) -> WrittenIndex:
        maintainer = self._buckets[partition, number].maintainer
        content = maintainer.content()
        meta = IndexFileMeta(HASH, next(self._names), len(content), len(maintainer))
        self._store(partition, number, meta, content)
        return WrittenIndex(partition, number, meta)


@dataclass(slots=True)
class _Bucket:
    """A bucket in memory.

    Attributes:
        maintainer: its hashes.
        last_modified: identifier of the last commit that wrote its index.
    """

    maintainer: DynamicBucketIndexMaintainer
    last_modified: int | None = None

    def is_older_than(self, committed: int) -> bool:
        """Whether everything that it wrote was committed before ``committed``."""
        return self.last_modified is None or self.last_modified < committed
