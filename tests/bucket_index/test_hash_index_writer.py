"""What a writer makes of hash indexes: what it restores, writes and forgets, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.bucket_index import DynamicBucketIndexMaintainer, HashIndexWriter, KeyBatch, hash_index
from app.errors import CorruptIndexError, RequestError, StorageError
from app.types.index_files import HASH, IndexFileMeta

if TYPE_CHECKING:
    from app.bucket_index import WrittenIndex

P, Q = b"p", b"q"
HASHES = st.lists(st.integers(-30, 30) | st.integers(-(2**31), 2**31 - 1), max_size=40)


def stored(hashes: list[int], name: str = "index-0") -> tuple[IndexFileMeta, bytes]:
    content = hash_index.write(hashes)
    return IndexFileMeta(HASH, name, len(content), len(hashes)), content


class Storage:
    """The files of a table, and those that its latest snapshot names."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.snapshot: dict[tuple[bytes, int], IndexFileMeta] = {}
        self.loaded: list[tuple[bytes, int]] = []
        self.broken_after = 1 << 30

    def load(self, partition: bytes, bucket: int) -> tuple[IndexFileMeta, bytes] | None:
        self.loaded.append((partition, bucket))
        meta = self.snapshot.get((partition, bucket))
        return None if meta is None else (meta, self.files[meta.file_name])

    def store(self, partition: bytes, bucket: int, meta: IndexFileMeta, content: bytes) -> None:
        assert partition in (P, Q)
        assert bucket >= 0
        if len(self.files) >= self.broken_after:
            raise StorageError("disk full")
        assert meta.file_name not in self.files
        self.files[meta.file_name] = content

    def commit(self, written: list[WrittenIndex]) -> None:
        self.snapshot |= {(index.partition, index.bucket): index.file for index in written}

    def hashes(self, partition: bytes, bucket: int) -> list[int]:
        return list(hash_index.read(self.files[self.snapshot[partition, bucket].file_name]))


def writer_of(storage: Storage) -> HashIndexWriter:
    return HashIndexWriter(storage.load, storage.store)


def record(writer: HashIndexWriter, partition: bytes, buckets: dict[int, list[int]]) -> None:
    rows = [(bucket, hashed) for bucket, hashes in buckets.items() for hashed in hashes]
    batch = KeyBatch.of_one(partition, [hashed for _, hashed in rows])
    writer.record(batch, np.array([bucket for bucket, _ in rows], np.int32))


@settings(deadline=None)
@given(HASHES, st.lists(HASHES, max_size=4))
def test_no_hash_is_ever_lost(restored: list[int], rounds: list[list[int]]) -> None:
    maintainer = DynamicBucketIndexMaintainer.restore(*stored(restored))
    listed = set(restored)
    for hashes in rounds:
        maintainer.record(hashes)
        assert maintainer.is_modified == bool(set(hashes) - listed)
        listed |= set(hashes)
        written = hash_index.read(maintainer.content()).tolist()
        assert sorted(written) == sorted(listed)
        assert len(maintainer) == len(listed)
        maintainer.mark_written()


