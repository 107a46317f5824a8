"""Bounds as other writers than the Java engine write them, and row ids that files bring along."""

import json
import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from app.planning.plan.answers import Plan
from app.table.manifests.manifest_entry import FileSource, ManifestEntry, RowStatistics
from app.types import DataField, DataType, parse_type
from app.types.binary_row.row import serialize_row
from benchmarks.synthetic import schema_json
from tests.tables import MadeTable, MadeTables, entry, names_of, no_statistics, open_service, statistics

BIGINT: Final = parse_type("BIGINT")
ID: Final = DataField(0, "id", parse_type("INT"))
WIDE: Final = DataField(1, "wide", parse_type("DECIMAL(20, 0)"))
MICROS: Final = DataField(2, "micros", parse_type("TIMESTAMP(6)"))
MILLIS: Final = DataField(3, "millis", parse_type("TIMESTAMP(3)"))
TEXT: Final = DataField(4, "text", parse_type("STRING"))
RATIO: Final = DataField(5, "ratio", parse_type("DOUBLE"))
NOON: Final = 1_740_830_400_000
"""2025-03-01 12:00:00, in milliseconds."""
HOUR: Final = 3_600_000


def by_python(name: str, value: int) -> ManifestEntry:
    """Return a file of one row with bounds of pypaimon 1.4.2: each number in its slot, a long text behind."""
    row = serialize_row([1, value, value, b"longer than a slot"], [BIGINT, BIGINT, BIGINT, TEXT.type])
    return entry(
        file_name=f"{name}.parquet", row_count=1, value_statistics=RowStatistics(row, row, (0, 0, 0, 0))
    )


def by_engine(name: str, wide: int) -> ManifestEntry:
    row = serialize_row(
        [1, wide, NOON * 10**6, b"longer than a slot"], [ID.type, WIDE.type, MICROS.type, TEXT.type]
    )
    return entry(
        file_name=f"{name}.parquet", row_count=1, value_statistics=RowStatistics(row, row, (0, 0, 0, 0))
    )


@pytest.mark.parametrize("value", [7, 16, 30, -1, 5 << 32 | 8, NOON])
def test_bounds_in_a_form_that_nobody_can_read_are_not_known(warehouse: MadeTables, value: int) -> None:
    table = warehouse.make([ID, WIDE, MICROS, TEXT])
    table.commit([by_python("python", value), by_engine("engine", 30)])

    of_wide = table.plan(warehouse.service, "wide = 1000000")
    of_micros = table.plan(warehouse.service, "micros = TIMESTAMP '2020-01-01 00:00:00'")

    for plan, column in ((of_wide, "wide"), (of_micros, "micros")):
        assert names_of(plan.files) == ["python.parquet"]
        assert [warning.split(" are")[0] for warning in plan.warnings] == [f"bounds of column {column}"]
        assert "pypaimon up to 1.4.2" in plan.warnings[0]
    assert names_of(table.plan(warehouse.service, "wide IS NULL").files) == []
    assert not table.plan(warehouse.service, "wide IS NOT NULL").files[0].residual


def test_what_is_known_of_bounds_that_nobody_can_read_is_remembered_with_its_warning(
    warehouse: MadeTables,
) -> None:
    table = warehouse.make([ID, WIDE, MICROS, TEXT])
    table.commit([by_python("python", 7), by_engine("engine", 30)])

    first, again = (table.plan(warehouse.service, "wide = 7") for _ in range(2))

    assert names_of(again.files) == ["python.parquet"]
    assert first.warnings == again.warnings != ()


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("millis = TIMESTAMP '2025-03-01 21:00:00'", ["tokyo"]),
        ("millis < TIMESTAMP '2025-03-01 00:00:00'", ["tokyo"]),
        ("millis > TIMESTAMP '2025-03-02 06:00:00'", []),
        ("millis < TIMESTAMP '2025-02-28 18:00:00'", []),
    ],
)
def test_clocks_may_be_of_any_time_zone_unless_the_engine_alone_writes(
    tmp_path: Path, condition: str, kept: list[str]
) -> None:
    table = MadeTable.make(tmp_path, [ID, MILLIS])
    table.commit([entry(file_name="tokyo.parquet", row_count=1, **statistics({MILLIS: [NOON * 10**6]}))])
    of_anybody, of_engine = open_service(tmp_path), open_service(tmp_path, engine_writes_only=True)

    plan = table.plan(of_anybody, condition)

    assert names_of(plan.files) == [f"{name}.parquet" for name in kept]
    assert [warning.split(",")[0] for warning in plan.warnings] == [
        "1 files are kept only because their writer may have ignored NaN in bounds of FLOAT and DOUBLE"
    ] * len(kept)
    assert names_of(table.plan(of_engine, condition).files) == []
    assert table.plan(of_engine, "millis = TIMESTAMP '2025-03-01 12:00:00'").warnings == ()
    of_anybody.close()
    of_engine.close()


