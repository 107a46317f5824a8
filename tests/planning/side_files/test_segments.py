"""Segments of index files: what comes to them piece by piece is as if it had come at once."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.file_index import container
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, IndexKind
from app.file_index.stacked_index import Heads
from app.planning.side_files.fetch import UNKNOWN_SIZE
from app.planning.side_files.segments import (
    FILES_OF_HEADS,
    BodySegment,
    HeadSegment,
    body_bytes,
    body_name,
    files_of_bodies,
    heads_name,
    is_worth_keeping,
    merged,
)
from app.storage.disk.disk_tier import DiskTier
from app.types.bytes_column import BytesColumn
from tests.planning.tables_beside import Beside, large, small
from tests.tables import names_of, open_service

STRINGS = st.lists(st.none() | st.binary(max_size=4), min_size=1, max_size=6)
COUNT = 6
ASKED = frozenset([("id", BLOOM_FILTER), ("cat", BITMAP)])


def index(file: int) -> bytes:
    """Return a container with payloads that tell the file; each third file has an index less."""
    cat = [] if file % 3 == 2 else [("bitmap", bytes([100 + file]) * 3)]
    return container.write({"id": [("bloom-filter", bytes([file]) * (file + 1))], "cat": cat})


def with_fronts(segment: HeadSegment, files: Sequence[int]) -> HeadSegment:
    """Return the segment with further files: small ones come as a whole, large ones as their heads."""
    contents = [index(file)[: None if file % 2 else int.from_bytes(index(file)[12:16])] for file in files]
    sizes = [
        len(content) if file % 2 else UNKNOWN_SIZE for file, content in zip(files, contents, strict=True)
    ]
    places, before = np.array(files, np.int64), segment.heads.buffers.data
    added = BytesColumn.of(contents)
    behind = BytesColumn(np.concatenate([before, added.data]), added.starts + len(before), added.lengths)
    return segment.with_fronts(places, behind, np.array(sizes, np.int64))


def payloads_of(heads: Heads, file: int) -> dict[tuple[str, str], bytes]:
    return {
        (entry.column, entry.kind): index(file)[entry.start : entry.end]
        for listed in heads.entries(file).values()
        for entry in listed
    }


@st.composite
def turns(draw: st.DrawFn) -> list[list[int]]:
    """Return the files of a segment, in portions."""
    order = draw(st.permutations(range(COUNT)))
    cuts = sorted(draw(st.lists(st.integers(0, COUNT), max_size=3)))
    return [order[start:stop] for start, stop in zip([0, *cuts], cuts, strict=False)]


@given(strings=STRINGS, data=st.data())
def test_strings_are_put_into_their_places(strings: list[bytes | None], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.sampled_from(range(len(strings))), unique=True))
    added = data.draw(st.lists(st.none() | st.binary(max_size=4), min_size=len(places), max_size=len(places)))

    found = merged(BytesColumn.of(strings), np.array(places, np.int64), BytesColumn.of(added))

    assert list(found) == [
        dict(zip(places, added, strict=True)).get(at, string) for at, string in enumerate(strings)
    ]


@given(portions=turns())
def test_heads_come_in_any_order(portions: list[list[int]]) -> None:
    segment = HeadSegment.none(COUNT)
    for files in portions:
        segment = with_fronts(segment, files)

    known = sorted(file for files in portions for file in files)
    assert np.flatnonzero(segment.has(np.arange(COUNT))).tolist() == known
    at_once = with_fronts(HeadSegment.none(COUNT), known)
    for file in range(COUNT):
        assert segment.heads.entries(file) == at_once.heads.entries(file)
        assert bool(segment.heads.entries(file)) == (file in known)
    payloads = [payloads_of(segment.heads, file) for file in known]
    assert segment.listed(ASKED) == {key for each in payloads for key in each}
    assert segment.largest_body(ASKED) == max((sum(map(len, each.values())) for each in payloads), default=0)


@given(portions=turns())
def test_payloads_come_in_any_order(portions: list[list[int]]) -> None:
    heads = with_fronts(HeadSegment.none(COUNT), range(COUNT)).heads
    segment = BodySegment.none(heads)
    for files in portions:
        found = [payloads_of(heads, file) for file in files]
        column = {key: BytesColumn.of([each.get(key) for each in found]) for key in map(_key, ASKED)}
        segment = segment.with_payloads(heads, np.array(files, np.int64), column)

    known = sorted(file for files in portions for file in files)
    assert np.flatnonzero(segment.fetched).tolist() == known
    for file in known:
        opened = segment.index.file_index(file)
        assert {
            (entry.column, entry.kind): bytes(opened.payload(entry))
            for listed in opened.entries.values()
            for entry in listed
        } == payloads_of(heads, file)


def _key(wanted: tuple[str, IndexKind]) -> tuple[str, str]:
    column, kind = wanted
    return column, kind


def test_files_whose_heads_are_not_known_any_more_are_fetched_again() -> None:
    """Heads are dropped from their cache on their own."""
    every = with_fronts(HeadSegment.none(COUNT), range(COUNT)).heads
    one = with_fronts(HeadSegment.none(COUNT), [3]).heads

    def column(files: Sequence[int]) -> dict[tuple[str, str], BytesColumn]:
        return {
            key: BytesColumn.of([payloads_of(every, file)[key] for file in files])
            for key in [("id", "bloom-filter")]
        }

    segment = BodySegment.none(every).with_payloads(every, np.array([1, 2]), column([1, 2]))
    segment = segment.with_payloads(one, np.array([3]), column([3]))

    assert np.flatnonzero(segment.fetched).tolist() == [3]


@pytest.mark.parametrize(
    ("largest_body", "files"),
    [
        (0, FILES_OF_HEADS),
        (1, FILES_OF_HEADS),
        (8 << 10, FILES_OF_HEADS),
        (32 << 10, 2048),
        (599_071, 64),
        (1 << 20, 64),
        (1 << 40, 1),
    ],
)
def test_the_larger_payloads_are_the_fewer_files_share_a_segment(largest_body: int, files: int) -> None:
    assert files_of_bodies(largest_body) == files
    assert FILES_OF_HEADS % files == 0


def test_with_little_memory_fewer_files_share_a_segment(limit_memory: Callable[[int], None]) -> None:
    limit_memory(512 << 20)

    assert files_of_bodies(1 << 20) == 16
    assert files_of_bodies(1 << 40) == 1


def test_bytes_of_payloads_are_known_before_they_are_fetched() -> None:
    heads = with_fronts(HeadSegment.none(COUNT), [0, 1, 2]).heads

    assert body_bytes(heads, np.array([0, 1]), ASKED) == 1 + 3 + 2 + 3
    assert body_bytes(heads, np.array([2, 3]), ASKED) == 3
    assert body_bytes(heads, np.array([0, 1, 2]), frozenset([("cat", BITMAP)])) == 6
    assert body_bytes(heads, np.array([0]), frozenset()) == 0


FILTERS = {
    "cat = 3": ["3"],
    "id = 4": ["4"],
    "id = 2 AND cat = 2": ["2"],
    "place >= 1 AND (cat = 0 OR id = 5)": ["5"],
    "cat = 8": [],
}


class Restarted:
    def __init__(self, directory: Path, index: Callable[[int], bytes]) -> None:
        self.warehouse, self.cache = directory / "warehouse", directory / "cache"
        self.warehouse.mkdir()
        self.beside = Beside.write(self.warehouse, index)

    def kept(self, *filters: str) -> list[list[str]]:
        """Return what a process that starts anew keeps of the table."""
        found = []
        with closing(open_service(self.warehouse, disk=DiskTier(self.cache, 1 << 30))) as service:
            for each in filters:
                plan = self.beside.made.plan(service, each)
                assert not plan.warnings
                found.append(names_of(plan.files))
        return found

    def entries(self) -> list[Path]:
        return [
            path
            for path in self.cache.rglob("*")
            if path.is_file() and b"of index files" in path.read_bytes()
        ]

    def lose_index_files(self) -> None:
        """Nothing is left of them but segments."""
        for path in self.beside.made.directory.rglob("*.index"):
            path.unlink()


@pytest.fixture(params=[large, small], ids=["large", "small"])
def restarted(tmp_path: Path, request: pytest.FixtureRequest) -> Restarted:
    return Restarted(tmp_path, request.param)


def test_what_is_not_kept_yet_is_read_and_kept_as_well(restarted: Restarted) -> None:
    assert restarted.kept("place IN (1, 5) AND cat = 1", "place = 2 AND id = 2") == [["1"], ["2"]]

    assert restarted.kept(*FILTERS) == list(FILTERS.values())
    restarted.lose_index_files()

    assert restarted.kept(*FILTERS) == list(FILTERS.values())


def test_damaged_segments_are_read_again(restarted: Restarted) -> None:
    restarted.kept(*FILTERS)
    assert restarted.entries()
    for entry in restarted.entries():
        written = entry.read_bytes()
        # Mapped files are never written to, but replaced.
        entry.unlink()
        entry.write_bytes(written[:-100] + bytes(byte ^ 1 for byte in written[-100:]))

    assert restarted.kept(*FILTERS) == list(FILTERS.values())


def payloads_in(column: BytesColumn) -> dict[tuple[str, str], BytesColumn]:
    return {(name, str(kind)): column for name, kind in ASKED}


def test_a_few_new_heads_are_no_reason_to_write_all_anew() -> None:
    segment = with_fronts(HeadSegment.none(COUNT), [0, 1, 2, 3])
    assert is_worth_keeping(segment)

    kept = HeadSegment.restore(segment.stored())
    one_more = with_fronts(kept, [5])
    assert not is_worth_keeping(one_more)
    assert is_worth_keeping(with_fronts(one_more, [4]))


def test_indexes_come_back_for_the_question_that_they_were_read_for() -> None:
    heads = with_fronts(HeadSegment.none(COUNT), range(COUNT)).heads
    payloads = payloads_in(BytesColumn.of([index(0)[-3:], index(3)[-3:]]))
    segment = BodySegment.none(heads).with_payloads(heads, np.array([0, 3]), payloads)

    restored = BodySegment.restore(segment.stored(), ASKED, heads)

    assert np.flatnonzero(restored.fetched).tolist() == [0, 3]
    assert {key: list(column) for key, column in (restored.index.fetched or {}).items()} == {
        key: list(column) for key, column in (segment.index.fetched or {}).items()
    }
    assert not BodySegment.restore(segment.stored(), frozenset([("score", BITMAP)]), heads).loaded_files


def test_segments_of_other_questions_and_places_have_other_names() -> None:
    fewer = frozenset(sorted(ASKED)[:1])
    bodies = [body_name(*of) for of in ((0, 8, ASKED), (8, 8, ASKED), (8, 16, ASKED), (8, 8, fewer))]

    assert len({*bodies, heads_name(0), heads_name(8)}) == 6


def test_indexes_whose_heads_are_not_known_are_left_out() -> None:
    heads = with_fronts(HeadSegment.none(COUNT), range(COUNT)).heads
    payloads = payloads_in(BytesColumn.of([b"abc"] * COUNT))
    stored = BodySegment.none(heads).with_payloads(heads, np.arange(COUNT), payloads).stored()

    restored = BodySegment.restore(stored, ASKED, with_fronts(HeadSegment.none(COUNT), [1, 4]).heads)

    assert np.flatnonzero(restored.fetched).tolist() == [1, 4]
