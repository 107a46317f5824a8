"""Tables of S3, where Spark has no classes for it: tasks in Python read them."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from app.main import create_app
from app.planning.request.limits import CacheBytes, Limits
from app.planning.service import IndexService
from app.settings import Settings
from app.storage import Warehouse
from tests import golden_tables, s3_server
from tests.api.conftest import listening
from tests.golden_tables import DATABASE
from tests.spark.environment import spark_python
from tests.spark.sessions import CLIENT
from tests.writable_tables import files_below

if TYPE_CHECKING:
    from tests.golden_tables import GoldenWarehouse

# Starts a Spark of its own, which is much for a test of every day.
pytestmark = [pytest.mark.spark, pytest.mark.shared]


PROGRAM: Final = Path(__file__).with_name("object_store_process.py")


def test_every_reader_gives_the_rows(golden: GoldenWarehouse, tmp_path: Path) -> None:
    name = "append_sidecar"
    bucket, directory = f"spark-{uuid.uuid4()}", golden.table(name)
    keys = {
        f"w/{DATABASE}.db/{name}/{path}": (directory / path).read_bytes() for path in files_below(directory)
    }
    query = next(query for query in golden_tables.expected(name)["queries"] if query["name"] == "eq_grade")
    with s3_server.serve(bucket, keys) as options:
        warehouse = Warehouse("main", f"s3://{bucket}/w", options=options)
        service = IndexService({"main": warehouse}, cache_bytes=CacheBytes(), limits=Limits())
        application = create_app(Settings.load(warehouses={"main": f"s3://{bucket}/w"}), service)
        with listening(application, lifespan="on") as started:
            finished = subprocess.run(  # noqa: S603 - fixed words
                [
                    *(str(spark_python()), str(PROGRAM), str(started.base_url)),
                    *(f"main.{DATABASE}.{name}", query["filter_sql"], str(tmp_path)),
                ],
                env=os.environ
                | {
                    "AWS_ENDPOINT_URL": options["endpoint_url"],
                    "AWS_ACCESS_KEY_ID": options["key"],
                    "AWS_SECRET_ACCESS_KEY": options["secret"],
                    "PYSPARK_PYTHON": str(spark_python()),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "PYTHONPATH": str(CLIENT),
                },
                check=False,
                capture_output=True,
                text=True,
            )
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    assert {found[way] for way in ("auto", "rows", "source")} == {query["matching_count"]}
    assert "parquet by positions, in Python" in found["explained"][-1]