def test_clocks_of_any_time_zone_stay_so_when_their_type_is_widened(warehouse: MadeTables) -> None:
    table = warehouse.make([ID, MILLIS])
    now = DataField(MILLIS.id, MILLIS.name, parse_type("TIMESTAMP(6)"))
    (table.directory / "schema" / "schema-1").write_text(json.dumps(schema_json([ID, now]) | {"id": 1}))
    noon = NOON * 10**6
    table.commit(
        [
            entry(file_name="old.parquet", row_count=1, **statistics({MILLIS: [noon]})),
            entry(file_name="new.parquet", row_count=1, schema_id=1, **statistics({now: [noon]})),
        ]
    )

    plan = table.plan(warehouse.service, "millis = TIMESTAMP '2025-03-01 21:00:00'")

    assert names_of(plan.files) == ["old.parquet"]


AT_NOON: Final = statistics({MILLIS: [NOON * 10**6] * 2})
COUNTED: Final[dict[str, Any]] = {"min_sequence_number": 7, "max_sequence_number": 8}
UNCOUNTED: Final[dict[str, Any]] = {"min_sequence_number": 0, "max_sequence_number": 0}


def test_clocks_are_exact_in_files_whose_rows_are_numbered_or_compacted(warehouse: MadeTables) -> None:
    compacted: dict[str, Any] = {
        "file_source": FileSource.COMPACT,
        "min_sequence_number": 9,
        "max_sequence_number": 9,
    }
    table = warehouse.make([ID, MILLIS])
    table.commit(
        [
            entry(file_name="counted.parquet", row_count=2, **AT_NOON, **COUNTED),
            entry(file_name="compacted.parquet", row_count=2, **AT_NOON, **compacted),
            entry(file_name="python.parquet", row_count=2, **AT_NOON, **UNCOUNTED),
        ]
    )

    plan = table.plan(warehouse.service, "millis = TIMESTAMP '2025-03-01 21:00:00'", explain=True)

    assert names_of(plan.files) == ["python.parquet"]
    assert [warning.split(" are kept")[0] for warning in plan.warnings] == ["1 files"]
    (kept,) = plan.files
    assert kept.explain is not None
    assert [step.evidence for step in kept.explain if step.evidence and "in spite" in step.evidence] == [
        "kept in spite of its bounds: its writer may have stored them in its own time zone"
    ]
    assert table.plan(warehouse.service, "millis = TIMESTAMP '2025-03-01 12:00:00'").warnings == ()


def test_numbers_that_count_rows_prove_nothing_about_files_with_keys(warehouse: MadeTables) -> None:
    table = warehouse.make([ID, MILLIS], primary_key=[ID])
    first, last = (serialize_row([number], [ID.type]) for number in (1, 2))
    keys: dict[str, Any] = {
        "min_key": first,
        "max_key": last,
        "key_statistics": RowStatistics(first, last, (0,)),
    }
    table.commit([entry(file_name="rolled.parquet", row_count=2, **keys, **AT_NOON, **COUNTED)])

    plan = table.plan(warehouse.service, "millis = TIMESTAMP '2025-03-01 21:00:00'")

    assert names_of(plan.files) == ["rolled.parquet"]


def of_one_row(low: float, high: float) -> dict[str, Any]:
    types = [ID.type, RATIO.type]
    bounds = RowStatistics(serialize_row([1, low], types), serialize_row([1, high], types), (0, 0))
    return {"row_count": 1, "value_statistics": bounds, **UNCOUNTED}


