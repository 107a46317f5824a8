"""Spark's own shell of SQL."""

import os
from collections.abc import Sequence
from pathlib import Path

from tests.example_scripts import output
from tests.spark.environment import spark_python


def spark_sql(options: Sequence[str], jars: Sequence[Path | str] = ()) -> str:
    """Return what ``spark-sql`` prints with some options, run in the clone."""
    python = spark_python()
    command = [
        str(python.with_name("spark-sql")),
        *options,
        *([f"--jars={','.join(map(str, jars))}"] if jars else []),
        "--conf=spark.ui.enabled=false",
        # Without tables of its own it leaves no files in the clone.
        "--conf=spark.sql.catalogImplementation=in-memory",
    ]
    return output(command, {**os.environ, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"})
