# ruff: noqa: INP001, T201 - a program of its own, in no package, that reports by printing
"""The same SQL twice in a real Spark session: by the engine's connector alone, and through the service.

``make demo SQL=1 CONNECTOR=JAR`` runs it beside a service on the sample warehouse, in an environment with
pyspark: ``sql.py URL WAREHOUSE CONNECTOR CATALOG_JAR``. Ends with status 1 when rows differ, or when the
service leaves no file out.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import Row

QUERIES = (
    "SELECT session_no, fee, owner FROM {}.demo.sessions WHERE fee = 58.43",
    "SELECT session_no, fee, owner FROM {}.demo.sessions WHERE session_no = 'ocean_00094'",
    "SELECT * FROM {}.demo.sessions WHERE rank_no = 3642 OR owner = 'grove_00046'",
)
ROUNDS = 5


class Answer(NamedTuple):
    """Of one query, once: its rows, the files that were planned, and the time until the rows were there."""

    rows: list[Row]
    files: int
    milliseconds: float


def main(url: str, warehouse: str, connector: str, catalog_jar: str) -> int:
    """Ask each query in both catalogs in turn, and print the fastest answers; give the exit status."""
    ours = {"metastore": "paimon-index", "paimon-index.uri": url, "warehouse": warehouse}
    settings = {
        "spark.jars": f"{connector},{catalog_jar}",
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.plain": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.plain.warehouse": warehouse,
        # The engine makes its default database where it is missing, in the warehouse.
        "spark.sql.catalog.plain.defaultDatabase": "demo",
        "spark.sql.catalog.ours": "org.apache.paimon.spark.SparkCatalog",
        **{f"spark.sql.catalog.ours.{name}": value for name, value in ours.items()},
        "spark.sql.catalog.ours.defaultDatabase": "demo",
        # This machine runs all of it: the first question may wait for the service's first answer.
        "spark.sql.catalog.ours.paimon-index.timeout": "60 s",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    print("\n# `plain` is the connector's own catalog. `ours` is one with these settings:")
    print("\n".join(f"spark.sql.catalog.ours.{name} {value}" for name, value in ours.items()), flush=True)
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    right = [compare(spark, query) for query in QUERIES]
    print(
        "\nTen small files are read in no time: benchmarks/SPARK.md and SPARK-S3.md have times of 650 files."
    )
    spark.stop()
    return 0 if all(right) else 1


def compare(spark: SparkSession, query: str) -> bool:
    """Print what both catalogs make of a query; tell whether the rows are the same, from fewer files."""
    rounds = [[ask(spark, query.format(catalog)) for catalog in ("plain", "ours")] for _ in range(ROUNDS)]
    plain, ours = (min(answers, key=lambda each: each.milliseconds) for answers in zip(*rounds, strict=True))
    print(f"\n$ {query.format('ours')}\n{len(ours.rows)} rows")
    for name, answer in (("connector alone", plain), ("through the service", ours)):
        print(f"{name:20} {answer.files:3} files {answer.milliseconds:6.0f} ms")
    same = sorted(map(str, plain.rows)) == sorted(map(str, ours.rows))
    if not same or ours.files >= plain.files:
        print(f"WRONG: {'no file is left out' if same else 'the rows differ'}")
    return same and ours.files < plain.files


def ask(spark: SparkSession, statement: str) -> Answer:
    """One statement, and the connector's own count of the files that its plan reads."""
    started = time.perf_counter()
    rows = spark.sql(statement)
    found = rows.collect()
    milliseconds = (time.perf_counter() - started) * 1e3
    scan = rows._jdf.queryExecution().executedPlan().collectLeaves().head()  # noqa: SLF001 - no other door
    return Answer(found, scan.metrics().apply("resultedTableFiles").value(), milliseconds)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
