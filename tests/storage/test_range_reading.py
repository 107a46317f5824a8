"""Many ranges: at once, and ahead of those that are looked at."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st

from app.errors import (
    DeadlineExceededError,
    FileMissingError,
    LimitExceededError,
    PaimonIndexError,
    PathNotAllowedError,
    RequestCancelledError,
    StorageError,
)
from app.storage import RetryPolicy, Warehouse
from app.storage.disk.disk_tier import DiskTier
from app.storage.range_reading import FileRange, merge_ranges, portions
from app.work import Cancellation, cancellable, time_limit

LONG = bytes(range(256)) * 300


class CountingFileSystem(LocalFileSystem):  # type: ignore[misc]
    """Local files that count how often they are read; a file called ``broken`` never is."""

    protocol = "counting"
    reads: ClassVar[list[tuple[str, int, int]]] = []

    def cat_file(self, path: str, start: int = 0, end: int = 0, **options: Any) -> bytes:
        self.reads.append((path.rpartition("/")[2], start, end))
        if path.endswith("broken"):
            raise OSError("dropped")
        content: bytes = super().cat_file(path.removeprefix("counting:/"), start, end, **options)
        return content

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("counting://").strip("/")


class TestManyRanges:
    @pytest.fixture
    def counting(self, root: Path) -> str:
        fsspec.register_implementation("counting", CountingFileSystem, clobber=True)
        (root / "db.db" / "t" / "long").write_bytes(LONG)
        (root / "db.db" / "t" / "broken").write_bytes(b"")
        CountingFileSystem.reads.clear()
        return f"counting:/{root}"

    def test_what_there_can_never_be_room_for_is_an_error_of_its_own(
        self, counting: str, limit_memory: Callable[[int], None]
    ) -> None:
        limit_memory(20_000)
        small, large = Warehouse("w", counting).read_ranges(
            [("db.db/t/long", 0, 5), ("db.db/t/long", 15_000, 20_000)]
        )

        assert small == LONG[:5]
        assert isinstance(large, LimitExceededError)
        assert "20000 bytes for reads of db.db/t/long are more" in str(large)

    def test_answers_come_in_order_each_with_its_own_error(self, root: Path, tmp_path: Path) -> None:
        (root / "db.db" / "t" / "link").symlink_to(tmp_path / "secret")
        warehouse = Warehouse("w", str(root), max_file_bytes=50)
        answers = warehouse.read_ranges(
            [
                ("db.db/t/file", 8, 5),
                ("db.db/t/none", 0, 1),
                ("db.db/t/file", 2, 3),
                ("../secret", 0, 1),
                ("db.db/t/link", 0, 1),
                ("db.db/t/file", -1, 5),
                ("db.db/t/file", 0, 51),
                ("db.db/t/file", 3, 0),
                ("db.db/t/file", 40, 5),
                ("db.db/t/file", 2, 3),
                ("db.db/t", 0, 1),
                (f"file:{root}/db.db/t/file", 0, 2),
            ]
        )
        assert [answer if isinstance(answer, bytes) else type(answer) for answer in answers] == [
            *(b"89", FileMissingError, b"234", PathNotAllowedError, PathNotAllowedError, StorageError),
            *(LimitExceededError, b"", b"", b"234", FileMissingError, b"01"),
        ]

    def test_close_ranges_take_one_read(self, counting: str) -> None:
        warehouse = Warehouse("w", counting)
        asked = [("db.db/t/long", start, 100) for start in (0, 5000, 300, 50, 60_000)]
        assert warehouse.read_ranges(asked) == [LONG[start : start + 100] for _, start, _ in asked]
        assert sorted(CountingFileSystem.reads) == [("long", 0, 5100), ("long", 60_000, 60_100)]

    def test_failed_reads_are_repeated_and_fail_alone(self, counting: str) -> None:
        warehouse = Warehouse("w", counting, retry=RetryPolicy(attempts=3, first_wait_seconds=0))
        broken, whole = warehouse.read_ranges([("db.db/t/broken", 0, 9), ("db.db/t/file", 0, 9)])
        assert isinstance(broken, StorageError)
        assert whole == b"012345678"
        assert len(CountingFileSystem.reads) == 4

    def test_a_caller_who_is_gone_reads_nothing(self, counting: str) -> None:
        warehouse, cancellation = Warehouse("w", counting), Cancellation()
        cancellation.cancel()
        with cancellable(cancellation), pytest.raises(RequestCancelledError):
            warehouse.read_ranges([("db.db/t/file", 0, 9)])
        with time_limit(0), pytest.raises(DeadlineExceededError):
            warehouse.read_ranges([("db.db/t/file", 0, 9)])
        assert CountingFileSystem.reads == []

    def test_immutable_files_and_ranges_are_read_once_in_two_lives(
        self, counting: str, tmp_path: Path
    ) -> None:
        asked = [("db.db/t/long", 0, 100), ("db.db/t/file", 0, 9), ("db.db/t/long", 300, 100)]
        found = []
        for _ in range(2):
            warehouse = Warehouse("w", counting, disk=DiskTier(tmp_path / "cache", 1 << 20))
            found.append(
                (warehouse.read_ranges(asked, immutable=True), warehouse.read_immutable("db.db/t/file", 10))
            )
        assert found[0] == found[1] == ([LONG[:100], b"012345678", LONG[300:400]], b"0123456789")
        assert len(CountingFileSystem.reads) == 3

    def test_what_may_change_is_read_again(self, counting: str, tmp_path: Path) -> None:
        warehouse = Warehouse("w", counting, disk=DiskTier(tmp_path / "cache", 1 << 20))
        for _ in range(3):
            warehouse.read_ranges([("db.db/t/file", 0, 9)])
            warehouse.read("db.db/t/file")
            warehouse.read_ranges([("db.db/t/file", 0, 9)], immutable=True)
            warehouse.read_immutable("db.db/t/file", 10)
        assert len(CountingFileSystem.reads) == 3 * 2 + 2

    def test_what_is_not_as_long_as_it_should_be_is_not_kept(self, counting: str, tmp_path: Path) -> None:
        disk = DiskTier(tmp_path / "cache", 1 << 20)
        warehouse = Warehouse("w", counting, disk=disk)
        assert warehouse.read_immutable("db.db/t/file", 11) == b"0123456789"
        assert disk.statistics().entries == 0

    def test_of_an_object_that_ends_early_what_there_is_is_kept(
        self, root: Path, counting: str, tmp_path: Path
    ) -> None:
        for url, entries in ((str(root), 0), (counting, 1)):
            disk = DiskTier(tmp_path / "cache", 1 << 20)
            warehouse = Warehouse("w", url, disk=disk)
            for _ in range(2):
                assert warehouse.read_ranges([("db.db/t/file", 5, 9)], immutable=True) == [b"56789"]
            assert disk.statistics().entries == entries
        assert len(CountingFileSystem.reads) == 1

    def test_what_may_not_be_read_is_not_read_from_the_disk(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "external").mkdir()
        (tmp_path / "external" / "data").write_bytes(b"external")
        path, disk = f"file:{tmp_path}/external/data", DiskTier(tmp_path / "cache", 1 << 20)
        open_ = Warehouse("w", str(root), allow_external=[f"file:{tmp_path}/external"], disk=disk)
        assert open_.read_immutable(path, 8) == b"external"
        assert open_.read_ranges([(path, 0, 8)], immutable=True) == [b"external"]
        closed = Warehouse("w", str(root), disk=disk)
        with pytest.raises(PathNotAllowedError):
            closed.read_immutable(path, 8)
        (answer,) = closed.read_ranges([(path, 0, 8)], immutable=True)
        assert isinstance(answer, PathNotAllowedError)


PATHS = [
    "db.db/t/file",
    "db.db/t/long",
    "db.db/t/inside",
    "db.db/t/outside",
    "db.db/t/none",
    "db.db/linked/file",
    "../secret",
]


@given(
    ranges=st.lists(
        st.tuples(st.sampled_from(PATHS), st.integers(-1, 20_000), st.integers(-1, 20_000)), max_size=20
    ),
    scheme=st.sampled_from(["", "counting:/"]),
)
def test_what_copies_hold_is_what_is_read(ranges: list[tuple[str, int, int]], scheme: str) -> None:
    """Those of links, of files that are not there, and those asked for twice or of nothing as well."""
    fsspec.register_implementation("counting", CountingFileSystem, clobber=True)
    with TemporaryDirectory() as name:
        above = Path(name).resolve()
        directory = above / "w" / "db.db" / "t"
        directory.mkdir(parents=True)
        (directory / "file").write_bytes(b"0123456789")
        (directory / "long").write_bytes(LONG)
        (directory / "inside").symlink_to("long")
        (directory / "outside").symlink_to(above / "secret")
        (directory.parent / "linked").symlink_to("t")
        (above / "secret").write_bytes(b"secret")
        disk = DiskTier(above / "cache", 1 << 20)
        warehouse = Warehouse("w", f"{scheme}{above}/w", disk=disk, max_file_bytes=15_000)
        expected = warehouse.read_ranges(ranges)
        for _ in range(2):
            for wanted, found in zip(expected, warehouse.read_ranges(ranges, immutable=True), strict=True):
                assert type(found) is type(wanted)
                assert found == wanted or isinstance(found, PaimonIndexError)
        warehouse.readers.close()


GAP, LONGEST = 8 << 10, 8 << 20
RANGES = st.builds(
    FileRange,
    st.sampled_from(["a", "b"]),
    st.integers(0, 1 << 24),
    st.one_of(st.integers(0, 1 << 10), st.integers(0, 1 << 24)),
)


def test_neighbours_of_one_file_are_read_together() -> None:
    head, body, far, other = (
        FileRange("a", 0, 512),
        FileRange("a", 512 + GAP, 100),
        FileRange("a", 512 + GAP + 100 + GAP + 1, 100),
        FileRange("b", 512, 10),
    )
    merged = merge_ranges([far, other, body, head])
    assert [(one.whole, one.parts) for one in merged] == [
        (FileRange("a", 0, body.end), [head, body]),
        (far, [far]),
        (other, [other]),
    ]


def test_overlapping_ranges_are_read_once() -> None:
    outer, inner, tail = FileRange("a", 0, 100), FileRange("a", 10, 20), FileRange("a", 90, 20)
    (merged,) = merge_ranges([tail, inner, outer])
    assert merged.whole == FileRange("a", 0, 110)


def test_no_merged_range_grows_without_bound() -> None:
    ranges = [FileRange("a", start << 20, 1 << 20) for start in range(100)]
    assert {merged.whole.length for merged in merge_ranges(ranges)} == {LONGEST, 4 << 20}


@given(st.lists(RANGES, max_size=30))
def test_each_range_lies_in_one_that_is_read(ranges: list[FileRange]) -> None:
    merged = merge_ranges(ranges)
    assert sorted(part for one in merged for part in one.parts) == sorted(ranges)
    for one in merged:
        for part in one.parts:
            assert part.path == one.whole.path
            assert one.whole.offset <= part.offset
            assert part.end <= one.whole.end
        assert one.whole.length <= max(LONGEST, *(part.length for part in one.parts))
        assert one.whole.length <= sum(part.length + GAP for part in one.parts)


@given(st.lists(RANGES, max_size=30), st.integers(1, 9), st.integers(1, 1 << 25))
def test_portions_are_bounded(ranges: list[FileRange], most: int, most_bytes: int) -> None:
    merged = merge_ranges(ranges)
    found = list(portions(merged, most, most_bytes))
    assert [each for portion in found for each in portion] == merged
    for portion in found:
        assert len(portion) <= most
        assert len(portion) == 1 or sum(each.whole.length for each in portion) <= most_bytes
