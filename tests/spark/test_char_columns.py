"""Filters on CHAR columns, beside what real Spark finds with the connector.

The columns of ``padded`` were CHAR when Spark wrote them. Those of ``loose`` were STRING, and are called CHAR
since, so that they hold values of any padding and longer ones: what other writers may leave behind.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from app.planning.request.requests import PlanRequest, SelectionForm, TableRef
from app.planning.service import IndexService
from tests.char_meaning import SYMBOLS, TEXT_TESTS, CharTest
from tests.spark.sessions import Spark
from tests.tables import open_service

pytestmark = [pytest.mark.spark, pytest.mark.connector]

_LENGTH: Final = 4
_TABLES: Final = ("padded", "loose")
_FILES: Final = (
    ("c3", "c3 ", "c3  ", "c3x", None),
    ("c3  ", "c3"),
    ("", " ", "a", "abcd", "b"),
    ("c", "c\x01", "c3\x01", "c3 x"),
    ("é", "é3", "😀", "zzzz"),
)
_LONGER: Final = ("abcdef", "abcdefgh", "c3      ", "c3    x", "zzzzz")
_LITERALS: Final = ("c3", "c3 ", "c3      ", "", "abcd", "abcdef", "é", "c3\x01")
_TESTS: Final = (
    *(CharTest(function, (literal,)) for function in SYMBOLS for literal in _LITERALS),
    *(
        CharTest(function, literals)
        for function in ("IN", "NOT_IN")
        for literals in (("c3", "zzzz"), ("a", "b ", "nothing"), ("c3x", "abcdef"))
    ),
    *(
        CharTest(function, literals)
        for function in ("BETWEEN", "NOT_BETWEEN")
        for literals in (
            ("c3", "c3"),
            ("c3", "c3x"),
            ("b", "c3"),
            ("abcd", "c3  "),
            ("b ", "abc"),
            ("abcdef", "zzzzz"),
        )
    ),
    *(
        CharTest(function, (pattern,))
        for function in ("LIKE", "NOT_LIKE")
        for pattern in ("c3", "c3%", "c3  ", "c3__", "%3", "%3 %", "_3%", "", "abcdef", "%", "é   ")
    ),
    *(CharTest(function, (text,)) for function in TEXT_TESTS for text in ("c3", "3 ", "", "x", "  ")),
)


@dataclass(frozen=True)
class CharTables:
    """The two tables: who answers about them, and what Spark finds in them.

    Attributes:
        truths: by table, column and row id, whether Spark holds each of the tests true; None for NULL.
        stored: by table and row id, the value as it is in the file.
    """

    service: IndexService
    warehouse: Path
    truths: dict[str, dict[str, dict[int, list[bool | None]]]]
    stored: dict[str, dict[int, str | None]]

    def selected(self, table: str, written: Any) -> tuple[set[int], bool]:
        """Ids of the rows that a plan keeps, and whether all of them are proven."""
        plan = self.service.plan(
            TableRef("golden", "chars", table), PlanRequest(filter=written, selection=SelectionForm.POSITIONS)
        )
        ids: set[int] = set()
        for file in plan.files:
            listed = pq.read_table(self.warehouse / file.path, columns=["id"])["id"].to_pylist()
            ids |= set(listed if file.selection is None else [listed[row] for row in file.selection])
        return ids, not any(file.residual for file in plan.files)


@pytest.fixture(scope="module")
def tables(spark: Spark) -> Iterator[CharTables]:
    stored = {table: _write(spark, table) for table in _TABLES}
    schema = spark.warehouse / "chars.db" / "loose" / "schema" / "schema-0"
    schema.write_text(schema.read_text().replace('"STRING"', f'"CHAR({_LENGTH})"'))
    # Only what Spark reads itself is padded by it: a session that has not seen the table before.
    session = spark.session()
    truths: dict[str, dict[str, dict[int, list[bool | None]]]] = {}
    for table in _TABLES:
        truths[table] = {}
        for column in ("c", "m['k']"):
            tests = ", ".join(f"({test.text(column)}) AS t{at}" for at, test in enumerate(_TESTS))
            rows = session.sql(f"SELECT id, {tests} FROM chars.{table}")  # noqa: S608 - tests of our own
            truths[table][column] = {row["id"]: [row[f"t{at}"] for at in range(len(_TESTS))] for row in rows}
    service = open_service(spark.warehouse)
    yield CharTables(service, spark.warehouse, truths, stored)
    service.close()


def _write(spark: Spark, table: str) -> dict[int, str | None]:
    """Each group of values makes a file, with three kinds of index."""
    session = spark.session()
    is_loose = table == "loose"
    written = "STRING" if is_loose else f"CHAR({_LENGTH})"
    session.sql("CREATE DATABASE IF NOT EXISTS chars")
    session.sql(
        f"CREATE TABLE chars.{table} (id INT, c {written}, m MAP<VARCHAR(3), {written}>) TBLPROPERTIES ("
        "'file.format'='parquet', 'file-index.in-manifest-threshold'='1 MB',"
        " 'file-index.bloom-filter.columns'='c,m[k]', 'file-index.bitmap.columns'='c',"
        " 'file-index.range-bitmap.columns'='c')"
    )
    stored: dict[int, str | None] = {}
    for values in (*_FILES, _LONGER) if is_loose else _FILES:
        rows = []
        for value in values:
            number = len(stored)
            stored[number] = value if is_loose or value is None else value.ljust(_LENGTH)
            shown = "NULL" if value is None else "'" + value.replace("\x01", "\\u0001") + "'"
            rows.append(f"({number}, {shown}, map('k', {shown}))")
        session.sql(f"INSERT INTO chars.{table} SELECT /*+ COALESCE(1) */ * FROM VALUES {', '.join(rows)}")  # noqa: S608
    return stored


@pytest.mark.parametrize("table", _TABLES)
def test_what_is_taken_for_sparks_meaning_is_sparks(tables: CharTables, table: str) -> None:
    for number, value in tables.stored[table].items():
        if value is None:
            continue
        for at, test in enumerate(_TESTS):
            found = tables.truths[table]["c"][number][at]
            assert found is test.spark(value, _LENGTH), (test.text("c"), value)
            found = tables.truths[table]["m['k']"][number][at]
            assert found is test.of_map_key(value, _LENGTH), (test.text("m['k']"), value)


@pytest.mark.parametrize("table", _TABLES)
@pytest.mark.parametrize("column", ["c", "m['k']"])
def test_every_row_that_spark_finds_is_kept(tables: CharTables, table: str, column: str) -> None:
    for at, test in enumerate(_TESTS):
        wanted = {number for number, truths in tables.truths[table][column].items() if truths[at]}
        written: list[Any] = [test.text(column)]
        if test.function != "NOT_LIKE":
            written.append(test.json(column.replace("'", "")))

        for form in written:
            kept, is_proven = tables.selected(table, form)
            assert kept >= wanted, form
            assert not is_proven or kept == wanted, form
        if column == "c" and test.function in ("EQUAL", "NOT_EQUAL", "IN", "NOT_IN"):
            is_short = max(map(len, test.literals)) <= _LENGTH
            assert tables.selected(table, test.text(column)) == (wanted, True) or not is_short
