"""Tables with global indexes that pypaimon 2.1 and the engine 1.4 wrote: plans of them against every row."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet
import pytest

from app.planning.plan.answers import Plan, PlanWarnings
from app.planning.plan.file_plan import SkipStep
from app.planning.plan.planned_files import FILE_BYTES
from app.planning.request.filters import read_filter
from app.planning.request.limits import Limits
from app.planning.request.requests import IndexFileRef, PlanRequest, SelectionForm, SnapshotSelector, TableRef
from app.planning.scan.planner import Planner
from app.planning.service import IndexService
from app.planning.version.version import Version
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Operator
from app.types import DataField, Value, sql_key
from app.types.data_types import FLOATING_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, TypeRoot
from tests.brute_force import matching_rows
from tests.golden_global_indexes import IGNORED, tables, unpack
from tests.tables import open_service, plan_bound

_ORDERED: Final = (
    Operator.EQUAL,
    Operator.NOT_EQUAL,
    Operator.LESS_THAN,
    Operator.LESS_OR_EQUAL,
    Operator.GREATER_THAN,
    Operator.GREATER_OR_EQUAL,
)
_BEYOND: Final = (math.nan, math.inf, -math.inf, 1e30, -0.0, 0.0)


def _values(column: pa.ChunkedArray, data_field: DataField) -> list[Value | None]:
    root = data_field.type.root
    if root in TIMESTAMP_ROOTS:
        column = column.cast(pa.timestamp("ns", tz=column.type.tz)).cast(pa.int64())
    elif root is TypeRoot.DATE:
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    match root:
        case TypeRoot.DECIMAL:
            return [None if each is None else int(each.scaleb(data_field.type.scale)) for each in values]
        case _ if root in STRING_ROOTS:
            return [None if each is None else each.encode() for each in values]
        case TypeRoot.TIME:
            return [
                None
                if each is None
                else ((each.hour * 60 + each.minute) * 60 + each.second) * 1000 + each.microsecond // 1000
                for each in values
            ]
        case _:
            return values


@dataclass
class Written:
    """A table and its rows, by column, in the order of their row ids."""

    version: Version
    row_ids: list[int] = field(default_factory=list)
    columns: dict[str, list[Value | None]] = field(default_factory=dict)

    @classmethod
    def read(cls, version: Version, directory: Path) -> "Written":
        files = version.files()
        fields = version.schema.fields
        rows: dict[int, dict[str, Value | None]] = {}
        newest: dict[tuple[int, str], int] = {}
        for entry in files.entries(files.all()):
            meta = entry.file
            assert meta.first_row_id is not None
            path = next(directory.glob(f"**/{meta.file_name}"))
            table = pyarrow.parquet.read_table(path, partitioning=None)
            written = version.file_schema(meta.schema_id).by_id
            for data_field in fields:
                name = written[data_field.id].name if data_field.id in written else None
                values = (
                    _values(table.column(name), data_field)
                    if name in table.column_names
                    else [None] * meta.row_count
                )
                for row_id, value in enumerate(values, meta.first_row_id):
                    row = rows.setdefault(row_id, {each.name: None for each in fields})
                    if (
                        name in table.column_names
                        and newest.get((row_id, data_field.name), -1) < meta.max_sequence_number
                    ):
                        row[data_field.name] = value
                        newest[row_id, data_field.name] = meta.max_sequence_number
        ids = sorted(rows)
        return cls(version, ids, {each.name: [rows[row][each.name] for row in ids] for each in fields})

    def plan(self, predicate: BoundPredicate, **asked: Any) -> Plan:
        request = PlanRequest(**{"selection": SelectionForm.RANGES, **asked})
        return plan_bound(self.version, predicate, request)

    def matching(self, predicate: BoundPredicate) -> set[int]:
        """Row ids of the rows that satisfy a predicate."""
        return {self.row_ids[at] for at in matching_rows(predicate, self.columns, len(self.row_ids))}

    def values(self, data_field: DataField) -> list[Value]:
        return list(dict.fromkeys(each for each in self.columns[data_field.name] if each is not None))


def planned_rows(plan: Plan) -> dict[int, bool]:
    """Row ids that a plan leaves, and whether each is proven to satisfy the filter."""
    rows: dict[int, bool] = {}
    for file in plan.files:
        assert file.first_row_id is not None
        positions = range(file.row_count) if file.selection is None else file.selection
        rows.update((file.first_row_id + position, not file.residual) for position in positions)
    return rows


def leaves_of(written: Written, data_field: DataField) -> Iterator[BoundPredicate]:
    """Return tests of a column by its values, and by others close to them and beyond."""
    literals = written.values(data_field)
    if data_field.type.root in FLOATING_ROOTS:
        literals = list(dict.fromkeys([*literals, *_BEYOND]))
    elif data_field.type.root in TIMESTAMP_ROOTS:
        literals += [int(each) + step for each in literals[:8] for step in (-1, 1)]
    elif data_field.type.root in STRING_ROOTS:
        literals += [b"t", "𝄝".encode(), b""]
        for prefix in (b"te", b"z", "é".encode()):
            yield BoundLeaf(Operator.STARTS_WITH, data_field, (prefix,))
            yield BoundLeaf(Operator.LIKE, data_field, (prefix + b"%t",))
            yield BoundLeaf(Operator.CONTAINS, data_field, (prefix,))
    ordered = sorted(dict.fromkeys(literals), key=sql_key(data_field.type))
    step = max(1, len(ordered) // 5)
    for literal in ordered[::step]:
        for operator in _ORDERED:
            if data_field.type.root is not TypeRoot.BOOLEAN or operator is not Operator.NOT_EQUAL:
                yield BoundLeaf(operator, data_field, (literal,))
    if len(ordered) > 3:
        for operator in (Operator.IN, Operator.NOT_IN):
            yield BoundLeaf(operator, data_field, tuple(ordered[:3]))
            yield BoundLeaf(operator, data_field, tuple(ordered[-3:]))
        yield BoundLeaf(Operator.BETWEEN, data_field, (ordered[1], ordered[-2]))
        yield BoundLeaf(Operator.BETWEEN, data_field, (ordered[1], ordered[2]))
    yield BoundLeaf(Operator.IS_NULL, data_field)
    yield BoundLeaf(Operator.IS_NOT_NULL, data_field)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("global_indexes"))


@pytest.fixture(scope="module")
def service(warehouse: Path) -> Iterator[IndexService]:
    outside = (warehouse.parent / "external").as_uri()
    opened = open_service(warehouse, [f"file:/tmp/global-indexes={outside}"])
    yield opened
    opened.close()


def table(service: IndexService, warehouse: Path, name: str, database: str = "pypaimon") -> Written:
    version = service.resolve(TableRef("golden", database, name), SnapshotSelector())
    return Written.read(version, warehouse / f"{database}.db" / name)


@pytest.mark.parametrize(("name", "condition"), [("parts", "s IN ('s1', 's2')"), ("updated", "n = 3")])
def test_what_the_rows_that_global_indexes_find_take_is_counted_for_the_claim(
    service: IndexService, warehouse: Path, name: str, condition: str
) -> None:
    """Of files that are read alone, and of files whose columns are joined."""
    version = table(service, warehouse, name).version
    predicate = read_filter(condition, version.schema.fields, Limits(), version.relation)

    state = Planner(version, PlanRequest(selection=SelectionForm.POSITIONS), predicate, PlanWarnings()).run()

    found = len(state.positions) + len(state.joined_rows)
    assert found
    assert state.answer_bytes >= FILE_BYTES * found


@pytest.fixture(params=tables())
def written(request: pytest.FixtureRequest, warehouse: Path, service: IndexService) -> Written:
    database, name = request.param.split("/")
    return table(service, warehouse, name, database.removesuffix(".db"))


@pytest.mark.long
def test_no_row_is_lost_and_what_is_proven_holds(written: Written) -> None:
    for data_field in written.version.schema.fields:
        tests = list(leaves_of(written, data_field))
        other = [*leaves_of(written, written.version.schema.fields[-1])]
        pairs = [BoundAnd((one, other[at % len(other)])) for at, one in enumerate(tests)]
        either = [BoundOr((one, other[at % len(other)])) for at, one in enumerate(tests)]
        for predicate in (*tests, *pairs[::5], *either[1::5]):
            plan, expected = written.plan(predicate), written.matching(predicate)
            rows = planned_rows(plan)
            assert expected <= rows.keys(), predicate
            assert {row for row, is_proven in rows.items() if is_proven} <= expected, predicate


@pytest.mark.parametrize(
    ("database", "name", "covered"),
    [
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                ("pypaimon", "btree", 90),
                ("pypaimon", "bitmap", 90),
                ("pypaimon", "small_blocks", 240),
                ("java", "btree_none", 100),
                ("java", "btree_zstd", 100),
                ("java", "btree_lz4", 100),
            )
        ),
        ("java", "bitmap", 60),
    ],
)
def test_rows_that_an_index_covers_are_told_one_by_one(
    service: IndexService, warehouse: Path, database: str, name: str, covered: int
) -> None:
    written = table(service, warehouse, name, database)
    indexed = written.version.contents().global_indexes
    columns = [each for each in written.version.schema.fields if each.id in indexed]

    for column in columns:
        for predicate in [*leaves_of(written, column)][::5]:
            if isinstance(predicate, BoundLeaf) and predicate.operator in (Operator.CONTAINS, Operator.LIKE):
                continue
            rows = planned_rows(written.plan(predicate)).keys()
            expected = written.matching(predicate)
            if column.type.precision > 6 and column.name == "t9":
                assert expected <= rows
            else:
                assert {row for row in rows if row < covered} == {row for row in expected if row < covered}


def bound(written: Written, condition: str) -> BoundPredicate:
    schema = written.version.schema
    return read_filter(condition, schema.fields, Limits(), written.version.relation)


def test_rows_that_no_index_covers_are_kept_with_a_warning(service: IndexService, warehouse: Path) -> None:
    parts = table(service, warehouse, "parts")

    plan = parts.plan(bound(parts, "n = 3"))

    assert planned_rows(plan).keys() == {3, *range(40, 60)}
    assert any("20 rows are kept that no usable global index of n covers" in each for each in plan.warnings)
    assert plan.summary.skipped_by == {SkipStep.GLOBAL_INDEX: 3}


def test_tests_of_several_columns_meet(service: IndexService, warehouse: Path) -> None:
    blocks = table(service, warehouse, "small_blocks")

    both = planned_rows(blocks.plan(bound(blocks, "s = 'te' AND i = 5 AND day > DATE'2020-01-01'")))
    either = planned_rows(blocks.plan(bound(blocks, "s = 'te' AND (i = 5 OR i64 IS NULL)")))

    assert both.keys() == blocks.matching(bound(blocks, "s = 'te' AND i = 5"))
    assert not any(both.values())
    assert either.keys() == blocks.matching(bound(blocks, "s = 'te' AND (i = 5 OR i64 IS NULL)"))
    assert all(either.values())


def test_an_updated_column_is_not_believed_and_others_are(service: IndexService, warehouse: Path) -> None:
    stale, updated = (table(service, warehouse, name) for name in ("stale", "updated"))

    of_stale = stale.plan(bound(stale, "n = 1002"))
    of_updated = updated.plan(bound(updated, "n = 13"))

    assert planned_rows(of_stale).keys() == {*range(10)}
    assert any(
        "the global index of n is not used for all rows: it was updated" in each for each in of_stale.warnings
    )
    assert planned_rows(of_updated).keys() == {13}
    assert planned_rows(updated.plan(bound(updated, "n = 3"))).keys() == {*range(10)}


def test_other_columns_of_a_name_and_other_types_are_not_believed(
    service: IndexService, warehouse: Path
) -> None:
    evolved = table(service, warehouse, "evolved")

    assert planned_rows(evolved.plan(bound(evolved, "s = 's1'"))).keys() >= {*range(20, 40)}
    assert planned_rows(evolved.plan(bound(evolved, "i = 7"))).keys() == {7, 27}
    plan = evolved.plan(bound(evolved, "n = 3"))
    assert planned_rows(plan).keys() == {*range(40)}
    assert any("the type of the column has changed to BIGINT" in each for each in plan.warnings)


@pytest.fixture(scope="module")
def ignored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[IndexService, Path]]:
    """Yield a warehouse of tables whose indexes ignored an update of rows 0 to 9."""
    unpacked = unpack(tmp_path_factory.mktemp("ignored"), IGNORED)
    opened = open_service(unpacked)
    yield opened, unpacked
    opened.close()


@pytest.mark.parametrize("condition", ["n >= 1000", "n = 3", "n >= 15", "n IS NULL", "s = 's1' AND n < 5"])
@pytest.mark.parametrize(
    ("name", "warned"),
    [
        ("ignored", "unset the option, then rebuild it"),
        ("ignored_compacted", "unset the option, then rebuild it"),
        ("ignored_altered", "rebuild it"),
        ("ignored_compacted_altered", "rebuild it"),
        ("disabled", None),
    ],
)
def test_an_index_that_ignored_an_update_decides_nothing(
    ignored: tuple[IndexService, Path], name: str, warned: str | None, condition: str
) -> None:
    service, warehouse = ignored
    written = table(service, warehouse, name, "java")
    predicate = bound(written, condition)

    plan = written.plan(predicate, explain=True)
    pruned = service.pruned_snapshot(TableRef("golden", "java", name), PlanRequest(filter=condition))

    assert planned_rows(plan) == dict.fromkeys(range(20), False)
    steps = [step for file in plan.files for step in file.explain or ()]
    assert not any(step.step == SkipStep.GLOBAL_INDEX and step.outcome != "unknown" for step in steps)
    assert (len(plan.files), pruned.row_ranges) == (pruned.files_named, None)
    said = [each for each in plan.warnings if "the global index of n is not used" in each]
    assert [warned is not None and warned in each for each in said] == [True] * (warned is not None)


def _answers(warehouse: Path) -> Iterator[tuple[str, str, str, set[int]]]:
    """Answers of the makers' readers: database, table, condition and row ids."""
    literals = {"i": "7", "i64": "-29000000000000000", "s": "'te'", "p": "'b'", "n": "3"}
    tests = {"equal": "= ", "greater_or_equal": ">= ", "is_null": "IS NULL"}
    for name, written in json.loads((warehouse / "pypaimon.json").read_text()).items():
        for asked, ids in written["answers"].items():
            column, method, _ = asked.split()
            literal = "" if method == "is_null" else literals[column]
            yield "pypaimon", name, f"{column} {tests[method]}{literal}", set(ids)
    for name, written in json.loads((warehouse / "java.json").read_text()).items():
        for condition, ids in written.items():
            yield "java", name, condition, set(ids)
    for name, written in json.loads((warehouse / "changed_pypaimon.json").read_text()).items():
        for asked, ids in written["answers"].items():
            yield *name.split("."), asked.removesuffix(" fast").removesuffix(" full"), set(ids)
    for name, written in json.loads((warehouse / "changed_java.json").read_text()).items():
        for condition, ids in written.items():
            yield *name.split("."), condition, set(ids)


