"""The data source in sessions of Spark Connect, where everything else of ours is refused."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.spark.environment import spark_python
from tests.spark.served_tables import Golden
from tests.spark.sessions import CLIENT

SERVER: Final = """
import socket, subprocess, sys
from pyspark.sql import SparkSession

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
settings = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": str(port),
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
done = subprocess.run([sys.executable, *sys.argv[1:], f"sc://127.0.0.1:{port}"])
spark.stop()
sys.exit(done.returncode)
"""
SESSION: Final = """
import sys
from pyspark.sql import SparkSession
from paimon_index import UnsupportedSessionError
from paimon_index.spark import read_table, register

url, remote = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
register(spark)
rows = spark.read.format("paimon_index").option("url", url).load("main.golden.append_dv32")
print(rows.count(), rows.where("session_no = 'customer-reference-7'").count())
try:
    read_table(spark, url, "main.golden.append_dv32")
except UnsupportedSessionError as error:
    print("register" in str(error))
"""


@pytest.mark.spark
@pytest.mark.connector
@pytest.mark.long
def test_the_data_source_is_registered_and_read(tables: Golden, tmp_path: Path) -> None:
    python, server, session = str(spark_python()), tmp_path / "server.py", tmp_path / "session.py"
    server.write_text(SERVER)
    session.write_text(SESSION)
    expected = tables.session().sql(
        "SELECT count(*) AS n, count_if(session_no = 'customer-reference-7') AS one "
        "FROM main.golden.append_dv32"
    )

    done = subprocess.run(  # noqa: S603 - our own programs
        [python, str(server), str(session), tables.url],
        env=os.environ | {"PYTHONPATH": str(CLIENT), "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )

    assert done.stdout.split() == [*map(str, expected[0].values()), "True"], done.stderr


PROGRAM: Final = """
from paimon_index import UnsupportedSessionError
from paimon_index.spark import explain, read_table

class Session:
    "Like Spark Connect's, which raises AttributeError for what it does not have."

    def createDataFrame(self): ...

table = ("http://127.0.0.1:9", "main.shop.sales")
for ask in (
    lambda: read_table(Session(), *table),
    lambda: explain(Session(), *table),
):
    try:
        ask()
    except UnsupportedSessionError as error:
        assert "needs a classic session" in str(error), error
        print("refused")
"""


@pytest.mark.spark
def test_they_are_refused_in_one_sentence() -> None:
    finished = subprocess.run(  # noqa: S603 - fixed words
        [str(spark_python()), "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": str(CLIENT)},
        check=False,
        capture_output=True,
        text=True,
    )

    assert finished.stdout.split() == ["refused"] * 2, finished.stderr
