"""Reads and aggregates Paimon tables in Spark with plans of paimon-index.

::

    from paimon_index.spark import explain, read_table

    day = read_table(spark, "http://localhost:8080", "main.demo.sessions", where="fee = 58.43")
    explain(spark, "http://localhost:8080", "main.demo.sessions", where="fee = 58.43")

Needs the extra ``spark``: pyspark 4, and pyarrow in the workers.
"""

from paimon_index.spark.aggregating import aggregate
from paimon_index.spark.explaining import explain
from paimon_index.spark.reading import read_table
from paimon_index.spark.source import register

__all__ = ["aggregate", "explain", "read_table", "register"]