@pytest.mark.long
def test_what_readers_find_is_planned(service: IndexService, warehouse: Path) -> None:
    """Readers of 1.4 leave rows to the filter above them that an index does not tell."""
    asked, tables_read = 0, {}
    for database, name, condition, found in _answers(warehouse):
        if (database, name) not in tables_read:
            tables_read[database, name] = table(service, warehouse, name, database)
        written = tables_read[database, name]
        predicate = bound(written, condition)
        matching = written.matching(predicate)
        assert found & matching <= planned_rows(written.plan(predicate)).keys(), (name, condition)
        asked += bool(found)
    assert asked > 150


@pytest.mark.long
def test_all_rows_are_those_that_a_reader_reads(service: IndexService, warehouse: Path) -> None:
    """Hold what plans are held to against pypaimon, which reads without a filter."""
    for name, read in json.loads((warehouse / "changed_pypaimon.json").read_text()).items():
        database, named = name.split(".")
        written = table(service, warehouse, named, database)
        numbers, texts = written.columns["n"], written.columns["s"]
        decoded = [None if text is None else bytes(text).decode() for text in texts]  # type: ignore[arg-type] # texts
        rows = zip(written.row_ids, numbers, decoded, strict=True)
        assert [[*row] for row in rows] == read["rows"], name


