"""Tables that pypaimon and pypaimon-rust wrote: plans of them against every row of their data files.

Their statistics leave NaN and digits below the microsecond out.
"""

import math
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from app.planning.plan.answers import Plan
from app.planning.request.requests import PlanRequest, SnapshotSelector, SortKey, TableRef, TopN
from app.planning.service import IndexService
from app.planning.version.version import Version
from app.predicates.model import ALWAYS_TRUE, BoundLeaf, BoundPredicate, Operator
from app.types import DataField, TypeRoot, Value, sql_key
from app.types.data_types import FLOATING_ROOTS, TIMESTAMP_ROOTS
from tests.brute_force import matching_rows
from tests.examples import share
from tests.tables import open_service, plan_bound

TABLES: Final = (
    ("pypaimon", "parquet_files"),
    ("pypaimon", "orc_files"),
    ("pypaimon", "keyed"),
    ("rust", "parquet_files"),
)

_ARCHIVE: Final = Path(__file__).parents[1] / "golden" / "other_writers" / "warehouse.tar.xz"


def rows_of(file: Path, fields: Sequence[DataField]) -> Mapping[str, Sequence[Value | None]]:
    """Return the values in a data file by column, as predicates have them."""
    read = pyarrow.orc.read_table if file.suffix == ".orc" else pyarrow.parquet.read_table
    table = read(file)
    return {field.name: _values(table.column(field.name), field) for field in fields}


def _values(column: pa.ChunkedArray, field: DataField) -> list[Value | None]:
    root = field.type.root
    if root in TIMESTAMP_ROOTS:
        zone = column.type.tz
        column = column.cast(pa.timestamp("ns", tz=zone)).cast(pa.int64())
    elif root is TypeRoot.DATE:
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    match root:
        case TypeRoot.DECIMAL:
            return [None if each is None else int(each.scaleb(field.type.scale)) for each in values]
        case TypeRoot.VARCHAR:
            return [None if each is None else each.encode() for each in values]
        case _:
            return values


_ORDERED: Final = (
    Operator.EQUAL,
    Operator.NOT_EQUAL,
    Operator.LESS_THAN,
    Operator.LESS_OR_EQUAL,
    Operator.GREATER_THAN,
    Operator.GREATER_OR_EQUAL,
)
PLAIN: Final = [table for table in TABLES if "keyed" not in table]
_BEYOND: Final = (math.nan, math.inf, -math.inf, 1e30, -0.0, 0.0, 100.0, 6.0)


@dataclass(frozen=True)
class WrittenTable:
    version: Version
    rows: Mapping[str, Mapping[str, Sequence[Value | None]]]

    def plan(self, predicate: BoundPredicate | None, **asked: Any) -> Plan:
        request = PlanRequest(**asked)
        predicate = ALWAYS_TRUE if predicate is None else predicate
        return plan_bound(self.version, predicate, request)

    def matching(self, predicate: BoundPredicate) -> dict[str, int]:
        return {
            name: len(matching_rows(predicate, columns, len(next(iter(columns.values())))))
            for name, columns in self.rows.items()
        }

    def values(self, field: DataField) -> list[Value]:
        found = (each for columns in self.rows.values() for each in columns[field.name])
        return list(dict.fromkeys(each for each in found if each is not None))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("other_writers")
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    return directory / "warehouse"


@pytest.fixture(scope="module")
def service(warehouse: Path) -> Iterator[IndexService]:
    opened = open_service(warehouse)
    yield opened
    opened.close()


@pytest.fixture(params=TABLES, ids=".".join)
def written(request: pytest.FixtureRequest, warehouse: Path, service: IndexService) -> WrittenTable:
    database, name = request.param
    version = service.resolve(TableRef("golden", database, name), SnapshotSelector())
    files = version.files()
    names = [files.name(number) for number in range(len(files))]
    directory = warehouse / f"{database}.db" / name / "bucket-0"
    return WrittenTable(version, {each: rows_of(directory / each, version.schema.fields) for each in names})


