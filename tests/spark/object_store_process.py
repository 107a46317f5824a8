"""Reads a table of S3 in every way that needs no classes of Hadoop for it, and prints what was found as JSON.

Runs in the environment with pyspark, with one core. Arguments: base URL of the service, the table, a
condition, a directory for Spark's own files, and Hadoop's settings as JSON. Without any, pyarrow finds the
store by AWS's environment variables, which is all that the data source knows.
"""

import contextlib
import io
import json
import os
import sys

from pyspark.sql import SparkSession

from paimon_index import Client
from paimon_index.spark import explain, read_table, register
from paimon_index.spark.questions import PythonShare
from paimon_index.spark.store_access import StoreAccess


def main(url: str, table: str, where: str, scratch: str, settings: str) -> None:
    """Print counts of rows, up to which share ``auto`` reads by position, and what ``explain`` prints."""
    # Spark prints as it likes.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    hadoop = json.loads(settings)
    builder = SparkSession.builder.master("local[1]").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.local.dir", scratch).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    for name, value in hadoop.items():
        builder = builder.config(f"spark.hadoop.{name}", value)
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    explained = io.StringIO()
    with contextlib.redirect_stdout(explained):
        explain(spark, url, table, where=where)
    with Client(url) as client:
        files = client.plan(table, filter=where, selection="none", uris=True).to_arrow()
    found = {
        "share": PythonShare.of(spark, StoreAccess(spark)).of_files(files),
        "auto": read_table(spark, url, table, where=where).count(),
        "rows": read_table(spark, url, table, where=where, reader="rows").count(),
        "explained": explained.getvalue().splitlines(),
    }
    if not hadoop:
        register(spark)
        source = spark.read.format("paimon_index").options(url=url, prune=where).load(table)
        found["source"] = source.where(where).count()
    answers.write(json.dumps(found))
    answers.close()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
