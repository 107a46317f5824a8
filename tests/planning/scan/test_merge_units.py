"""Merge units against simulated buckets, whose files are told key by key."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Self, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.planning.plan.answers import Plan
from app.planning.scan.merge_units import MergeUnits, merge_units
from app.planning.version.files import FileColumns
from app.table.manifests.manifest_entry import ManifestEntry, RowStatistics
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests.tables import MadeTables, entry, names_of, statistics

Key: TypeAlias = tuple[int, bytes]

_KEYS = st.tuples(st.integers(-4, 12), st.sampled_from([b"", b"a", "é".encode()]))
_DELETES = st.sampled_from([0, 0, 0, 2])


@dataclass(frozen=True)
class SimulatedFile:
    keys: frozenset[Key]
    level: int
    deletes: int

    @property
    def low(self) -> Key:
        return min(self.keys)

    @property
    def high(self) -> Key:
        return max(self.keys)

    def overlaps(self, other: Self) -> bool:
        return self.low <= other.high and other.low <= self.high


@st.composite
def buckets(
    draw: st.DrawFn, levels: Sequence[int] = (0, 1, 3, 5), deletes: st.SearchStrategy[int] = _DELETES
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
    return [SimulatedFile(frozenset(keys), level, draw(deletes)) for level, keys in parts]


def columns_of(table: Sequence[Sequence[SimulatedFile]]) -> FileColumns:
    """Return the files of some buckets of one partition."""
    files = [(file, bucket) for bucket, members in enumerate(table) for file in members]
    nothing = np.zeros(len(files), np.int64)
    return FileColumns(
        rows=(None,),
        starts=np.array([0, len(files)]),
        partitions=(b"",),
        partition_codes=nothing.astype(np.int32),
        buckets=np.array([bucket for _, bucket in files], np.int32),
        total_buckets=nothing.astype(np.int32),
        levels=np.array([file.level for file, _ in files], np.int32),
        schema_ids=nothing,
        row_counts=nothing,
        file_sizes=nothing,
        delete_row_counts=np.array([file.deletes for file, _ in files], np.int64),
    )


def units_of(table: Sequence[Sequence[SimulatedFile]], *, one_version: bool) -> MergeUnits:
    files = [file for members in table for file in members]
    order = {key: rank for rank, key in enumerate(sorted({key for file in files for key in file.keys}))}

    def ranks(asked: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        low = [order[files[at].low] for at in asked.tolist()]
        high = [order[files[at].high] for at in asked.tolist()]
        return np.array(low, np.int64), np.array(high, np.int64)

    return merge_units(np.arange(len(files)), columns_of(table), ranks, one_version=one_version)


def unit_numbers(units: MergeUnits) -> list[int]:
    numbers = dict(zip(units.files.tolist(), units.numbers.tolist(), strict=True))
    return [numbers[at] for at in range(len(units.files))]


@given(table=st.lists(buckets(), max_size=3), one_version=st.booleans())
def test_units_partition_the_files_of_each_bucket(
    table: list[list[SimulatedFile]], *, one_version: bool
) -> None:
    units = units_of(table, one_version=one_version)
    owners = [bucket for bucket, members in enumerate(table) for _ in members]

    assert sorted(units.files.tolist()) == list(range(len(owners)))
    assert units.sizes.sum() == len(owners)
    for unit in range(len(units.starts)):
        assert len({owners[at] for at in units.files[units.numbers == unit].tolist()}) == 1


@given(table=st.lists(buckets(), min_size=2, max_size=3), one_version=st.booleans())
def test_buckets_do_not_matter_to_one_another(table: list[list[SimulatedFile]], *, one_version: bool) -> None:
    together = units_of(table, one_version=one_version)
    apart = [units_of([bucket], one_version=one_version) for bucket in table]

    assert together.sizes.tolist() == [size for units in apart for size in units.sizes.tolist()]
    assert together.raw_convertible.tolist() == [
        raw for units in apart for raw in units.raw_convertible.tolist()
    ]


@given(bucket=buckets())
def test_files_share_a_unit_exactly_when_a_chain_of_overlaps_joins_them(bucket: list[SimulatedFile]) -> None:
    reached = list(range(len(bucket)))
    for left, right in combinations(range(len(bucket)), 2):
        if bucket[left].overlaps(bucket[right]):
            joined, gone = sorted((reached[left], reached[right]))
            reached = [joined if each == gone else each for each in reached]

    numbers = unit_numbers(units_of([bucket], one_version=False))

    for left, right in combinations(range(len(bucket)), 2):
        assert (numbers[left] == numbers[right]) == (reached[left] == reached[right])


@given(bucket=buckets(), one_version=st.booleans())
def test_a_raw_convertible_unit_is_one_file_without_delete_rows(
    bucket: list[SimulatedFile], *, one_version: bool
) -> None:
    units = units_of([bucket], one_version=one_version)

    for unit, raw_convertible in enumerate(units.raw_convertible.tolist()):
        members = [bucket[at] for at in units.files[units.numbers == unit].tolist()]
        assert raw_convertible == (len(members) == 1 and members[0].deletes == 0)


@given(bucket=buckets(levels=(1, 3), deletes=st.just(0)))
def test_with_one_version_compacted_files_never_merge(bucket: list[SimulatedFile]) -> None:
    units = units_of([bucket], one_version=True)

    assert units.sizes.tolist() == [1] * len(bucket)
    assert units.raw_convertible.all()


def test_a_delete_row_makes_overlapping_files_merge_even_with_one_version() -> None:
    clean = SimulatedFile(frozenset([(1, b""), (5, b"")]), level=1, deletes=0)
    with_deletes = SimulatedFile(frozenset([(3, b""), (9, b"")]), level=2, deletes=1)

    units = units_of([[clean, with_deletes]], one_version=True)

    assert units.sizes.tolist() == [2]
    assert units.raw_convertible.tolist() == [False]


ID: Final = DataField(0, "id", parse_type("INT NOT NULL"))
SCORE: Final = DataField(1, "score", parse_type("INT"))
VECTORS: Final = {"bucket": "1", "deletion-vectors.enabled": "true"}


def written(name: str, ids: Sequence[int], scores: Sequence[int], level: int) -> ManifestEntry:
    low, high = (serialize_row([end(ids)], [ID.type]) for end in (min, max))
    return entry(
        file_name=f"{name}.parquet",
        row_count=len(ids),
        level=level,
        min_key=low,
        max_key=high,
        key_statistics=RowStatistics(low, high, (0,)),
        **statistics({ID: ids, SCORE: scores}),
    )


OLD: Final = written("old", [1, 2, 3], [10, 20, 30], level=5)
FAR: Final = written("far", [7, 8], [70, 80], level=4)
NEW: Final = written("new", [2, 4], [99, 95], level=0)


def plan_of(warehouse: MadeTables, options: dict[str, str], condition: str) -> Plan:
    table = warehouse.make([ID, SCORE], primary_key=[ID], options=VECTORS | options)
    table.commit([OLD, FAR, NEW])
    return table.plan(warehouse.service, condition)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("score = 99", ["old", "new"]),
        # The row of id 2 is 99 now: alone, its file of old would bring 20 back to life.
        ("score = 20", ["old", "new"]),
        ("score = 80", ["far"]),
        ("id = 4", ["new"]),
        ("score = 5", []),
        ("true", ["old", "far", "new"]),
    ],
)
def test_new_files_are_read_with_those_whose_keys_they_may_share(
    warehouse: MadeTables, condition: str, kept: list[str]
) -> None:
    plan = plan_of(warehouse, {"deletion-vectors.merge-on-read": "true"}, condition)

    assert sorted(names_of(plan.files)) == sorted(f"{name}.parquet" for name in kept)
    assert plan.summary.files_invisible == 0
    merging = {file.file_name for file in plan.files if not file.raw_convertible}
    assert merging == ({"old.parquet", "new.parquet"} if {"old", "new"} <= set(kept) else set())


def test_a_limit_does_not_count_rows_of_files_that_merge(warehouse: MadeTables) -> None:
    options = VECTORS | {"deletion-vectors.merge-on-read": "true"}
    table = warehouse.make([ID, SCORE], primary_key=[ID], options=options)
    table.commit([OLD, NEW, FAR])

    assert names_of(table.plan(warehouse.service, limit=2).files) == ["far.parquet"]
    assert len(table.plan(warehouse.service, limit=3).files) == 3


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.merge-on-read": "false"}])
def test_otherwise_new_files_wait_for_a_compaction(warehouse: MadeTables, options: dict[str, str]) -> None:
    plan = plan_of(warehouse, options, "true")

    assert names_of(plan.files) == ["old.parquet", "far.parquet"]
    assert plan.summary.files_invisible == 1
