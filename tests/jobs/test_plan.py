"""Plans of many manifests on executors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.jobs.build_index import commit_replacements
from app.planning.request.requests import PlanRequest
from tests import golden_tables
from tests.golden_tables import GoldenWarehouse
from tests.jobs.running_jobs import Jobs
from tests.jobs.tables import table
from tests.planning.copied_tables import golden_ref, open_service
from tests.writable_tables import copy_table, open_table

# One Spark for all of them, where tests run side by side.
pytestmark = [pytest.mark.spark]


@pytest.mark.parametrize("name", ["append_partitioned", "append_dv32", "empty"])
def test_plans_of_many_manifests_are_those_of_the_service(
    jobs: Jobs, golden: GoldenWarehouse, tmp_path: Path, name: str
) -> None:
    """Also with manifests that remove what others add."""
    copy_table(golden, name, tmp_path)
    opened = open_table(tmp_path, name)
    for entry in opened.entries()[::3]:
        commit_replacements(
            opened.committer, [(entry, replace(entry, file=replace(entry.file, embedded_index=None)))]
        )
    service = open_service(tmp_path)
    filters = [
        query["filter_sql"]
        for query in golden_tables.expected(name)["queries"]
        if not (query["tag"] or query["snapshot_id"] or query["topn"] or query["limit"] or query["branch"])
    ]
    for condition in filters[1 :: max(1, len(filters) // 2)]:
        expected = service.plan(golden_ref(name), PlanRequest(filter=condition))

        found = jobs.run("plan", tmp_path, table(name), filter=condition)

        assert sorted(file["path"] for file in found["files"]) == sorted(file.path for file in expected.files)
        assert found["files_total"] == expected.summary.files_total
        assert found["rows_total"] == expected.summary.rows_total
        assert found["rows_selected"] == expected.summary.rows_selected, condition
        assert found["skipped_by"] == {str(step): n for step, n in expected.summary.skipped_by.items()}
    service.close()