def predicates(written: WrittenTable, field: DataField) -> Iterator[BoundPredicate]:
    """Return tests of a column by its values, and by others close to them and beyond."""
    literals = written.values(field)
    compared = [*share(literals, 5)]
    if field.type.root in FLOATING_ROOTS:
        literals = list(dict.fromkeys([*literals, *_BEYOND]))
        compared = list(dict.fromkeys([*compared, *_BEYOND]))
    elif field.type.root in TIMESTAMP_ROOTS:
        literals += [int(each) + step for each in literals for step in (-1, 1)]
        compared += [int(each) + step for each in compared for step in (-1, 1)]
    for literal in compared:
        for operator in _ORDERED:
            yield BoundLeaf(operator, field, (literal,))
    ordered = sorted(literals, key=sql_key(field.type))
    for operator in (Operator.IN, Operator.NOT_IN):
        yield BoundLeaf(operator, field, tuple(ordered[:3]))
        yield BoundLeaf(operator, field, tuple(ordered[-3:]))
    yield BoundLeaf(Operator.BETWEEN, field, (ordered[1], ordered[-2]))
    yield BoundLeaf(Operator.BETWEEN, field, (ordered[1], ordered[-1]))
    yield BoundLeaf(Operator.IS_NULL, field)
    yield BoundLeaf(Operator.IS_NOT_NULL, field)


def test_no_row_is_lost_and_what_is_proven_holds(written: WrittenTable) -> None:
    for field in written.version.schema.fields:
        if str(field.type.root) == "BOOLEAN":
            continue
        for predicate in share([*predicates(written, field)], 2):
            matching = written.matching(predicate)
            plan = written.plan(predicate)

            kept = {file.file_name: file for file in plan.files}
            assert [name for name, rows in matching.items() if rows and name not in kept] == [], predicate
            for name, file in kept.items():
                assert file.residual or file.selected_rows == matching[name], f"{predicate} of {name}"


def test_a_limit_leaves_enough_rows(written: WrittenTable) -> None:
    for field in written.version.schema.fields:
        if field.name not in ("d", "t9"):
            continue
        for predicate in share([*predicates(written, field)], 3):
            matching = written.matching(predicate)
            for limit in (1, 4):
                kept = {file.file_name for file in written.plan(predicate, limit=limit).files}
                found = sum(rows for name, rows in matching.items() if name in kept)
                assert found >= min(limit, sum(matching.values())), f"{predicate} LIMIT {limit}"


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_the_first_rows_are_those_of_all_files(
    written: WrittenTable, descending: bool, nulls_first: bool
) -> None:
    for field in written.version.schema.fields:
        key = sql_key(field.type)

        def standing(value: Value | None, key: Any = key) -> tuple[bool, Any]:
            return (value is None) != nulls_first, 0 if value is None else key(value)

        def first(names: Any, limit: int, name: str = field.name, standing: Any = standing) -> list[Any]:
            values = [value for each in names for value in written.rows[each][name]]
            nulls = [value for value in values if value is None]
            others = sorted((value for value in values if value is not None), key=standing)
            ordered = others[::-1] if descending else others
            together = [*nulls, *ordered] if nulls_first else [*ordered, *nulls]
            return [None if value is None else standing(value) for value in together[:limit]]

        for limit in (1, 2, 5):
            wanted = TopN(
                order_by=(
                    SortKey(
                        column=field.name,
                        direction=("asc", "desc")[descending],
                        nulls=("last", "first")[nulls_first],
                    ),
                ),
                limit=limit,
            )
            kept = [file.file_name for file in written.plan(None, top_n=wanted).files]
            assert first(kept, limit) == first(written.rows, limit), f"{field.name} LIMIT {limit}"


@pytest.mark.parametrize("written", PLAIN, ids=".".join, indirect=True)
@pytest.mark.parametrize(
    ("condition", "matching_files"),
    [
        ("t9 > '2023-11-14 22:13:20.123456'", [0, 1, 4, 5]),
        ("t9 = '2023-11-14 22:13:20.123456789'", [0, 1, 4]),
        ("t9 <> '2023-11-14 22:13:20.123456'", [0, 1, 2, 4, 5]),
        ("d = double('NaN')", [0, 1, 5]),
        ("d > 1e300", [0, 1, 2, 5]),
        ("NOT (d <= 5)", [0, 1, 2, 5]),
    ],
)
def test_conditions_of_sql_keep_what_either_reading_finds(
    written: WrittenTable, service: IndexService, condition: str, matching_files: list[int]
) -> None:
    names = list(written.rows)
    version = written.version
    ref = TableRef("golden", version.table.database, version.table.name)

    kept = {file.file_name for file in service.plan(ref, PlanRequest(filter=condition)).files}

    assert {names[at] for at in matching_files} <= kept
