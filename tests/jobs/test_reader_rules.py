"""Sessions whose Java has other rules of a zone than the service: what Spark finds is read and deleted.

Vancouver and Edmonton keep summer time from the winter of 2026 on, which Java learns later than ``tzdata``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.jobs.new_tables import make_table, stored_rows
from tests.jobs.running_jobs import Jobs, deleted, table

# One Spark for all of them, where tests run side by side.
pytestmark = [pytest.mark.spark]

CLOCK: Final = "2026-12-01 00:00:00"
MOMENTS: Final = range(-4, 5)
ROWS: Final = (
    # Spark says which instant the clock is; a file for each row, half an hour apart.
    f"SELECT id, CAST(TIMESTAMP_NTZ'{CLOCK}' AS TIMESTAMP) + make_interval(0, 0, 0, 0, 0, 30 * id, 0) AS ts "  # noqa: S608
    f"FROM range({MOMENTS.start}, {MOMENTS.stop}, 1, {len(MOMENTS)})"
)


@pytest.fixture
def written(jobs: Jobs, tmp_path: Path) -> Iterator[str]:
    """A table of a session in Vancouver."""
    columns = {"id": "BIGINT", "ts": "TIMESTAMP(6) WITH LOCAL TIME ZONE"}
    make_table(tmp_path, "t", columns, options={"deletion-vectors.enabled": "true"})
    jobs.configure({"spark.sql.session.timeZone": "America/Vancouver"})
    jobs.run("upsert", tmp_path, table("t"), paths=[], query=ROWS)
    yield table("t")
    jobs.configure({"spark.sql.session.timeZone": "UTC"})


FOUND: Final = {
    f"ts < '{CLOCK}'": [-4, -3, -2, -1],
    f"ts = '{CLOCK}'": [0],
    f"ts > TIMESTAMP '{CLOCK}'": [1, 2, 3, 4],
    "ts >= DATE '2026-12-01'": [0, 1, 2, 3, 4],
}


def test_rows_are_read(jobs: Jobs, tmp_path: Path, written: str) -> None:
    with listening(create_app(Settings.load(warehouses={"main": str(tmp_path)})), lifespan="on") as service:
        asked = {"url": str(service.base_url), "table": f"main.{written}", "columns": ["id"]}
        read = {where: jobs.ask({"read": asked | {"where": where}})["rows"] for where in FOUND}

    assert {where: sorted(row["id"] for row in rows) for where, rows in read.items()} == FOUND


def test_files_are_planned(jobs: Jobs, tmp_path: Path, written: str) -> None:
    for where, found in FOUND.items():
        assert len(jobs.run("plan", tmp_path, written, filter=where)["files"]) >= len(found)


def test_rows_are_deleted(jobs: Jobs, tmp_path: Path, written: str) -> None:
    report = jobs.run("delete", tmp_path, written, where=f"ts < '{CLOCK}'")

    assert report["rows_deleted"] == 4
    assert sum(map(len, deleted(tmp_path, "t").values())) == 4
    assert len(stored_rows(tmp_path, "t")) == len(MOMENTS)
