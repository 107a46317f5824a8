"""Golden queries as plain Spark SQL: rows of the engine, from no file that it would not have read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from app.main import create_app
from app.settings import Settings
from tests import golden_tables
from tests.api.conftest import listening
from tests.golden_tables import GoldenWarehouse
from tests.jvm.sql_sessions import Compared, SqlSpark
from tests.spark.served_tables import ELSEWHERE, TIMED, ZONES, columns_of

pytestmark = [pytest.mark.jvm, pytest.mark.shared]

_ONE_JOB: Final = 40
_SOME: Final = 10
"""One of so many queries is run by `make jvm`, and all of them by tests that are ``long``."""
# A task for each query, whatever the table says of splits.
_SETTINGS: Final = {"spark.paimon.source.split.target-size": "128 mb"}
_CASES: Final = [
    (table, zone)
    for table in golden_tables.tables()
    for zone in ZONES
    if table not in ELSEWHERE and (zone == "UTC" or table in TIMED)
]


@pytest.fixture(scope="module")
def uri(golden: GoldenWarehouse) -> Iterator[str]:
    settings = Settings.load(warehouses={"main": str(golden.root)})
    with listening(create_app(settings), lifespan="on") as started:
        yield str(started.base_url).rstrip("/")


@pytest.fixture(scope="module")
def totals(record_testsuite_property: Any) -> Iterator[Counter[str]]:
    """What was counted over all tables; ``--junit-xml`` writes it down."""
    counted: Counter[str] = Counter()
    yield counted
    for name, count in counted.items():
        record_testsuite_property(name, count)
    assert counted["planned"] > counted["queries"] / 4
    assert counted["files"] < counted["files of the engine"]


def queries(table: str) -> list[str]:
    """All with a condition of SQL: of a version all columns, of the latest those that Spark has types for."""
    shown = ", ".join(f"`{name}`" for name in columns_of(table))
    found = []
    for query in golden_tables.expected(table)["queries"]:
        if query["filter_sql"] is None or query["topn"] or query["limit"]:
            continue
        source = f"{{c}}.golden.`{table}`"
        if query["branch"] is not None:
            source = f"{{c}}.golden.`{table}$branch_{query['branch']}`"
        version = query["snapshot_id"] or (query["tag"] and f"'{query['tag']}'")
        select = (
            f"SELECT * FROM {source} VERSION AS OF {version}" if version else f"SELECT {shown} FROM {source}"
        )
        found.append(f"{select} WHERE {query['filter_sql']}")
    return found


class Compare(NamedTuple):
    """The golden warehouse as a session sees it."""

    golden: GoldenWarehouse
    uri: str
    spark: SqlSpark
    totals: Counter[str]

    def queries(self, asked: list[str], zone: str) -> list[Compared]:
        session = self.spark.session(self.golden.root, self.uri, zone, _SETTINGS)
        compared = [
            each
            for start in range(0, len(asked), _ONE_JOB)
            for each in session.compare(*asked[start : start + _ONE_JOB], outcomes=self.totals)
        ]
        self.totals["queries"] += len(compared)
        self.totals["errors"] += sum(each.error is not None for each in compared)
        self.totals["files of the engine"] += sum(each.files[0] for each in compared)
        self.totals["files"] += sum(each.files[1] for each in compared)
        self.totals["fewer"] += sum(each.files[1] < each.files[0] for each in compared)
        return compared


@pytest.fixture
def compare(golden: GoldenWarehouse, uri: str, spark: SqlSpark, totals: Counter[str]) -> Compare:
    return Compare(golden, uri, spark, totals)


@pytest.mark.parametrize("table", [table for table, zone in _CASES if zone == "UTC"])
def test_some_queries_have_their_rows_from_no_more_files(compare: Compare, table: str) -> None:
    offset = golden_tables.tables().index(table)
    compared = compare.queries(queries(table)[offset % _SOME :: _SOME], ZONES[offset % len(ZONES)])

    assert not [each for each in compared if not each.is_right()]


@pytest.mark.long
@pytest.mark.parametrize(("table", "zone"), _CASES)
def test_every_query_has_its_rows_from_no_more_files(compare: Compare, table: str, zone: str) -> None:
    compared = compare.queries(queries(table), zone)

    assert not [each for each in compared if not each.is_right()]
