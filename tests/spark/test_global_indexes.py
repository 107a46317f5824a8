"""Tables with data evolution and global indexes: rows of files that need no others, and what is refused."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from app.main import create_app
from app.planning.request.requests import SnapshotSelector, TableRef
from app.settings import Settings
from tests.api.conftest import listening
from tests.golden_global_indexes import unpack
from tests.planning.test_global_indexes import Written, bound
from tests.spark.sessions import Spark, SparkError, SparkSession
from tests.tables import open_service

pytestmark = [pytest.mark.spark, pytest.mark.long]

CONDITIONS: Final = [
    *(
        ("small_blocks", condition, "i64")
        for condition in ("i64 = -29000000000000000", "i = 7", "s LIKE 'te%'")
    ),
    *(
        ("btree", condition, "i64")
        for condition in ("i64 IN (-29000000000000000, 61000000000000000)", "d IS NULL")
    ),
    *(("bitmap", condition, "i64") for condition in ("s = 'te' AND i > 5", "i IS NULL OR dec = 1.00")),
    *(("parts", condition, "n") for condition in ("n = 3", "s = 's1' AND p = 'a'", "n < 0")),
    ("updated", "n = 13", "n"),
    ("evolved", "i = 7", "i"),
]
"""Conditions on tables, with a column to read."""


class Indexed:
    """The tables in a service, and in a session of Spark."""

    def __init__(self, url: str, session: SparkSession, warehouse: Path) -> None:
        self.url = url
        self.session = session
        self._warehouse = warehouse

    def read(self, name: str, **asked: object) -> list[dict[str, object]]:
        (rows,) = self.session.read(self.url, f"main.pypaimon.{name}", asked)
        return [json.loads(row) for row in rows]

    def matching(self, name: str, condition: str, column: str) -> list[object]:
        """Values of a column in all rows that satisfy a condition."""
        service = open_service(self._warehouse)
        version = service.resolve(TableRef("golden", "pypaimon", name), SnapshotSelector())
        written = Written.read(version, self._warehouse / "pypaimon.db" / name)
        rows = written.matching(bound(written, condition))
        service.close()
        return [written.columns[column][at] for at, row in enumerate(written.row_ids) if row in rows]


@pytest.fixture(scope="module")
def indexed(spark: Spark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Indexed]:
    warehouse = unpack(tmp_path_factory.mktemp("indexed"))
    with listening(create_app(Settings.load(warehouses={"main": str(warehouse)})), lifespan="on") as started:
        yield Indexed(str(started.base_url), spark.session(), warehouse)


@pytest.mark.parametrize(("name", "condition", "column"), CONDITIONS)
@pytest.mark.parametrize("reader", ["auto", "rows"])
def test_rows_are_all_that_match(
    indexed: Indexed, name: str, condition: str, column: str, reader: str
) -> None:
    rows = indexed.read(name, where=condition, columns=[column], reader=reader)

    assert Counter(row.get(column) for row in rows) == Counter(indexed.matching(name, condition, column))


@pytest.mark.parametrize(
    ("name", "condition"), [("stale", "n = 13"), ("updated", "n = 3"), ("updated", None)]
)
def test_files_that_hold_columns_of_the_same_rows_are_refused(
    indexed: Indexed, name: str, condition: str | None
) -> None:
    with pytest.raises(SparkError, match=r"UnsupportedTableError.*data evolution.*compacted.*paimon-spark"):
        indexed.read(name, where=condition)
