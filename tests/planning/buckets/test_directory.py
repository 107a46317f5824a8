"""Directories of key hashes: read once, asked as a whole, in the order that decides between buckets."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from app.bucket_index import PartitionIndex, hash_index
from app.errors import CorruptIndexError, CorruptMetadataError, FileMissingError
from app.planning.buckets.directory import read_directories, read_usable
from app.planning.request.requests import LookupRequest, SnapshotSelector
from app.planning.version.version import IndexSource
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind
from app.types.index_files import HASH, IndexFileMeta
from tests.copied_tables import CopiedTable, CopyTable
from tests.golden_cases import expected


class Writer:
    """Writes hash indexes of one partition into a table, and loads them."""

    def __init__(self, copied: CopiedTable) -> None:
        self.copied = copied
        self.source: IndexSource = copied.service.resolve(copied.ref, SnapshotSelector()).source

    def write(self, name: str, bucket: int, hashes: Sequence[int]) -> IndexEntry:
        content = hash_index.write(hashes)
        (self.copied.directory / "index" / name).write_bytes(content)
        return IndexEntry(FileKind.ADD, b"", bucket, IndexFileMeta(HASH, name, len(content), len(hashes)))

    @contextmanager
    def without(self, entry: IndexEntry) -> Iterator[None]:
        path = self.copied.directory / "index" / entry.file.file_name
        content = path.read_bytes()
        path.unlink()
        yield
        path.write_bytes(content)


@pytest.fixture
def writer(copy_table: CopyTable) -> Writer:
    return Writer(copy_table("dyn_bucket"))


def test_a_directory_is_read_once_whatever_is_asked_of_it(copy_table: CopyTable) -> None:
    copied = copy_table("dyn_bucket")
    recorded = expected("dyn_bucket")["dynamic_bucket"]
    partition = recorded["keys"][0]["partition"]
    keys = [each for each in recorded["keys"] if each["partition"] == partition]
    asked = LookupRequest(partition=partition, keys=tuple(each["key"] for each in keys))
    first = copied.service.lookup(copied.ref, asked)
    for path in (copied.directory / "index").iterdir():
        path.unlink()

    again = copied.service.lookup(copied.ref, asked)

    assert again == first
    assert [each.bucket for each in again.buckets] == [each["bucket"] for each in keys]
    statistics = copied.service.caches.statistics()["hash_indexes"]
    assert statistics["entries"] == 1
    listed = {
        (index["bucket"], hashed)
        for index in recorded["buckets"]
        if index["partition"] == partition
        for hashed in index["hashes"]
    }
    assert statistics["bytes"] == 6 * len(listed)


def directory(writer: Writer, *entries: IndexEntry) -> PartitionIndex:
    (found,) = read_directories(writer.source, [entries])
    return found


def test_the_file_that_is_read_last_decides(writer: Writer) -> None:
    first, second = writer.write("one", 1, [7, 8]), writer.write("two", 2, [8, 9])

    assert directory(writer, first, second).lookup([7, 8, 9]).tolist() == [1, 2, 2]
    assert directory(writer, second, first).lookup([7, 8, 9]).tolist() == [1, 1, 2]
    assert directory(writer, first, second).holding([8]) == {1, 2}


def test_another_file_makes_another_directory(writer: Writer) -> None:
    kept, before, after = (
        writer.write("kept", 0, [1]),
        writer.write("before", 1, [2]),
        writer.write("after", 1, [2, 3]),
    )

    assert directory(writer, kept, before).lookup([1, 2, 3]).tolist() == [0, 1, -1]
    assert directory(writer, kept, after).lookup([1, 2, 3]).tolist() == [0, 1, 1]


def test_partitions_are_kept_apart_and_in_order(writer: Writer) -> None:
    ones, none, twos = [writer.write("one", 1, [7])], (), [writer.write("two", 2, [7, 8])]
    read_directories(writer.source, [twos])

    for _ in range(2):
        found = read_directories(writer.source, [ones, none, twos, ones])
        assert [each.lookup([7, 8]).tolist() for each in found] == [[1, -1], [-1, -1], [2, 2], [1, -1]]
    usable = read_usable(writer.source, [ones, none, twos])
    assert [each.holding([7]) for each, _ in usable] == [{1}, frozenset(), {2}]


def test_what_cannot_be_used_is_told_and_tried_again(writer: Writer) -> None:
    good, bad, other = (
        writer.write("good", 0, [1]),
        writer.write("bad", 1, [2]),
        writer.write("other", 1, [2]),
    )
    partitions = [[good, bad], [other]]

    with writer.without(bad):
        (index, failures), (whole, none) = read_usable(writer.source, partitions)
        assert index.lookup([1, 2]).tolist() == [0, -1]
        assert [(entry, type(error)) for entry, error in failures] == [(bad, FileMissingError)]
        assert whole.lookup([2]).tolist() == [1]
        assert not none
        with pytest.raises(FileMissingError, match="bad"):
            directory(writer, good, bad)

    (index, failures), _ = read_usable(writer.source, partitions)
    assert index.lookup([1, 2]).tolist() == [0, 1]
    assert not failures


@pytest.mark.parametrize("missing", [1, 4])
def test_a_file_of_another_length_than_recorded_is_corrupt(writer: Writer, missing: int) -> None:
    entry = writer.write("cut", 3, [1, 2])
    path = writer.copied.directory / "index" / "cut"
    path.write_bytes(path.read_bytes()[:-missing])

    with pytest.raises(CorruptIndexError, match="cut"):
        directory(writer, entry)
    ((_, failures),) = read_usable(writer.source, [[entry]])
    assert [each for each, _ in failures] == [entry]


def test_a_bucket_that_cannot_be_makes_its_partition_useless(writer: Writer) -> None:
    near, far, other = (
        writer.write("near", 0, [1]),
        writer.write("far", 40_000, [1]),
        writer.write("other", 5, [1]),
    )

    with pytest.raises(CorruptMetadataError, match="40000"):
        directory(writer, near, far)
    (index, failures), (whole, none) = read_usable(writer.source, [[near, far], [other]])
    assert not index.holding([1])
    assert [entry for entry, _ in failures] == [near, far]
    assert whole.holding([1]) == {5}
    assert not none