def test_the_bounds_of_a_single_row_are_its_value(warehouse: MadeTables) -> None:
    table = warehouse.make([ID, RATIO])
    table.commit(
        [
            entry(file_name="three.parquet", **of_one_row(3.0, 3.0)),
            entry(file_name="three.orc", **of_one_row(3.0, 3.0)),
            entry(file_name="zero.avro", **of_one_row(-0.0, 0.0)),
            # pypaimon's bounds of a row that is NaN.
            entry(file_name="nan.parquet", **of_one_row(math.inf, -math.inf)),
        ]
    )

    assert names_of(table.plan(warehouse.service, "ratio > 1e9").files) == ["nan.parquet"]
    assert names_of(table.plan(warehouse.service, "ratio <> 3").files) == ["zero.avro", "nan.parquet"]
    assert not table.plan(warehouse.service, "ratio < 1e9 AND ratio > 2").files[0].residual


def test_numbers_that_count_rows_prove_nothing_about_nan(warehouse: MadeTables) -> None:
    table = warehouse.make([ID, RATIO])
    two_rows = of_one_row(1.0, 3.0) | {"row_count": 2} | COUNTED
    table.commit([entry(file_name="cpp.parquet", **two_rows)])

    plan = table.plan(warehouse.service, "ratio > 1e9", explain=True)

    assert names_of(plan.files) == ["cpp.parquet"]
    assert plan.files[0].explain is not None
    assert "may have ignored NaN" in str(plan.files[0].explain)


def of_rows(name: str, types: Sequence[DataType], low: Sequence[Any], high: Sequence[Any]) -> dict[str, Any]:
    bounds = RowStatistics(serialize_row(low, types), serialize_row(high, types), (0,) * len(types))
    return {"file_name": f"{name}.parquet", "row_count": 2, "value_statistics": bounds}


TRACKED: Final = (
    entry(first_row_id=0, **of_rows("plain", [ID.type], [1], [2])),
    entry(first_row_id=2, **of_rows("moved", [ID.type, BIGINT, BIGINT], [3, 7, 1], [4, 8, 1])),
    entry(first_row_id=4, write_columns=("id",), **of_rows("listed", [ID.type], [5], [6])),
    entry(first_row_id=6, file_name="silent.parquet", row_count=2, **no_statistics()),
    # Under metadata.stats-keep-first-n-columns = 1 just the table's columns have statistics.
    entry(first_row_id=8, value_statistics_columns=("id",), **of_rows("first", [ID.type], [9], [9])),
)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("_ROW_ID = 0", ["plain", "moved", "silent", "first"]),
        ("_ROW_ID = 5", ["moved", "listed", "silent", "first"]),
        ("_ROW_ID = 7", ["moved", "silent", "first"]),
        ("id = 3", ["moved", "silent"]),
        ("id = 1", ["plain", "silent"]),
    ],
)
def test_files_may_store_row_ids_behind_their_columns(
    warehouse: MadeTables, condition: str, kept: list[str]
) -> None:
    table = warehouse.make([ID], options={"row-tracking.enabled": "true"})
    table.commit(TRACKED)

    assert names_of(table.plan(warehouse.service, condition).files) == [f"{name}.parquet" for name in kept]


def answers(plan: Plan) -> list[object]:
    return [(file.path, file.residual, file.explain) for file in plan.files]


def test_bounds_that_are_read_for_few_files_are_those_of_all(tmp_path: Path) -> None:
    columns = [ID, TEXT, RATIO]
    made = MadeTable.make(tmp_path, columns)
    # Statistics of three layouts by turns, so that few files of a manifest are of any of them.
    by_turns = [
        statistics({ID: [at, None], TEXT: [b"%03d" % at]})
        if at % 3
        else statistics({TEXT: [b"%03d" % at], RATIO: [at / 2]})
        for at in range(120)
    ]
    made.commit(
        [
            entry(file_name=f"{at}.parquet", row_count=2, **(no_statistics() if at % 7 == 6 else stated))
            for at, stated in enumerate(by_turns)
        ]
    )
    conditions = [
        f"{first} AND {second}"
        for first in ("text > '085'", "id > 70", "ratio BETWEEN 7 AND 11.5")
        for second in ("id IS NULL", "id = 21", "ratio > 9", "text LIKE '01%'", "text <> '075'")
    ]

    with closing(open_service(tmp_path)) as warm:
        for column in ("id IS NULL", "text > ''", "ratio > 0"):
            made.plan(warm, column)
        for condition in conditions:
            with closing(open_service(tmp_path)) as fresh:
                first, second = (answers(made.plan(fresh, condition, explain=True)) for _ in range(2))
            assert first == second == answers(made.plan(warm, condition, explain=True))
