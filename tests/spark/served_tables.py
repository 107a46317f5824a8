"""Tables of a service that sessions of Spark see, too: golden ones, and some that the connector writes."""

from typing import Any, Final, NamedTuple

from tests import golden_cases
from tests.spark.sessions import Spark, SparkSession

ZONES: Final = ("UTC", "America/New_York", "Asia/Kolkata")
REFUSED: Final = {
    "data_evolution": "data evolution",
    "pk_aggregation": "merge-engine aggregation",
    "pk_partial_update": "merge-engine partial-update",
}
ELSEWHERE: Final = ("external_data", "index_external")
"""Their files lie where the engine wrote them, so only the machine that did reads them by their metadata."""
TIMED: Final = ("all_types", "all_types_orc", "append_dv32", "append_part_types", "evolve_append", "pk_merge")
"""Tables that are read in every zone; the others in one."""
READ: Final = [table for table in golden_cases.tables() if table not in (*REFUSED, *ELSEWHERE)]


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


class Written(NamedTuple):
    """Tables that the connector writes, and a service of them."""

    url: str
    session: SparkSession


def columns_of(table: str) -> list[str]:
    """All but those of type TIME, for which Spark has no type."""
    fields = golden_cases.expected(table)["schema"]["fields"]
    return [field["name"] for field in fields if not str(field["type"]).startswith("TIME(")]


def chosen(table: str, zone: str) -> list[dict[str, Any]]:
    """Return some queries of the latest version: all rows, and others in each zone."""
    queries = [
        query
        for query in golden_cases.expected(table)["queries"]
        if not (query["tag"] or query["branch"] or query["topn"] or query["limit"] or query["snapshot_id"])
        and (query["filter_sql"] or query["predicate"] is None)
    ]
    step = max(1, len(queries) // 12)
    return [queries[0], *queries[1 + ZONES.index(zone) :: step * 3]]
