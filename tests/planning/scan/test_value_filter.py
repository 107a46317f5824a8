"""Statistics of FLOAT and DOUBLE, which some writers leave NaN out of, beside indexes, which know NaN."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.file_index.index_kinds import RANGE_BITMAP
from app.planning.scan.first_rows import Candidates, beyond_top_n
from app.table.manifests.manifest_entry import ManifestEntry
from app.types import DataField, parse_type, sql_key
from app.types.binary_row.row import serialize_row
from tests.file_bounds import FileBounds, column_bounds
from tests.tables import MadeTable, MadeTables, entry, index_of, names_of, open_service, statistics

ID: Final = DataField(0, "id", parse_type("INT NOT NULL"))
RATIO: Final = DataField(1, "ratio", parse_type("DOUBLE"))


def written(name: str, ratios: Sequence[float], index: bytes | None = None) -> ManifestEntry:
    low, high = serialize_row([1], [ID.type]), serialize_row([2], [ID.type])
    return entry(
        file_name=f"{name}.parquet",
        row_count=len(ratios),
        min_key=low,
        max_key=high,
        embedded_index=index,
        **statistics({RATIO: ratios}),
    )


INDEXED: Final = index_of({RATIO: [2.0, 3.0]}, RANGE_BITMAP)
FILES: Final = (
    written("small", [1.0, 5.0]),
    written("large", [50.0, 500.0]),
    written("indexed", [2.0, 3.0], INDEXED),
    written("also_small", [2.0, 4.0]),
)
TOLD: Final = "files are kept only because their writer may have ignored NaN"


@pytest.mark.parametrize(
    ("condition", "kept", "for_nan"),
    [
        ("ratio > 100", ["small", "large", "also_small"], 2),
        ("NOT (ratio <= 100)", ["small", "large", "also_small"], 2),
        ("ratio >= double('NaN')", ["small", "large", "indexed", "also_small"], None),
        ("ratio < 0", [], 0),
        ("ratio = 7", [], 0),
        ("id = 1 AND ratio BETWEEN 6 AND 7", [], 0),
    ],
)
def test_a_maximum_says_nothing_of_nan_and_an_index_does(
    warehouse: MadeTables, condition: str, kept: list[str], for_nan: int | None
) -> None:
    table = warehouse.make([ID, RATIO])
    table.commit(FILES)

    plan = table.plan(warehouse.service, condition)

    assert names_of(plan.files) == [f"{name}.parquet" for name in kept]
    if for_nan is not None:
        told = [warning for warning in plan.warnings if TOLD in warning]
        assert [warning.split(" ", 1)[0] for warning in told] == ([str(for_nan)] if for_nan else [])
        assert all("warehouse golden, name it in PAIMON_INDEX_ENGINE_WRITES_ONLY" in each for each in told)


def test_where_only_the_engine_writes_the_maximum_counts(tmp_path: Path) -> None:
    table = MadeTable.make(tmp_path, [ID, RATIO])
    table.commit(FILES)
    service = open_service(tmp_path, engine_writes_only=True)

    plan = table.plan(service, "ratio > 100")

    assert names_of(plan.files) == ["large.parquet"]
    assert plan.warnings == ()
    assert all(not file.residual for file in table.plan(service, "ratio < 1000").files)
    service.close()


def test_no_row_is_proven_to_lie_below_a_literal(warehouse: MadeTables) -> None:
    table = warehouse.make([ID, RATIO])
    table.commit(FILES)

    assert [file.residual for file in table.plan(warehouse.service, "ratio < 1000").files] == [
        True,
        True,
        False,
        True,
    ]
    assert len(table.plan(warehouse.service, "ratio < 1000", limit=3).files) == 4
    # What lies above a minimum does so with NaN, too.
    assert not any(file.residual for file in table.plan(warehouse.service, "ratio > 0").files)


def test_files_that_merge_with_one_that_matches_are_not_kept_for_nan(warehouse: MadeTables) -> None:
    table = warehouse.make([ID, RATIO], primary_key=[ID], options={"bucket": "1"})
    table.commit([written("small", [1.0, 5.0]), written("large", [50.0, 500.0])])

    assert len(table.plan(warehouse.service, "ratio > 100").files) == 2
    assert table.plan(warehouse.service, "ratio > 100").warnings == ()
    assert table.plan(warehouse.service, "ratio > 1000").warnings[0].startswith("2 files")


Rows: TypeAlias = list[float | None]

_DOUBLE = parse_type("DOUBLE")
_KEY = sql_key(_DOUBLE)
_VALUES = st.one_of(st.none(), st.sampled_from([-2.0, -0.0, 0.0, 1.0, 3.0, math.inf, math.nan]))
_FILES = st.lists(st.lists(_VALUES, min_size=1, max_size=5), max_size=6)


@dataclass(frozen=True)
class Candidate:
    bounds: FileBounds
    sure_rows: int
    whole: bool


def bounds_of(rows: Rows, *, nan_counted: bool) -> FileBounds:
    """Return what a writer records: the extremes of the values, without NaN as in ORC, or NaN as the top."""
    values = [value for value in rows if value is not None]
    ordered = sorted((value for value in values if nan_counted or not math.isnan(value)), key=_KEY)
    low, high = (ordered[0], ordered[-1]) if ordered else (None, None)
    return FileBounds(low, high, len(rows) - len(values), len(rows), may_hold_nan=not nan_counted)


def dropped_of(
    candidates: list[Candidate], limit: int, *, descending: bool, nulls_first: bool, single_key: bool
) -> set[int]:
    dropped = beyond_top_n(
        Candidates(
            column_bounds(_DOUBLE, [each.bounds for each in candidates]),
            np.array([each.sure_rows for each in candidates], np.int64),
            np.array([each.whole for each in candidates], np.bool_),
        ),
        _DOUBLE,
        limit,
        descending=descending,
        nulls_first=nulls_first,
        single_key=single_key,
    )
    return set(np.flatnonzero(dropped).tolist())


def places(rows: Rows, *, descending: bool, nulls_first: bool) -> list[tuple[int, float, float]]:
    """Return the sort place of each row: comparable, equal for ties."""
    found = []
    for value in rows:
        if value is None:
            found.append((0 if nulls_first else 2, 0.0, 0.0))
        else:
            is_nan, number = math.isnan(value), 0.0 if math.isnan(value) else value
            sign = -1 if descending else 1
            found.append((1, sign * float(is_nan), sign * number))
    return found


@given(
    files=_FILES,
    limit=st.integers(0, 8),
    descending=st.booleans(),
    nulls_first=st.booleans(),
    nan_counted=st.booleans(),
)
def test_kept_files_hold_an_answer(
    files: list[Rows], limit: int, *, descending: bool, nulls_first: bool, nan_counted: bool
) -> None:
    candidates = [
        Candidate(bounds_of(rows, nan_counted=nan_counted), len(rows), whole=True) for rows in files
    ]
    ordered = [sorted(places(rows, descending=descending, nulls_first=nulls_first)) for rows in files]
    answer = sorted(place for rows in ordered for place in rows)[:limit]

    for single_key in (True, False):
        dropped = dropped_of(
            candidates, limit, descending=descending, nulls_first=nulls_first, single_key=single_key
        )
        kept = [place for at, rows in enumerate(ordered) if at not in dropped for place in rows]
        if single_key:
            assert sorted(kept)[:limit] == answer
        else:
            ties = [place for at in dropped for place in ordered[at] if answer and place <= answer[-1]]
            assert not ties, "a further key may prefer these rows"


@given(files=_FILES, limit=st.integers(1, 8), data=st.data())
def test_rows_that_are_not_sure_push_nobody_out(files: list[Rows], limit: int, data: st.DataObject) -> None:
    """Of each file only some rows are live, and the planner knows their number but not which."""
    live = [data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True)) for rows in files]
    candidates = [
        Candidate(bounds_of(rows, nan_counted=True), len(alive), whole=len(alive) == len(rows))
        for rows, alive in zip(files, live, strict=True)
    ]
    ordered = [
        places([rows[at] for at in alive], descending=False, nulls_first=True)
        for rows, alive in zip(files, live, strict=True)
    ]
    answer = sorted(place for rows in ordered for place in rows)[:limit]

    dropped = dropped_of(candidates, limit, descending=False, nulls_first=True, single_key=True)

    kept = [place for at, rows in enumerate(ordered) if at not in dropped for place in rows]
    assert sorted(kept)[:limit] == answer


def test_files_without_statistics_stay() -> None:
    low = Candidate(FileBounds(0.0, 1.0, 0, 10, may_hold_nan=False), 10, whole=True)
    unknown = Candidate(FileBounds(None, None, None, 10), 10, whole=True)

    dropped = dropped_of([low, unknown], 1, descending=False, nulls_first=False, single_key=True)

    assert dropped == set()


def test_a_file_of_nulls_takes_nobodys_place_when_nulls_come_last() -> None:
    nulls = Candidate(FileBounds(None, None, 10, 10, may_hold_nan=False), 10, whole=True)
    low = Candidate(FileBounds(0.0, 1.0, 0, 10, may_hold_nan=False), 10, whole=True)
    high = Candidate(FileBounds(5.0, 6.0, 0, 10, may_hold_nan=False), 10, whole=True)

    dropped = dropped_of([nulls, low, high], 10, descending=False, nulls_first=False, single_key=True)

    assert dropped == {0, 2}
