"""Joins in a real Spark, by the engine's catalog and by the one that plans through the service.

Arguments: jars, a directory for the warehouse. The first line of the output says that the tables are written,
and is answered by the URL of a service. Then comes one line of JSON for each query of the input.
"""

import json
import sys

from pyspark.sql import DataFrame, SparkSession

JARS, WAREHOUSE = sys.argv[1:]
FILES, ROWS = 36, 1000


def main() -> None:
    builder = (
        SparkSession.builder.master("local[1]").config("spark.jars", JARS).config("spark.ui.enabled", "false")
    )
    settings = {
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.catalog.plain": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.plain.warehouse": WAREHOUSE,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sql("CREATE DATABASE plain.d")
    spark.sql(
        "CREATE TABLE plain.d.facts (k BIGINT, day INT, v BIGINT) PARTITIONED BY (day) TBLPROPERTIES "
        "('bucket' = '-1', 'write-only' = 'true', 'file-index.bloom-filter.columns' = 'k')"
    )
    for file in range(FILES):
        # Every file has keys from the whole range: its statistics rule nothing out.
        keys = f"id * {FILES} + {file} AS k"
        spark.range(ROWS, numPartitions=1).selectExpr(keys, f"{file % 2} AS day", "id AS v").writeTo(
            "plain.d.facts"
        ).append()
    spark.sql("CREATE TABLE plain.d.few (k BIGINT, name STRING)")
    spark.sql(
        "INSERT INTO plain.d.few VALUES (37, 'red'), (73, 'red'), (78, 'red'), (NULL, 'red'), (112, 'blue')"
    )
    tell("written")
    uri = input()
    spark.conf.set("spark.sql.catalog.indexed", "org.apache.paimon.spark.SparkCatalog")
    for option, value in {
        "warehouse": WAREHOUSE,
        "metastore": "paimon-index",
        "paimon-index.uri": uri,
    }.items():
        spark.conf.set(f"spark.sql.catalog.indexed.{option}", value)
    spark.conf.set("spark.sql.catalog.indexed.paimon-index.warehouse", "main")
    # The first question waits until the service has read the index files.
    spark.conf.set("spark.sql.catalog.indexed.paimon-index.timeout", "60 s")
    for line in sys.stdin:
        answers = {}
        for catalog in ("plain", "indexed"):
            spark.sql(f"USE {catalog}.d")
            spark.sql("CREATE OR REPLACE TEMP VIEW red AS SELECT k, 1 AS day FROM few WHERE name = 'red'")
            found = spark.sql(line)
            answers[catalog] = {"rows": sorted(map(str, found.collect())), "files": files_read(found)}
        tell(json.dumps(answers))


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def files_read(found: DataFrame) -> int:
    """Files of the table ``facts`` in the plan that was executed."""
    leaves = found._jdf.queryExecution().executedPlan().finalPhysicalPlan().collectLeaves()  # noqa: SLF001
    total = 0
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if "facts" in leaf.toString():
            total += leaf.metrics().apply("resultedTableFiles").value()
    return total


main()
