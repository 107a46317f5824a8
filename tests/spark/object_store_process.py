"""Reads a table of S3 in every way that needs no classes of Hadoop for it, and prints what was found as JSON.

Runs in the environment with pyspark; pyarrow finds the store by AWS's environment variables. Arguments: base
URL of the service, the table, a condition, a directory for Spark's own files.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys

from pyspark.sql import SparkSession

from paimon_index.spark import explain, read_table, register


def main(url: str, table: str, where: str, scratch: str) -> None:
    """Prints counts of rows, and what ``explain`` prints."""
    # Spark prints as it likes.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    builder = SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.local.dir", scratch).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    register(spark)
    source = spark.read.format("paimon_index").options(url=url, prune=where, time_zone="UTC").load(table)
    explained = io.StringIO()
    with contextlib.redirect_stdout(explained):
        explain(spark, url, table, where=where)
    found = {
        "auto": read_table(spark, url, table, where=where).count(),
        "rows": read_table(spark, url, table, where=where, reader="rows").count(),
        "source": source.where(where).count(),
        "explained": explained.getvalue().splitlines(),
    }
    answers.write(json.dumps(found))
    answers.close()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
