"""A job over a table in S3, as its user runs it: Spark's workers read and write there themselves."""

import json
import os
import subprocess
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from app.cli.spark_submit import run_job
from app.storage import Warehouse
from tests import s3_server
from tests.containers import meanings, types_of
from tests.copied_tables import WritableTable, files_below
from tests.faulty_store import BUCKET, Store
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.jobs.running_jobs import job_environment, table
from tests.served import serving
from tests.spark.environment import spark_python

INDEX = {"file-index.bitmap.columns": "shelf", "file-index.in-manifest-threshold": "1 B"}

# Starts a Spark of its own, which is much for a test of every day.
pytestmark = [pytest.mark.spark, pytest.mark.long]


def access(options: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables that name a store and its keys."""
    return {
        "AWS_ENDPOINT_URL": options["endpoint"],
        "AWS_ACCESS_KEY_ID": options["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
    }


def build_index(name: str, url: str, environment: dict[str, str], *options: str) -> dict[str, Any]:
    """Run the job in a Spark of its own; its report."""
    finished = subprocess.run(  # noqa: S603 - fixed words
        [
            *(str(spark_python()), run_job.__file__, "build-index", table(name)),
            *("--rebuild", "--json", "--warehouse", url, "--master", "local[2]", *options),
        ],
        env=job_environment() | environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    report: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return report


def test_jobs_work_on_an_object_store(golden: GoldenWarehouse) -> None:
    name, bucket = "append_sidecar", f"jobs-{uuid.uuid4()}"
    directory = golden.table(name)
    keys = {
        f"w/{DATABASE}.db/{name}/{path}": (directory / path).read_bytes() for path in files_below(directory)
    }
    with s3_server.serve(bucket, keys) as options:
        report = build_index(name, f"s3://{bucket}/w", access(options))
        warehouse = Warehouse("main", f"s3://{bucket}/w", options=options)
        opened = WritableTable.of(warehouse, name)
        entries = opened.entries()
        type_of = types_of(opened.table.resolve().schema.fields)
        assert report["built"] == len(entries)
        assert opened.snapshot()["id"] == report["snapshot_id"]
        for entry in entries:
            path = opened.table.data_paths(opened.table.resolve()).data_file(entry)
            (side,) = entry.file.extra_files
            (old,) = (key for key in keys if f"{entry.file.file_name}." in key and key.endswith(".index"))
            built = warehouse.read(f"{path.rpartition('/')[0]}/{side}")
            assert meanings(built, type_of) == meanings(keys[old], type_of)
        warehouse.readers.close()


def first_plan(
    store: Store, name: str, url: str, **settings: Any
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return what a new server answers, and how often it asks the store for each key from its start on."""
    store.asked.clear()
    with serving(None, warehouses=json.dumps({"main": url}), auth="off", **settings) as server:
        path = f"/v1/main/databases/{DATABASE}/tables/{name}/plan"
        answer = server.client.post(path, json={"filter": "shelf = 5"}).raise_for_status().json()
    files: list[dict[str, Any]] = answer["files"]
    return files, Counter(store.asked)


def is_index(key: str) -> bool:
    return key.endswith(".index")


def test_after_a_job_that_shares_a_new_server_reads_few_index_files(
    golden: GoldenWarehouse, tmp_path: Path
) -> None:
    name, url, cache = "append_partitioned", f"s3://{BUCKET}/lake", f"s3://{BUCKET}/shared"
    key = "of this test alone"
    directory = golden.copy(name, tmp_path / "lake")
    for path in directory.glob("schema/schema-*"):
        schema = json.loads(path.read_text())
        path.write_text(json.dumps({**schema, "options": INDEX}))
    store = Store.of(tmp_path, lambda _: None)
    with store.serving() as options, patch.dict(os.environ, access(options)):
        given = {"PAIMON_INDEX_SHARED_CACHE_KEY": key}
        report = build_index(name, url, given, "--shared-cache", cache)
        alone, asked_alone = first_plan(store, name, url)
        shared, asked = first_plan(store, name, url, shared_cache=cache, shared_cache_key=key)

    assert shared == alone
    assert sum(map(is_index, asked_alone)) == report["built"] == 36
    # Fewer than 16 files whose payloads are not small are not worth a look into the store.
    assert sum(map(is_index, asked)) < 16
    of_table = {each for each in asked if each.startswith("lake") and not is_index(each)}
    assert of_table == {each for each in asked_alone if not is_index(each)}
    assert asked.total() < asked_alone.total() * 0.6
