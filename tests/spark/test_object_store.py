"""Tables of S3, where Spark has no classes for it: tasks in Python read them."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from app.main import create_app
from app.planning.request.limits import CacheBytes, Limits
from app.planning.service import IndexService
from app.settings import Settings
from app.storage import Warehouse
from tests import golden_cases, s3_server
from tests.api.conftest import listening
from tests.copied_tables import files_below
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.spark.environment import spark_python
from tests.spark.sessions import CLIENT

# Starts a Spark of its own, which is much for a test of every day.
pytestmark = [pytest.mark.spark, pytest.mark.long]
TABLE: Final = "append_sidecar"
PROGRAM: Final = Path(__file__).with_name("object_store_process.py")


@dataclass(frozen=True)
class Bucket:
    """A golden table in a bucket, and a service that serves it."""

    url: str
    table: str
    options: dict[str, Any]

    def read(self, where: str, scratch: Path, hadoop: dict[str, str], environment: dict[str, str]) -> Found:
        """Return what Spark finds with settings of Hadoop, in an environment without other credentials."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        finished = subprocess.run(  # noqa: S603 - fixed words
            [
                str(spark_python()),
                str(PROGRAM),
                self.url,
                self.table,
                where,
                str(scratch),
                json.dumps(hadoop),
            ],
            env=own
            | environment
            | {
                "PYSPARK_PYTHON": str(spark_python()),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYTHONPATH": str(CLIENT),
            },
            stdin=subprocess.DEVNULL,
            check=False,
            capture_output=True,
            text=True,
        )
        assert finished.returncode == 0, finished.stderr
        found = json.loads(finished.stdout)
        explained, share = found.pop("explained"), found.pop("share")
        return Found(found, share, explained[-1])

    @property
    def in_environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.options["endpoint"],
            "AWS_ACCESS_KEY_ID": self.options["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": self.options["secret_access_key"],
        }

    @property
    def in_hadoop(self) -> dict[str, str]:
        return {
            "fs.s3a.endpoint": self.options["endpoint"],
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": self.options["access_key_id"],
            "fs.s3a.secret.key": self.options["secret_access_key"],
        }


@dataclass(frozen=True)
class Found:
    """What a scan found.

    Attributes:
        counts: of rows, by the way they were read.
        share: of the rows of the kept files, up to which ``auto`` reads them by position.
        reader: who reads the files.
    """

    counts: dict[str, int]
    share: float
    reader: str


@pytest.fixture(scope="module")
def bucket(golden: GoldenWarehouse) -> Iterator[Bucket]:
    name, directory = f"spark-{uuid.uuid4()}", golden.table(TABLE)
    keys = {
        f"w/{DATABASE}.db/{TABLE}/{path}": (directory / path).read_bytes() for path in files_below(directory)
    }
    with s3_server.serve(name, keys) as options:
        warehouse = Warehouse("main", f"s3://{name}/w", options=options)
        service = IndexService({"main": warehouse}, cache_bytes=CacheBytes(), limits=Limits())
        application = create_app(Settings.load(warehouses={"main": f"s3://{name}/w"}), service)
        with listening(application, lifespan="on") as started:
            yield Bucket(str(started.base_url), f"main.{DATABASE}.{TABLE}", options)


def asked(name: str) -> dict[str, Any]:
    queries: list[dict[str, Any]] = golden_cases.expected(TABLE)["queries"]
    return next(query for query in queries if query["name"] == name)


def test_every_reader_gives_the_rows(bucket: Bucket, tmp_path: Path) -> None:
    query = asked("eq_grade")

    found = bucket.read(query["filter_sql"], tmp_path, {}, bucket.in_environment)

    assert found.counts == dict.fromkeys(("auto", "rows", "source"), query["matching_count"])
    assert "parquet by positions, in Python" in found.reader


def test_tasks_have_the_credentials_that_hadoop_has(bucket: Bucket, tmp_path: Path) -> None:
    """Five small objects take one core less time by positions, since that takes fewer calls."""
    query = asked("eq_owner")

    found = bucket.read(query["filter_sql"], tmp_path, bucket.in_hadoop, {})

    assert found.counts == dict.fromkeys(("auto", "rows"), query["matching_count"])
    assert found.share == 1


def test_objects_that_hadoop_reads_in_a_way_of_its_own_are_left_to_sparks_reader(
    bucket: Bucket, tmp_path: Path
) -> None:
    """It is missing here, so tasks in Python read them with the environment's credentials."""
    query = asked("eq_owner")
    role = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"

    found = bucket.read(
        query["filter_sql"], tmp_path, {"fs.s3a.aws.credentials.provider": role}, bucket.in_environment
    )

    assert found.counts == dict.fromkeys(("auto", "rows"), query["matching_count"])
    assert found.share == 0
