"""A job over a table in S3, as its user runs it: Spark's workers read and write there themselves."""

from __future__ import annotations

import json
import subprocess
import uuid

import pytest

from app.cli.spark_submit import run_job
from app.storage import Warehouse
from tests import s3_server
from tests.containers import meanings, types_of
from tests.golden_tables import DATABASE, GoldenWarehouse
from tests.jobs.running_jobs import job_environment, table
from tests.spark.environment import spark_python
from tests.writable_tables import WritableTable, files_below

# Starts a Spark of its own, which is much for a test of every day.
pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_jobs_work_on_an_object_store(golden: GoldenWarehouse) -> None:
    name, bucket = "append_sidecar", f"jobs-{uuid.uuid4()}"
    directory = golden.table(name)
    keys = {
        f"w/{DATABASE}.db/{name}/{path}": (directory / path).read_bytes() for path in files_below(directory)
    }
    with s3_server.serve(bucket, keys) as options:
        finished = subprocess.run(  # noqa: S603 - fixed words
            [
                *(str(spark_python()), run_job.__file__, "build-index", table(name)),
                *("--rebuild", "--json", "--warehouse", f"s3://{bucket}/w", "--master", "local[2]"),
            ],
            env=job_environment()
            | {
                "AWS_ENDPOINT_URL": options["endpoint"],
                "AWS_ACCESS_KEY_ID": options["access_key_id"],
                "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
            },
            check=False,
            capture_output=True,
            text=True,
        )
        assert finished.returncode == 0, finished.stderr
        report = json.loads(finished.stdout.splitlines()[-1])
        warehouse = Warehouse("main", f"s3://{bucket}/w", options=options)
        opened = WritableTable.of(warehouse, name)
        entries = opened.entries()
        type_of = types_of(opened.table.resolve().schema.fields)
        assert report["built"] == len(entries)
        assert opened.snapshot()["id"] == report["snapshot_id"]
        for entry in entries:
            path = opened.table.paths(opened.table.resolve()).data_file(entry)
            (side,) = entry.file.extra_files
            (old,) = (key for key in keys if f"{entry.file.file_name}." in key and key.endswith(".index"))
            built = warehouse.read(f"{path.rpartition('/')[0]}/{side}")
            assert meanings(built, type_of) == meanings(keys[old], type_of)
        warehouse.readers.close()