_CHANGED: Final = {
    # Files lie elsewhere, or there are forty of a range: each row is told.
    ("java", "external"): ({3}, {1, 5, 13, 17}),
    ("pypaimon", "external"): ({3}, {1, 5, 13, 17}),
    ("java", "forty_files"): ({3}, {at for at in range(160) if at % 4 == 1 and at % 5 != 4}),
    ("pypaimon", "forty_files"): ({3}, {at for at in range(160) if at % 4 == 1 and at % 5 != 4}),
    # A compaction keeps row ids and entries: what was appended since is kept.
    ("java", "compacted"): ({3}, {at for at in range(40) if at % 4 == 1 and at % 5 != 4}),
    ("java", "compacted_partly"): (
        {3, *range(20, 40)},
        {at for at in range(40) if at % 4 == 1 and at % 5 != 4},
    ),
    ("java", "updated_and_compacted"): ({3, *range(20, 30)}, {*range(30)}),
    # Ranges that overlap, of two kinds.
    ("pypaimon", "grown"): ({3, *range(50, 60)}, {*range(60)}),
    # Rows of a column that two files hold are kept, if the index was built anew or not. Files that hold
    # columns of one another's rows are read whole.
    ("java", "updated"): ({*range(10)}, {*range(10), 13, 17}),
    ("java", "updated_and_rebuilt"): ({*range(10)}, {*range(10), 13, 17}),
    ("pypaimon", "updated_and_rebuilt"): ({*range(20)}, {*range(20)}),
    # The index of a column that was dropped says nothing of the next one of its name, which older files lack.
    ("java", "column_anew"): ({3, *range(10, 20)}, {*range(10, 20)}),
    ("pypaimon", "column_anew"): ({3, *range(10, 20)}, {13, 17}),
    # A column of another type than it had has no index.
    ("java", "type_changed"): ({*range(20)}, {1, 5, *range(10, 20)}),
}
"""Row ids that plans of ``n = 3`` and ``s = 's1'`` leave, by table."""


