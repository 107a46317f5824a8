"""Tables with deletion vectors whose level 0 is read: rows are those that the connector reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.spark.served_tables import Written
from tests.spark.sessions import SparkError

pytestmark = [pytest.mark.spark, pytest.mark.shared]

_NAME: Final = "main.reading.merged"
_OPTION: Final = "deletion-vectors.merge-on-read"
_WHERES: Final = (None, "score = 'new'", "score = 'old'", "score = 'newest'", "id = 3")


@pytest.fixture
def merged(written: Written) -> Iterator[Written]:
    """A table with compacted files, of which a vector deletes rows, and newer ones in level 0."""
    session = written.session
    session.sql(
        "CREATE TABLE paimon.reading.merged (id INT NOT NULL, score STRING) "
        "TBLPROPERTIES ('primary-key'='id', "
        "'bucket'='1', 'deletion-vectors.enabled'='true', 'write-only'='true', 'num-levels'='4', "
        f"'{_OPTION}'='true')"
    )
    session.sql("INSERT INTO paimon.reading.merged SELECT id, 'old' FROM range(1, 9)")
    session.sql("CALL paimon.sys.compact(table => 'reading.merged')")
    session.sql("INSERT INTO paimon.reading.merged VALUES (2, 'new'), (4, 'new')")
    session.sql("CALL paimon.sys.compact(table => 'reading.merged', compact_strategy => 'minor')")
    session.sql("INSERT INTO paimon.reading.merged VALUES (3, 'newest'), (12, 'newest')")
    session.sql("DELETE FROM paimon.reading.merged WHERE id = 5")
    yield written
    session.sql("DROP TABLE paimon.reading.merged")


def test_rows_are_those_that_the_connector_reads(merged: Written) -> None:
    session = merged.session
    expected = session.exactly(
        *(f"SELECT * FROM paimon.reading.merged WHERE {where or 'TRUE'}" for where in _WHERES)  # noqa: S608 - our own
    )

    ours = session.read(merged.url, _NAME, *({"where": where} for where in _WHERES))

    assert [len(rows) for rows in ours] == [8, 2, 4, 2, 1]
    assert ours == expected


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        (f"spark.paimon.{_OPTION}", True),
        ("spark.paimon.*.reading.merged.scan.snapshot-id", True),
        ("spark.paimon.paimon.reading.other.scan.snapshot-id", False),
        ("spark.paimon.file-index.read.enabled", False),
    ],
)
def test_a_session_that_changes_what_the_table_shows_is_refused(
    merged: Written,
    name: str,
    is_refused: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    session = merged.session.spark.session("UTC", {name: "1"})

    if is_refused:
        with pytest.raises(SparkError, match=f"UnsupportedTableError.*session sets {re.escape(name)}"):
            session.read(merged.url, _NAME, {})
    else:
        assert [len(rows) for rows in session.read(merged.url, _NAME, {})] == [8]


def test_rows_that_are_merged_and_deleted_are_not_read_by_position(merged: Written) -> None:
    with pytest.raises(SparkError, match=r"UnsupportedTableError.*deleted by position"):
        merged.session.read(merged.url, _NAME, {"reader": "rows"})
