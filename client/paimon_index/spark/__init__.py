"""Reads Paimon tables in Spark from the files and rows that paimon-index keeps for a condition.

::

    from paimon_index.spark import explain, read_table

    day = read_table(spark, "http://localhost:8080", "main.demo.sessions", where="fee = 58.43")
    explain(spark, "http://localhost:8080", "main.demo.sessions", where="fee = 58.43")

Needs the extra ``spark``: pyspark 4, and pyarrow in the workers.
"""

from paimon_index.spark.explaining import explain
from paimon_index.spark.reading import read_table

__all__ = ["explain", "read_table"]
