"""Aggregates of ``paimon_index.spark``: rows, names and types are those of Spark's own query."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from app.main import create_app
from app.settings import Settings
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests import golden_cases
from tests.api.conftest import listening
from tests.client.scripted import nowhere
from tests.spark.served_tables import READ, TIMED, Golden, Written, chosen, columns_of
from tests.spark.sessions import Spark, SparkError, SparkSession
from tests.tables import MadeTable, entry, statistics

pytestmark = [pytest.mark.spark, pytest.mark.connector]

COMPARED: Final = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "CHAR")
COMPARED_TOO: Final = ("VARCHAR", "STRING", "BINARY", "VARBINARY", "BYTES", "DATE", "TIMESTAMP")
SUMMED: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL")
MOST: Final = 20
"""Aggregates that the service takes in one request."""


@dataclass(frozen=True)
class Asked:
    """An aggregation, and the query that means the same."""

    functions: Sequence[tuple[str, str | None]]
    group_by: Sequence[str] = ()
    where: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        aggregates = [{"function": function, "column": column} for function, column in self.functions]
        return {"aggregates": aggregates, "group_by": self.group_by, "where": self.where}

    def query(self, table: str) -> str:
        shown = [*(f"`{name}`" for name in self.group_by), *(_sql(*each) for each in self.functions)]
        groups = f" GROUP BY {', '.join(f'`{name}`' for name in self.group_by)}" if self.group_by else ""
        return f"SELECT {', '.join(shown)} FROM {table} WHERE {self.where or 'TRUE'}{groups}"  # noqa: S608 - our own


def _sql(function: str, column: str | None) -> str:
    name = "*" if column is None else f"`{column}`"
    return f"count(DISTINCT {name})" if function == "count_distinct" else f"{function}({name})"


def everything(types: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """Every function of every column of these types."""
    found: list[tuple[str, str | None]] = [("count", None)]
    for name, written in types.items():
        root = re.split(r"[ (<]", written)[0]
        found.append(("count", name))
        if root in (*COMPARED, *COMPARED_TOO):
            found += [(function, name) for function in ("min", "max", "count_distinct")]
        if root in SUMMED:
            found.append(("sum", name))
    return found


def same(rows: Sequence[str]) -> list[str]:
    """Rows in an order; which zero Spark finds the smallest depends on the order of rows."""
    return sorted(row.replace(":-0.0", ":0.0") for row in rows)


def check(session: SparkSession, url: str, catalog: str, table: str, asked: Sequence[Asked]) -> None:
    """States that all are what the queries give."""
    theirs = session.typed(*(each.query(f"{catalog}.{table}") for each in asked))
    ours = session.aggregate(url, f"main.{table}", *(each.arguments for each in asked))
    for each, expected, found in zip(asked, theirs, ours, strict=True):
        assert same(found) == same(expected), each


def golden_types(table: str) -> dict[str, str]:
    fields = golden_cases.expected(table)["schema"]["fields"]
    readable = columns_of(table)
    return {
        field["name"]: field["type"]
        for field in fields
        if field["name"] in readable and isinstance(field["type"], str)
    }


@pytest.mark.parametrize(
    ("table", "zone"),
    [(table, zone) for table in READ for zone in ("UTC", "Asia/Kolkata") if table in TIMED or zone == "UTC"],
)
def test_aggregates_are_those_of_the_query(tables: Golden, table: str, zone: str) -> None:
    types = golden_types(table)
    partitions = golden_cases.expected(table)["schema"].get("partitionKeys", [])
    functions = everything(types)
    wheres = [
        query["filter_sql"]
        for query in chosen(table, zone)
        if not (query.get("engine_error") or query.get("engine_differs"))
    ][:3]
    comparable = [name for name, written in types.items() if written.startswith((*COMPARED, *COMPARED_TOO))]
    random = Random(table + zone)  # noqa: S311 - a test
    asked = [Asked(random.sample(functions, min(12, len(functions))), where=where) for where in wheres]
    few = [("count", None), *random.sample(functions, min(3, len(functions)))]
    asked += [Asked(few, (random.choice(comparable),), where) for where in wheres]
    if partitions:
        asked.append(Asked(few, (random.choice(comparable), *partitions), wheres[-1]))

    # Where sums overflow, they are wrapped or NULL then.
    session = tables.session(zone, **{"spark.sql.ansi.enabled": "false"})
    check(session, tables.url, "main", f"golden.{table}", asked)


_COLUMNS: Final = (
    "id BIGINT, small SMALLINT, n INT, amount DECIMAL(12, 3), wide DECIMAL(38, 2), name STRING, x DOUBLE, "
    "f FLOAT, flag BOOLEAN, at TIMESTAMP_NTZ, moment TIMESTAMP, d DATE, code CHAR(4), day INT"
)
_INDEXED: Final = ("small", "n", "amount", "name", "x", "flag", "at", "d", "code", "f", "moment")
_KINDS: Final = {
    "bitmap": tuple(name for name in _INDEXED if name != "amount"),
    "range-bitmap": ("small", "n", "name", "x", "at", "d", "f", "moment"),
    "bsi": ("small", "n", "amount", "at", "d"),
}
_VALUES: Final = """
    SELECT id, CAST(id % 7 - 3 AS SMALLINT), CAST(IF(id % 11 = 0, NULL, id % 13 - 6) AS INT),
    CAST(IF(id % 5 = 0, NULL, id % 17) AS DECIMAL(12, 3)) / 8, CAST(id * 7919 % 1000003 AS DECIMAL(38, 2)),
    IF(id % 4 = 0, NULL, concat('name ', id % 9)),
    CASE id % 8 WHEN 0 THEN CAST('NaN' AS DOUBLE) WHEN 1 THEN -0.0D WHEN 2 THEN 0.0D WHEN 3 THEN NULL
      ELSE id % 5 - 2.5D END,
    CASE id % 6 WHEN 0 THEN CAST('NaN' AS FLOAT) WHEN 1 THEN CAST('-0.0' AS FLOAT)
      ELSE CAST(id % 4 AS FLOAT) / 3 END,
    IF(id % 10 = 0, NULL, id % 3 = 0), CAST(timestamp_seconds(1741392000 + id % 97 * 1800) AS TIMESTAMP_NTZ),
    timestamp_seconds(1761955200 + id % 89 * 1800), date_add(DATE '2025-03-01', CAST(id % 31 AS INT)),
    concat('c', id % 3), CAST(IF(id % 3 = 2, NULL, id % 3) AS INT)