@pytest.mark.parametrize("kept", range(12))
def test_a_damaged_index_is_not_restored_smaller(kept: int) -> None:
    meta, content = stored([1, 2, 3])
    with pytest.raises(CorruptIndexError, match="3 key hashes in 12 bytes"):
        DynamicBucketIndexMaintainer.restore(meta, content[:kept])
    with pytest.raises(CorruptIndexError, match="key hashes"):
        DynamicBucketIndexMaintainer.restore(replace(meta, row_count=kept // 4), content)


def test_a_hash_out_of_range_is_refused() -> None:
    maintainer = DynamicBucketIndexMaintainer()
    with pytest.raises(RequestError, match="signed 32-bit integer, found 2147483648"):
        maintainer.record([1, 2**31])
    assert not maintainer.is_modified


def test_only_changed_buckets_are_written_and_whole() -> None:
    storage = Storage()
    storage.files["old"] = hash_index.write([7, 8])
    storage.snapshot = {(P, 0): stored([7, 8], "old")[0], (P, 1): stored([7, 8], "old")[0]}
    writer = writer_of(storage)
    record(writer, P, {0: [8, 7], 1: [9, 7], 5: [1]})
    record(writer, Q, {1: [2]})

    written = writer.prepare_commit(1, lambda: None)
    storage.commit(written)

    assert [(index.partition, index.bucket) for index in written] == [(P, 1), (P, 5), (Q, 1)]
    assert [(index.file.index_type, index.file.row_count, index.file.file_size) for index in written] == [
        (HASH, 3, 12),
        (HASH, 1, 4),
        (HASH, 1, 4),
    ]
    assert sorted(storage.hashes(P, 1)) == [7, 8, 9]
    assert storage.hashes(P, 5) == [1]
    assert writer.prepare_commit(2, lambda: 1) == []


def test_the_order_of_rows_is_that_of_the_batch() -> None:
    storage = Storage()
    writer, plain = writer_of(storage), DynamicBucketIndexMaintainer()
    # Multiples of a large power of two meet in one slot, so their order shows.
    hashes = [number << 24 for number in (3, 1, 2, 9, 4, 8)]
    writer.record(KeyBatch.of([P, Q], [0, 1, 0, 1, 0, 0], hashes), np.array([4, 4, 4, 4, 4, 4]))
    plain.record([hashes[place] for place in (0, 2, 4, 5)])
    storage.commit(writer.prepare_commit(1, lambda: None))
    assert storage.files[storage.snapshot[P, 4].file_name] == plain.content()


def test_idle_buckets_are_forgotten_once_a_later_commit_succeeded() -> None:
    storage = Storage()
    writer = writer_of(storage)
    asked: list[int | None] = []

    def latest(committed: int | None) -> int | None:
        asked.append(committed)
        return committed

    record(writer, P, {0: [1], 1: [1]})
    storage.commit(writer.prepare_commit(1, lambda: latest(None)))
    assert asked == []
    record(writer, P, {1: [2]})
    # Commit 1 succeeded, but no later one: what bucket 0 wrote is the latest.
    storage.commit(writer.prepare_commit(2, lambda: latest(1)))
    assert list(writer.cached_buckets) == [(P, 0), (P, 1)]
    record(writer, P, {1: [3]})
    storage.commit(writer.prepare_commit(3, lambda: latest(2)))
    assert list(writer.cached_buckets) == [(P, 1)]
    assert asked == [1, 2]

    storage.loaded.clear()
    record(writer, P, {0: [5], 1: [5]})
    storage.commit(writer.prepare_commit(4, lambda: 3))
    assert storage.loaded == [(P, 0)]
    assert sorted(storage.hashes(P, 0)) == [1, 5]


def test_a_bucket_that_got_known_keys_only_is_forgotten_with_the_next_commit() -> None:
    storage = Storage()
    storage.files["old"] = hash_index.write([7])
    storage.snapshot = {(P, 0): stored([7], "old")[0]}
    writer = writer_of(storage)
    record(writer, P, {0: [7], 1: [1]})
    storage.commit(writer.prepare_commit(1, lambda: None))
    assert list(writer.cached_buckets) == [(P, 0), (P, 1)]
    assert writer.prepare_commit(2, lambda: 1) == []
    assert list(writer.cached_buckets) == [(P, 1)]


def test_a_file_that_cannot_be_stored_is_written_again_with_all_others() -> None:
    storage = Storage()
    writer = writer_of(storage)
    record(writer, P, {0: [1], 1: [2], 2: [3]})
    storage.broken_after = 2
    with pytest.raises(StorageError, match="disk full"):
        writer.prepare_commit(1, lambda: None)
    storage.broken_after = 1 << 30
    written = writer.prepare_commit(1, lambda: None)
    assert [index.bucket for index in written] == [0, 1, 2]
    storage.commit(written)
    assert [storage.hashes(P, bucket) for bucket in range(3)] == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("buckets", "complaint"),
    [([0], "1 for 2 keys"), ([0, -1], "found -1 to 0"), ([32767, 0], "0 to 32766, found 0 to 32767")],
)
def test_buckets_that_cannot_be_are_refused(buckets: list[int], complaint: str) -> None:
    storage = Storage()
    with pytest.raises(RequestError, match=complaint):
        writer_of(storage).record(KeyBatch.of_one(P, [1, 2]), np.array(buckets))
    assert storage.loaded == []
