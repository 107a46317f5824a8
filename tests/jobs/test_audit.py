"""Audits find indexes that hide rows."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.spark_submit import run_job
from app.jobs.build_index import commit_replacements
from tests.golden_tables import GoldenWarehouse
from tests.jobs.running_jobs import Jobs, job_environment
from tests.jobs.tables import table
from tests.spark.environment import spark_python
from tests.writable_tables import copy_table, open_table

# One Spark for all of them, where tests run side by side.
pytestmark = [pytest.mark.spark]


def test_an_audit_names_an_index_that_hides_a_row(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    name = "append_dv32"
    copy_table(golden, name, tmp_path)
    opened = open_table(tmp_path, name)
    one, other = opened.entries()[:2]
    wrong = replace(one, file=replace(one.file, embedded_index=other.file.embedded_index))
    broken = replace(other, file=replace(other.file, embedded_index=b"no index"))
    commit_replacements(opened.committer, [(one, wrong), (other, broken)])

    audited = jobs.run("audit", tmp_path, table(name), sample=20)

    found = {problem["path"].rpartition("/")[2] for problem in audited["problems"]}
    assert found == {one.file.file_name, other.file.file_name}
    assert any(problem["lost"] for problem in audited["problems"])

    jobs.run("build_index", tmp_path, table(name), rebuild=True)
    assert jobs.run("audit", tmp_path, table(name))["problems"] == []


@pytest.mark.long
def test_the_command_tells_by_its_status_what_an_audit_found(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    del jobs  # says whether Spark can run
    name = "append_dv32"
    copy_table(golden, name, tmp_path)
    opened = open_table(tmp_path, name)
    one, other = opened.entries()[:2]
    wrong = replace(one, file=replace(one.file, embedded_index=other.file.embedded_index))
    commit_replacements(opened.committer, [(one, wrong)])
    program = Path(run_job.__file__)

    finished = subprocess.run(  # noqa: S603 - fixed words
        [
            *(str(spark_python()), str(program), "audit", table(name), "--warehouse", str(tmp_path)),
            *("--master", "local[1]", "--sample", "5", "--json"),
        ],
        env=job_environment(),
        check=False,
        capture_output=True,
        text=True,
    )

    assert finished.returncode == 1, finished.stderr
    document = json.loads(finished.stdout.splitlines()[-1])
    assert document["passed"] is False
    assert f"{one.file.file_name}: " in finished.stderr
    assert "Traceback" not in finished.stderr
