"""A job that leaves what plans read in the shared cache, so that no process reads index files one by one."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from app.cli.spark_submit import run_job
from app.planning.request.requests import PlanRequest
from app.storage import Warehouse
from app.storage.shared_tier import SharedTier
from tests.golden_tables import DATABASE, GoldenWarehouse
from tests.jobs.running_jobs import job_environment, table
from tests.planning.copied_tables import golden_ref, open_service
from tests.planning.made_tables import names_of
from tests.spark.environment import spark_python

# Starts a Spark of its own, which is much for a test of every day.
pytestmark = [pytest.mark.spark, pytest.mark.long]

KEY = "0123456789abcdef"


def test_the_first_plan_after_a_job_reads_no_index_file(golden: GoldenWarehouse, tmp_path: Path) -> None:
    name, root, shared = "append_partitioned", tmp_path / "warehouse", tmp_path / "shared"
    shutil.copytree(golden.table(name), root / f"{DATABASE}.db" / name)

    finished = subprocess.run(  # noqa: S603 - fixed words
        [
            *(str(spark_python()), run_job.__file__, "build-index", table(name), "--rebuild", "--json"),
            *("--shared-cache", str(shared), "--warehouse", str(root), "--master", "local[2]"),
        ],
        env=job_environment() | {"PAIMON_INDEX_SHARED_CACHE_KEY": KEY},
        check=False,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout.splitlines()[-1])["built"] >= 16
    asked = PlanRequest(filter="user_key = 'm'")
    with closing(open_service(root)) as service:
        expected = names_of(service.plan(golden_ref(name), asked).files)
    for path in (root / f"{DATABASE}.db" / name).rglob("*.index"):
        path.unlink()

    tier = SharedTier(Warehouse("shared", str(shared)), KEY.encode())
    with closing(open_service(root, shared=tier)) as service:
        plan = service.plan(golden_ref(name), asked)
        told = service.cache_statistics()["shared"]

    assert not expected
    # Of a group of manifests with fewer index files than are worth a call these are read, and not there.
    assert len(plan.files) == len(plan.warnings) < 16
    assert (told["misses"], told["corrupt"]) == (0, 0)
    assert told["hits"] > 0
