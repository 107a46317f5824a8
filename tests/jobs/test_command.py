"""The command ``job`` as it is installed in a virtual environment that is not activated."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from app.jobs import JobTable
from app.jobs.plan import PlanTask, plan_manifest
from app.planning.request.requests import PlanRequest
from benchmarks.events import DATABASE, TABLE, Indexed, Layout
from benchmarks.synthetic import write_table
from tests.examples import share
from tests.golden_cases import GoldenWarehouse
from tests.jobs.running_jobs import Jobs
from tests.spark.environment import spark_python

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "from app.cli import main\nmain()\n"


@pytest.fixture
def installed(jobs: Jobs, tmp_path: Path) -> Path:
    """Return the command in an environment that has the project, its client and Spark."""
    del jobs  # says whether Spark can run
    directory = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)  # noqa: S603 - fixed words
    packages = next(directory.glob("lib/python*/site-packages"))
    of_spark = next(spark_python().parents[1].glob("lib/python*/site-packages"))
    found = (ROOT, ROOT / "client", of_spark, sysconfig.get_path("purelib"))
    (packages / "installed.pth").write_text("".join(f"{each}\n" for each in found))
    command = directory / "bin" / "paimon-index"
    command.write_text(f"#!{directory}/bin/python\n{PROGRAM}")
    command.chmod(0o755)
    return command


@pytest.mark.long
def test_tasks_run_in_the_python_that_runs_the_command(
    installed: Path, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    """The ``python3`` of the search path knows nothing of the project."""
    golden.copy("append_embedded", tmp_path / "lake")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON"))
    }

    finished = subprocess.run(  # noqa: S603 - fixed words
        [
            *(
                str(installed),
                "job",
                "audit",
                "golden.append_embedded",
                "--warehouse",
                str(tmp_path / "lake"),
            ),
            *("--master", "local[2]", "--sample", "5", "--json"),
        ],
        env=environment
        | {
            "PATH": os.pathsep.join((str(tmp_path / "bin"), os.environ["PATH"])),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )

    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout.splitlines()[-1])["passed"] is True


FILES = 60
MANIFESTS = 4


@pytest.mark.parametrize(
    ("indexed", "is_embedded"),
    [
        (Indexed.KEYS, True),
        pytest.param(Indexed.KEYS, False, marks=pytest.mark.long),
        pytest.param(Indexed.VALUES, True, marks=pytest.mark.long),
        (Indexed.VALUES, False),
    ],
)
def test_manifests_do_not_share_what_is_kept(tmp_path: Path, indexed: Indexed, is_embedded: bool) -> None:
    write_table(tmp_path, Layout(indexed, is_embedded=is_embedded), FILES, MANIFESTS)
    table = JobTable.open(str(tmp_path), f"{DATABASE}.{TABLE}")
    version = table.latest()
    column = "id" if indexed is Indexed.KEYS else "cat"
    filters = [f"{column} = {value}" for value in share(range(12), 3)]

    for written in filters:
        expected = table.service.plan(table.ref, PlanRequest(filter=written))
        parts = [
            plan_manifest(
                PlanTask(
                    table.place,
                    table.name,
                    version.snapshot_id or 0,
                    version.schema.ids,
                    file,
                    (),
                    written,
                )
            )
            for file in version.manifest_files()
        ]

        paths = [path for part in parts for path in part.files.column("path").to_pylist()]
        assert paths == [file.path for file in expected.files]
        assert sum(part.files_total for part in parts) == FILES