"""
_FILTERS: Final = (
    None,
    "n = 1",
    "n > 0 AND n < 4",
    "name = 'name 3' OR n IS NULL",
    "x > 0",
    "day = 1 AND small < 2",
)
_FILTERS_TOO: Final = (
    "day IS NULL",
    "at < '2025-03-09'",
    "moment >= '2025-11-02 01:30:00'",
    "upper(name) = 'NAME 1'",
)


@pytest.mark.parametrize("seed", range(2))
def test_aggregates_of_random_tables_are_those_of_the_query(written: Written, seed: int) -> None:
    session, random = written.session, Random(seed)  # noqa: S311 - a test
    has_vectors = seed == 1
    key = "day" if has_vectors else "code"  # the connector deletes nothing by partitions of CHAR
    session.sql(
        f"CREATE TABLE reading.random ({_COLUMNS}) PARTITIONED BY ({key}) TBLPROPERTIES ("
        f"'file.format'='parquet', 'file-index.in-manifest-threshold'='{random.choice(['1 MB', '1 B'])}', "
        f"'deletion-vectors.enabled'='{str(has_vectors).lower()}')"
    )
    for batch in range(5):
        kind = random.choice(list(_KINDS))
        columns = random.sample(_KINDS[kind], random.randrange(1, len(_KINDS[kind])))
        others = [each for each in _KINDS if each != kind]
        session.sql(
            f"ALTER TABLE reading.random SET TBLPROPERTIES ("
            f"'file-index.{kind}.columns'='{','.join(columns)}')"
        )
        for other in others:
            session.sql(f"ALTER TABLE reading.random UNSET TBLPROPERTIES ('file-index.{other}.columns')")
        start = batch * 40
        end = start + random.randrange(5, 40)
        session.sql(f"INSERT INTO reading.random {_VALUES} FROM range({start}, {end})")
        if has_vectors and batch in (1, 3):
            session.sql(f"DELETE FROM reading.random WHERE id % 6 = {batch}")  # noqa: S608 - our own
    session.sql("ALTER TABLE reading.random ADD COLUMNS (late INT)")
    session.sql("ALTER TABLE reading.random ALTER COLUMN small TYPE BIGINT")
    session.sql(f"INSERT INTO reading.random {_VALUES}, 7 FROM range(300, 310)")
    types = {each.split()[0]: each.split(maxsplit=1)[1] for each in re.split(r", (?=[a-z])", _COLUMNS)}
    functions = everything({**types, "late": "INT"})
    groups = [
        (),
        ("day",),
        *((name,) for name in (*_INDEXED, "late", "id")),
        ("name", "day"),
        ("day", "flag"),
    ]
    asked = [
        Asked(
            random.sample(functions, random.randrange(1, 5)),
            random.choice(groups),
            random.choice(_FILTERS + _FILTERS_TOO),
        )
        for _ in range(6)
    ]
    asked += [Asked([("count", None), ("sum", "n"), ("max", "x"), ("min", "code")], by) for by in groups[::3]]

    check(session, written.url, "paimon", "reading.random", asked)


@pytest.fixture
def indexed(written: Written) -> Iterator[Written]:
    """Yield the table ``reading.indexed``: two files that bitmaps tell, and one without any index."""
    session = written.session
    session.sql(
        "CREATE TABLE reading.indexed (id BIGINT, n INT, name STRING, fee DECIMAL(9, 2)) TBLPROPERTIES "
        "('file.format'='parquet', 'file-index.bitmap.columns'='n,name,id', 'file-index.bsi.columns'='fee')"
    )
    for start in (0, 100):
        end = start + 50
        session.sql(f"INSERT INTO reading.indexed {_INDEXED_ROWS} FROM range({start}, {end})")
    yield written
    session.sql("DROP TABLE reading.indexed")


_INDEXED_ROWS: Final = "SELECT id, CAST(id % 5 AS INT), concat('of ', id % 3), CAST(id AS DECIMAL(9, 2))"
_FACETS: Final = (
    Asked([("count", None)], ("n",)),
    Asked([("count", None), ("max", "id"), ("sum", "n")], (), "name = 'of 1'"),
)


def test_what_indexes_settle_reads_no_data(indexed: Written) -> None:
    session = indexed.session
    expected = session.typed(*(each.query("reading.indexed") for each in _FACETS))
    for file in (session.spark.warehouse / "reading.db" / "indexed").rglob("data-*.parquet"):
        file.unlink()

    found = session.aggregate(indexed.url, "main.reading.indexed", *(each.arguments for each in _FACETS))

    assert found == expected


def test_only_files_that_are_open_are_read(indexed: Written) -> None:
    session = indexed.session
    there = set((session.spark.warehouse / "reading.db" / "indexed").rglob("data-*.parquet"))
    session.sql(
        "ALTER TABLE reading.indexed UNSET TBLPROPERTIES ('file-index.bitmap.columns', "
        "'file-index.bsi.columns')"
    )
    session.sql(f"INSERT INTO reading.indexed {_INDEXED_ROWS} FROM range(40, 120)")
    sums = Asked([("count", None), ("sum", "fee"), ("min", "name"), ("max", "id")])
    groups = Asked([("count", None)], ("n",))
    distinct = Asked([("count", None), ("count_distinct", "n")])
    expected = session.typed(*(each.query("reading.indexed") for each in (sums, groups, distinct)))
    whole = session.aggregate(indexed.url, "main.reading.indexed", distinct.arguments)
    for file in there:
        file.unlink()

    found = session.aggregate(indexed.url, "main.reading.indexed", sums.arguments, groups.arguments)

    assert [*found, *whole] == expected
    with pytest.raises(SparkError, match="FILE_NOT_EXIST"):
        session.aggregate(indexed.url, "main.reading.indexed", distinct.arguments)


@pytest.mark.parametrize("is_ansi", ["true", "false"])
def test_sums_overflow_as_in_the_query(written: Written, is_ansi: str) -> None:
    session = written.session.spark.session("UTC", {"spark.sql.ansi.enabled": is_ansi})
    session.sql(
        "CREATE TABLE reading.large (n BIGINT, fee DECIMAL(38, 0), small DECIMAL(18, 0), k INT) "
        "TBLPROPERTIES ('file.format'='parquet', 'file-index.bitmap.columns'='n,k', "
        "'file-index.bsi.columns'='small')"
    )
    row = f"(9223372036854775807, {'9' * 38}, {'9' * 18}"
    session.sql(f"INSERT INTO reading.large VALUES {row}, 1), {row}, 1)")  # noqa: S608 - our own
    session.sql(
        "ALTER TABLE reading.large UNSET TBLPROPERTIES ("
        "'file-index.bitmap.columns', 'file-index.bsi.columns')"
    )
    session.sql(f"INSERT INTO reading.large VALUES {row}, 2), (1, 1, 1, 3), (5, 5, 5, 1)")  # noqa: S608 - our own
    for column in ("n", "fee", "small"):
        for where in ("k = 1", "k > 1", "k < 0", None):
            asked = Asked([("sum", column), ("count", column)], (), where)
            try:
                expected = session.typed(asked.query("reading.large"))
            except SparkError as error:
                assert "OVERFLOW" in str(error) or "OUT_OF_RANGE" in str(error)  # noqa: PT017 - either is right
                with pytest.raises(SparkError, match=r"OVERFLOW|OUT_OF_RANGE"):
                    session.aggregate(written.url, "main.reading.large", asked.arguments)
                continue
            assert session.aggregate(written.url, "main.reading.large", asked.arguments) == expected, asked


def test_what_the_service_refuses_is_computed_of_all_rows(indexed: Written) -> None:
    asked = [
        Asked([("count", None)], ("n", "name")),
        Asked([("count", None), ("sum", "fee"), ("count_distinct", "id")], ("n",)),
        Asked([("count", "id")] * (MOST + 1)),
        Asked([("sum", "N"), ("min", "ID")], ("NAME",), "upper(name) <> 'OF 1'"),
    ]

    check(indexed.session, indexed.url, "paimon", "reading.indexed", asked)


def test_names_are_those_of_the_session(indexed: Written) -> None:
    strict = indexed.session.spark.session("UTC", {"spark.sql.caseSensitive": "true"})

    with pytest.raises(SparkError, match="UNRESOLVED_COLUMN"):
        strict.aggregate(indexed.url, "main.reading.indexed", Asked([("max", "ID")]).arguments)
    with pytest.raises(SparkError, match="ValueError: there is no column nobody"):
        strict.aggregate(indexed.url, "main.reading.indexed", Asked([("max", "nobody")]).arguments)


def test_what_is_no_aggregate_is_an_error(indexed: Written) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"aggregates": []}, "ValueError: aggregates is empty"),
        ({"aggregates": [{"function": "median", "column": "n"}]}, "ValueError: function is 'count'"),
        ({"aggregates": [{"function": "sum"}]}, "ValueError: sum takes a column"),
        ({"group_by": "n"}, "TypeError: group_by is a list"),
        ({"where": "nobody = 1"}, "UNRESOLVED_COLUMN|ServiceError"),
        ({"reader": "fast"}, "ValueError: reader is"),
    ]
    for arguments, message in cases:
        with pytest.raises(SparkError, match=message):
            indexed.session.aggregate(indexed.url, "main.reading.indexed", arguments)


def test_without_the_service_the_connector_computes_it(tables: Golden) -> None:
    session, table = tables.session(), "golden.append_sidecar"
    asked = Asked([("count", None), ("sum", "fee")], ("grade",))

    found = session.aggregate(nowhere(), f"main.{table}", {**asked.arguments, "on_unavailable": "scan"})

    assert found == session.typed(asked.query(f"main.{table}"))
    with pytest.raises(SparkError, match="UnavailableError"):
        session.aggregate(nowhere(), f"main.{table}", asked.arguments)


_FORMS: Final = ("a", "a ", "a   ", "b")


def test_partitions_padded_and_not_are_one_group(spark: Spark, tmp_path: Path) -> None:
    code, number = DataField(0, "code", parse_type("CHAR(4)")), DataField(1, "n", parse_type("INT"))
    made = MadeTable.make(tmp_path, [code, number], partitioned_by=[code])
    made.commit(
        [
            entry(
                partition=serialize_row([form.encode()], [code.type]),
                file_name=f"data-{at}.parquet",
                row_count=2,
                **statistics({number: [at, at + 1]}),
            )
            for at, form in enumerate(_FORMS)
        ]
    )
    by_code = Asked([("count", None)], ("code",))
    over_all = Asked([("max", "n"), ("min", "code")])
    with listening(create_app(Settings.load(warehouses={"main": str(tmp_path)})), lifespan="on") as started:
        found = spark.session().aggregate(
            str(started.base_url), "main.golden.made", by_code.arguments, over_all.arguments
        )

    # There is no data file to read.
    groups, total = ([json.loads(row) for row in rows] for [_, *rows] in found)
    assert groups == [{"code": "a   ", "count(1)": 6}, {"code": "b   ", "count(1)": 2}]
    assert [list(row.values()) for row in total] == [[4, "a   "]]
