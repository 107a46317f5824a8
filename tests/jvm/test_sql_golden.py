"""Golden queries as plain Spark SQL: the rows of the engine, from no file that the engine would not have read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

from app.main import create_app
from app.settings import Settings
from tests import golden_tables
from tests.api.conftest import listening
from tests.spark.served_tables import ELSEWHERE, TIMED, ZONES, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.golden_tables import GoldenWarehouse
    from tests.jvm.sql_sessions import SqlSpark

pytestmark = [pytest.mark.jvm, pytest.mark.shared]

_ONE_JOB: Final = 40
_SETTINGS: Final = {
    # Each query of a job keeps its scan, though it may be known to have no rows.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation",
    # A task for each query, whatever the table says of splits.
    "spark.paimon.source.split.target-size": "128 mb",
}


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
    assert counted["fewer"] > counted["queries"] / 10


def queries(table: str) -> list[str]:
    """All that have a condition of SQL, over columns that Spark has types for."""
    shown = ", ".join(f"`{name}`" for name in columns_of(table))
    found = []
    for query in golden_tables.expected(table)["queries"]:
        if query["filter_sql"] is None or query["topn"] or query["limit"]:
            continue
        branch = "" if query["branch"] is None else f"$branch_{query['branch']}"
        version = query["snapshot_id"] or (query["tag"] and f"'{query['tag']}'")
        at = f" VERSION AS OF {version}" if version else ""
        found.append(f"SELECT {shown} FROM {{c}}.golden.`{table}{branch}`{at} WHERE {query['filter_sql']}")
    return found


@pytest.mark.parametrize(
    ("table", "zone"),
    [
        (table, zone)
        for table in golden_tables.tables()
        for zone in ZONES
        if table not in ELSEWHERE and (zone == "UTC" or table in TIMED)
    ],
)
def test_every_query_has_its_rows_from_no_more_files(
    golden: GoldenWarehouse, uri: str, spark: SqlSpark, totals: Counter[str], table: str, zone: str
) -> None:
    session = spark.session(golden.root, uri, zone, _SETTINGS)
    asked = queries(table)

    compared = [
        each
        for start in range(0, len(asked), _ONE_JOB)
        for each in session.compare(*asked[start : start + _ONE_JOB], outcomes=totals)
    ]

    assert not [each for each in compared if not each.is_right()]
    totals["queries"] += len(compared)
    totals["errors"] += sum(each.error is not None for each in compared)
    totals["files of the engine"] += sum(each.files[0] for each in compared)
    totals["files"] += sum(each.files[1] for each in compared)
    totals["fewer"] += sum(each.files[1] < each.files[0] for each in compared)