@pytest.mark.parametrize(("database", "name"), _CHANGED)
def test_a_table_that_changed_since_is_told_as_far_as_that_is_true(
    service: IndexService, warehouse: Path, database: str, name: str
) -> None:
    written = table(service, warehouse, name, database)

    for condition, expected in zip(("n = 3", "s = 's1'"), _CHANGED[database, name], strict=True):
        plan = written.plan(bound(written, condition))
        assert planned_rows(plan).keys() == expected, condition


@pytest.mark.long
def test_each_index_file_can_be_looked_at(service: IndexService) -> None:
    """With the type of its column, as an entry names it."""
    shown: set[str] = set()
    for name in tables():
        database, named = name.split("/")
        version = service.resolve(TableRef("golden", database.removesuffix(".db"), named), SnapshotSelector())
        for entry in service.tables.index_files(version, None):
            column = None if entry.global_index is None else entry.global_index.column
            if column is None or entry.path.startswith("file:") or name.endswith("btree_lzo"):
                continue
            types = {column: version.schema.by_name[column].type.text}
            if named == "type_changed" or (named == "evolved" and column == "n"):
                types = {}
            file = IndexFileRef(path=entry.path)
            described: Any = service.inspect("golden", file, None, types)
            assert described["kind"] == entry.index_type
            assert not any("error" in block for block in described.get("blocks", ())), entry
            if entry.index_type == "btree":
                rows = sum(block["row_count"] for block in described["blocks"])
                assert rows + described["null_count"] == entry.row_count
            shown.add(entry.index_type)
    assert shown == {"btree", "bitmap"}
