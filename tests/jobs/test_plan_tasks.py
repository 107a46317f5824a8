"""What tasks plan, one manifest each and several in one process, is what the service plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.jobs.job_table import JobTable
from app.jobs.plan import PlanTask, plan_manifest
from app.planning.request.requests import PlanRequest
from benchmarks.events import DATABASE, TABLE, Indexed, Layout
from benchmarks.synthetic import write_table

FILES = 60
MANIFESTS = 4


@pytest.mark.parametrize("is_embedded", [True, False])
@pytest.mark.parametrize("indexed", [Indexed.KEYS, Indexed.VALUES])
def test_manifests_do_not_share_what_is_kept(tmp_path: Path, indexed: Indexed, is_embedded: bool) -> None:  # noqa: FBT001
    write_table(tmp_path, Layout(indexed, is_embedded=is_embedded), FILES, MANIFESTS)
    table = JobTable.open(str(tmp_path), f"{DATABASE}.{TABLE}")
    version = table.latest()
    column = "id" if indexed is Indexed.KEYS else "cat"
    filters = [f"{column} = {value}" for value in range(12)]

    for written in filters:
        expected = table.service.plan(table.ref, PlanRequest(filter=written))
        parts = [
            plan_manifest(
                PlanTask(
                    table.place,
                    table.name,
                    version.snapshot_id or 0,
                    version.schema_id,
                    file,
                    (),
                    written,
                    "UTC",
                )
            )
            for file in version.manifest_files()
        ]

        paths = [path for part in parts for path in part.files.column("path").to_pylist()]
        assert paths == [file.path for file in expected.files]
        assert sum(part.files_total for part in parts) == FILES
