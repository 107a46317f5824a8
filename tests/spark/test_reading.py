"""Tables as ``paimon_index.spark`` reads them: the rows that the connector reads, and that golden files tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from app.main import create_app
from app.settings import Settings
from tests import golden_tables
from tests.api.conftest import listening
from tests.spark.sessions import SparkError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.golden_tables import GoldenWarehouse
    from tests.spark.sessions import Spark, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.shared]

ZONES: Final = ("UTC", "America/New_York", "Asia/Kolkata")
READERS: Final = ("auto", "rows")
REFUSED: Final = {
    "append_avro": "avro",
    "data_evolution": "data evolution",
    "pk_aggregation": "merge-engine aggregation",
    "pk_partial_update": "merge-engine partial-update",
}
ELSEWHERE: Final = ("external_data", "index_external")
"""Their files lie where the engine wrote them, so only the machine that did reads them by their metadata."""
NO_TIME: Final = ("all_types", "all_types_orc")
"""Spark has no type for their columns of type TIME."""
READ: Final = [table for table in golden_tables.tables() if table not in (*REFUSED, *ELSEWHERE)]


class Golden(NamedTuple):
    """The golden tables: in warehouse ``main`` of a service, and in catalog ``main`` of every session."""

    url: str
    spark: Spark
    root: str

    def session(self, zone: str = "UTC", **conf: str) -> SparkSession:
        catalog = {
            "spark.sql.catalog.main": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.main.warehouse": f"file:{self.root}",
        }
        return self.spark.session(zone, catalog | conf)


@pytest.fixture(scope="module")
def tables(spark: Spark, golden: GoldenWarehouse) -> Iterator[Golden]:
    settings = Settings.load(
        warehouses={"main": str(golden.root)}, allow_external=tuple(golden.allow_external())
    )
    with listening(create_app(settings), lifespan="on") as started:
        yield Golden(str(started.base_url), spark, str(golden.root))


def columns_of(table: str) -> list[str]:
    fields = golden_tables.expected(table)["schema"]["fields"]
    return [field["name"] for field in fields if not str(field["type"]).startswith("TIME(")]


def chosen(table: str, zone: str) -> list[dict[str, Any]]:
    """Some queries of the latest version: all rows, and others in each zone."""
    queries = [
        query
        for query in golden_tables.expected(table)["queries"]
        if not (query["tag"] or query["branch"] or query["topn"] or query["limit"] or query["snapshot_id"])
        and (query["filter_sql"] or query["predicate"] is None)
    ]
    step = max(1, len(queries) // 12)
    return [queries[0], *queries[1 + ZONES.index(zone) :: step * 3]]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("table", READ)
def test_rows_are_those_that_the_connector_reads(tables: Golden, table: str, zone: str) -> None:
    session = tables.session(zone)
    columns = columns_of(table)
    shown = ", ".join(f"`{name}`" for name in columns)
    for query in chosen(table, zone):
        where = query["filter_sql"]
        told = [
            session.read(tables.url, f"main.golden.{table}", where=where, columns=columns, reader=reader)
            for reader in READERS
        ]
        assert told[0] == told[1], query["name"]
        if not query.get("engine_differs"):
            statement = f"SELECT {shown} FROM main.golden.{table} WHERE {where or 'TRUE'}"  # noqa: S608 - our own
            assert told[0] == session.exactly(statement), query["name"]
        if zone == "UTC" and golden_tables.expected(table)["merge_engine"] is None:
            assert len(told[0]) == query["matching_count"], query["name"]
