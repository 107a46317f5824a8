"""Fields that were added within nested columns: they are null in files that were written before."""

from __future__ import annotations

from typing import Final

import pytest

from tests.spark.served_tables import Written

pytestmark = [pytest.mark.spark, pytest.mark.shared]

WHERES: Final = ("TRUE", "s.e IS NULL", "s IS NOT NULL AND s.e IS NULL", "s.e = 5", "get(list, 0).e IS NULL")
COLUMNS: Final = (None, ["s"], ["id", "list", "m"])


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_fields_that_were_added_are_null(written: Written, file_format: str) -> None:
    session, table = written.session, "main.reading.nested"
    session.sql(
        "CREATE TABLE reading.nested (id INT, s STRUCT<a: INT, b: STRING>, list ARRAY<STRUCT<a: INT>>, "
        f"m MAP<STRING, STRUCT<a: INT>>) TBLPROPERTIES ('file.format'='{file_format}')"
    )
    session.sql(
        "INSERT INTO reading.nested VALUES (1, named_struct('a', 1, 'b', 'x'), array(named_struct('a', 1), "
        "NULL), map('k', named_struct('a', 1))), (2, NULL, NULL, NULL), "
        "(3, named_struct('a', NULL, 'b', NULL), array(), map('k', NULL))"
    )
    for added in ("s.e INT AFTER a", "list.element.e STRING", "m.value.e STRUCT<f: INT>"):
        session.sql(f"ALTER TABLE reading.nested ADD COLUMN {added}")
    session.sql(
        "INSERT INTO reading.nested VALUES (4, named_struct('a', 4, 'e', 5, 'b', 'y'), array(named_struct("
        "'a', 4, 'e', 'z')), map('k', named_struct('a', 4, 'e', named_struct('f', 6))))"
    )
    asked = [{"where": where, "columns": columns} for where in WHERES for columns in COLUMNS]

    auto, rows = (
        session.read(written.url, table, *({**each, "reader": reader} for each in asked))
        for reader in ("auto", "rows")
    )
    loaded = session.load(table, *(({"url": written.url}, where) for where in WHERES))

    shown = [", ".join(columns or "*") for columns in COLUMNS]
    read = "SELECT {} FROM reading.nested WHERE {}"
    expected = session.exactly(*(read.format(names, where) for where in WHERES for names in shown))
    assert auto == expected
    assert rows == expected
    assert loaded == expected[:: len(COLUMNS)]
    assert [len(each) for each in loaded] == [4, 3, 2, 1, 3]
