"""Segments of index files: what comes to them piece by piece is as if it had come at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.file_index import container
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, IndexKind
from app.file_index.stacked.index import Heads
from app.planning.side_files.fetch import UNKNOWN_SIZE
from app.planning.side_files.segments import (
    FILES_OF_HEADS,
    BodySegment,
    HeadSegment,
    body_bytes,
    files_of_bodies,
    merged,
)
from app.types.bytes_column import BytesColumn

STRINGS = st.lists(st.none() | st.binary(max_size=4), min_size=1, max_size=6)
COUNT = 6
ASKED = frozenset([("id", BLOOM_FILTER), ("cat", BITMAP)])


def index(file: int) -> bytes:
    """A container with payloads that tell the file; each third file has an index less."""
    cat = [] if file % 3 == 2 else [("bitmap", bytes([100 + file]) * 3)]
    return container.write({"id": [("bloom-filter", bytes([file]) * (file + 1))], "cat": cat})


def with_fronts(segment: HeadSegment, files: Sequence[int]) -> HeadSegment:
    """The segment with further files: small ones come as a whole, large ones as their heads."""
    contents = [index(file) if file % 2 else _head(index(file)) for file in files]
    sizes = [
        len(content) if file % 2 else UNKNOWN_SIZE for file, content in zip(files, contents, strict=True)
    ]
    places = np.array(files, np.int64)
    return segment.with_fronts(places, BytesColumn.of(contents), np.array(sizes, np.int64))


def _head(content: bytes) -> bytes:
    return content[: int.from_bytes(content[12:16])]


def payloads_of(heads: Heads, file: int) -> dict[tuple[str, str], bytes]:
    return {
        (entry.column, entry.kind): index(file)[entry.start : entry.end]
        for listed in heads.entries(file).values()
        for entry in listed
    }


@st.composite
def turns(draw: st.DrawFn) -> list[list[int]]:
    """The files of a segment, in portions."""
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
    segment = BodySegment.none(COUNT)
    for files in portions:
        found = [payloads_of(heads, file) for file in files]
        column = {key: BytesColumn.of([each.get(key) for each in found]) for key in map(_key, ASKED)}
        segment = segment.with_payloads(heads, np.array(files, np.int64), column)

    known = sorted(file for files in portions for file in files)
    assert np.flatnonzero(segment.fetched).tolist() == known
    for file in known:
        opened = segment.index.file_index(file)
        assert {
            (entry.column, entry.kind): bytes(view) for entry, view in opened.payloads.items()
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

    segment = BodySegment.none(COUNT).with_payloads(every, np.array([1, 2]), column([1, 2]))
    segment = segment.with_payloads(one, np.array([3]), column([3]))

    assert np.flatnonzero(segment.fetched).tolist() == [3]


@pytest.mark.parametrize(
    ("largest_body", "files"),
    [(0, FILES_OF_HEADS), (1, FILES_OF_HEADS), (8 << 10, 8192), (599_071, 64), (1 << 20, 64), (1 << 40, 1)],
)
def test_the_larger_payloads_are_the_fewer_files_share_a_segment(largest_body: int, files: int) -> None:
    assert files_of_bodies(largest_body) == files
    assert FILES_OF_HEADS % files == 0


def test_bytes_of_payloads_are_known_before_they_are_fetched() -> None:
    heads = with_fronts(HeadSegment.none(COUNT), [0, 1, 2]).heads

    assert body_bytes(heads, np.array([0, 1]), ASKED) == 1 + 3 + 2 + 3
    assert body_bytes(heads, np.array([2, 3]), ASKED) == 3
    assert body_bytes(heads, np.array([0, 1, 2]), frozenset([("cat", BITMAP)])) == 6
    assert body_bytes(heads, np.array([0]), frozenset()) == 0
