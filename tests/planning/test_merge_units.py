"""Merge units against simulated buckets, whose files are told key by key."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from app.planning.merge_units import KeyRange, merge_units, sections
from app.types import DataField, parse_type
from tests.table.entries import data_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.planning.merge_units import MergeUnit

Key: TypeAlias = tuple[int, bytes]

KEY_FIELDS = (DataField(0, "id", parse_type("INT")), DataField(1, "part", parse_type("STRING")))

_KEYS = st.tuples(st.integers(-4, 12), st.sampled_from([b"", b"a", "é".encode()]))
_DELETES = st.sampled_from([None, 0, 0, 0, 2])


class SimulatedFile:
    """A data file and the keys in it."""

    def __init__(self, number: int, keys: Sequence[Key], level: int, deletes: int | None) -> None:
        self.keys = frozenset(keys)
        self.range = KeyRange(
            data_file(file_name=f"data-{number}.parquet", level=level, delete_row_count=deletes),
            min(keys),
            max(keys),
        )

    def overlaps(self, other: SimulatedFile) -> bool:
        return self.range.min_key <= other.range.max_key and other.range.min_key <= self.range.max_key


@st.composite
def buckets(
    draw: st.DrawFn,
    levels: Sequence[int] = (0, 1, 3, 5),
    deletes: st.SearchStrategy[int | None] = _DELETES,
) -> list[SimulatedFile]:
    """Files of one bucket: those of level 0 hold any keys, within a higher level key ranges are disjoint."""
    parts: list[tuple[int, Sequence[Key]]] = []
    for level in levels:
        if level == 0:
            flushed = draw(st.lists(st.lists(_KEYS, min_size=1, max_size=3), max_size=4))
            parts.extend((0, keys) for keys in flushed)
            continue
        keys = sorted(draw(st.sets(_KEYS, max_size=6)))
        while keys:
            size = draw(st.integers(1, len(keys)))
            parts.append((level, keys[:size]))
            keys = keys[size:]
    parts = draw(st.permutations(parts))
    return [SimulatedFile(at, keys, level, draw(deletes)) for at, (level, keys) in enumerate(parts)]


def units_of(bucket: Sequence[SimulatedFile], *, one_version: bool) -> list[MergeUnit]:
    return merge_units([each.range for each in bucket], KEY_FIELDS, one_version=one_version)


def unit_numbers(bucket: Sequence[SimulatedFile], units: Sequence[MergeUnit]) -> list[int]:
    """The unit of each file."""
    numbers = {file.file_name: at for at, unit in enumerate(units) for file in unit.files}
    return [numbers[each.range.file.file_name] for each in bucket]


@given(bucket=buckets(), one_version=st.booleans())
def test_units_partition_the_files(bucket: list[SimulatedFile], *, one_version: bool) -> None:
    units = units_of(bucket, one_version=one_version)

    names = [file.file_name for unit in units for file in unit.files]
    assert sorted(names) == sorted(each.range.file.file_name for each in bucket)
    assert all(unit.files for unit in units)


@given(bucket=buckets())
def test_all_versions_of_a_key_lie_in_one_unit(bucket: list[SimulatedFile]) -> None:
    numbers = unit_numbers(bucket, units_of(bucket, one_version=False))

    for key in frozenset[Key]().union(*(each.keys for each in bucket)):
        assert len({unit for file, unit in zip(bucket, numbers, strict=True) if key in file.keys}) == 1


@given(bucket=buckets())
def test_files_share_a_unit_exactly_when_a_chain_of_overlaps_joins_them(bucket: list[SimulatedFile]) -> None:
    reached = list(range(len(bucket)))
    for left, right in combinations(range(len(bucket)), 2):
        if bucket[left].overlaps(bucket[right]):
            joined, gone = sorted((reached[left], reached[right]))
            reached = [joined if each == gone else each for each in reached]

    numbers = unit_numbers(bucket, units_of(bucket, one_version=False))

    for left, right in combinations(range(len(bucket)), 2):
        assert (numbers[left] == numbers[right]) == (reached[left] == reached[right])


@given(bucket=buckets(), one_version=st.booleans())
def test_a_raw_convertible_unit_is_one_file_without_delete_rows(
    bucket: list[SimulatedFile], *, one_version: bool
) -> None:
    for unit in units_of(bucket, one_version=one_version):
        alone_and_clean = len(unit.files) == 1 and not unit.files[0].delete_row_count
        assert unit.raw_convertible == alone_and_clean


@given(bucket=buckets(levels=(1, 3), deletes=st.sampled_from([None, 0])))
def test_with_one_version_compacted_files_never_merge(bucket: list[SimulatedFile]) -> None:
    units = units_of(bucket, one_version=True)

    assert [unit.files for unit in units] == [(each.range.file,) for each in bucket]
    assert all(unit.raw_convertible for unit in units)


def test_a_delete_row_makes_overlapping_files_merge_even_with_one_version() -> None:
    clean = SimulatedFile(0, [(1, b""), (5, b"")], level=1, deletes=0)
    with_deletes = SimulatedFile(1, [(3, b""), (9, b"")], level=2, deletes=1)

    units = units_of([clean, with_deletes], one_version=True)

    assert [len(unit.files) for unit in units] == [2]
    assert not units[0].raw_convertible


def test_a_null_in_a_key_sorts_before_every_value() -> None:
    nullable = KeyRange(data_file(file_name="null"), (None, b""), (1, b""))
    before = KeyRange(data_file(file_name="before"), (None, b""), (None, b"z"))
    after = KeyRange(data_file(file_name="after"), (2, b""), (3, b""))

    grouped = sections([after, nullable, before], KEY_FIELDS)

    assert [{file.file_name for file in section} for section in grouped] == [{"null", "before"}, {"after"}]
