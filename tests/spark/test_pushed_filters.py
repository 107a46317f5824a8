"""Watches for the release of Spark in which a Python data source can be given filters.

Until then, filters that one query pushed stay for the next scan of the same DataFrame, if that pushes none.
No service is involved. Ours takes no filters for that reason (``docs/decisions/reading-in-spark.md``).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.spark.environment import spark_python

pytestmark = [pytest.mark.spark, pytest.mark.shared]

_NEWEST: Final = ("pyspark>=4.3", "numpy==2.4.6", "pandas==2.3.3", "pyarrow==26.0.1")
_PROGRAM: Final = """
import json

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition


class TenReader(DataSourceReader):
    def __init__(self):
        self.wanted = []

    def pushFilters(self, filters):
        for each in filters:
            if isinstance(each, EqualTo):
                self.wanted.append(each.value)
            yield each

    def partitions(self):
        return [InputPartition(number) for number in range(10) if not self.wanted or number in self.wanted]

    def read(self, partition):
        yield (partition.value,)


class Ten(DataSource):
    @classmethod
    def name(cls):
        return "ten"

    def schema(self):
        return "a int"

    def reader(self, schema):
        return TenReader()


settings = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
spark.dataSource.register(Ten)
rows = spark.read.format("ten").load()
print(json.dumps([rows.count(), rows.where("a = 3").count(), rows.count()]))
"""


@pytest.mark.xfail(strict=True, reason="Spark keeps filters that were pushed for later scans")
def test_filters_of_one_query_do_not_stay_for_the_next(tmp_path: Path) -> None:
    python = str(spark_python(_NEWEST))
    program = tmp_path / "pushed.py"
    program.write_text(_PROGRAM)
    environment = os.environ | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}

    done = subprocess.run(  # noqa: S603 - our own program
        [python, str(program)], check=False, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    if done.returncode:
        pytest.fail(done.stderr)
    counts = json.loads(done.stdout.splitlines()[-1])

    assert counts == [10, 1, 10]
