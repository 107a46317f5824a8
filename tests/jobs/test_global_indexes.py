"""Jobs leave global indexes of a table as they are, and plans by them lose no row to what a job wrote."""

import json
import shutil
from pathlib import Path

import pytest

from app.planning.request.requests import PlanRequest, SelectionForm
from tests.copied_tables import files_below
from tests.golden_cases import DATABASE
from tests.golden_global_indexes import unpack
from tests.jobs.running_jobs import Jobs, table
from tests.table.commits.test_global_entries import add_source, written_entries
from tests.table.later_release import add_unknown_members
from tests.tables import golden_ref, open_service

# One Spark for all of them, where tests run side by side.
pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("global_indexes"))


def copy_of(warehouse: Path, name: str, root: Path) -> Path:
    directory = Path(shutil.copytree(warehouse / name, root / f"{DATABASE}.db" / "t"))
    add_unknown_members(directory)
    return directory


def planned(root: Path, written: str) -> dict[str, list[int]]:
    """Positions that a plan reads, by file."""
    service = open_service(root)
    try:
        asked = PlanRequest(filter=written, selection=SelectionForm.POSITIONS)
        plan = service.plan(golden_ref("t"), asked)
        return {
            file.file_name: [*range(file.row_count)] if file.selection is None else [*file.selection]
            for file in plan.files
        }
    finally:
        service.close()


def test_indexes_of_files_are_built_and_dropped_beside_them(
    jobs: Jobs, warehouse: Path, tmp_path: Path
) -> None:
    directory = copy_of(warehouse, "java.db/compacted_partly", tmp_path)
    before, there = written_entries(directory), files_below(directory / "index")
    found = planned(tmp_path, "n = 3")

    built = jobs.run(
        "build_index", tmp_path, table("t"), options={"file-index.bitmap.columns": "n,s"}, anyway=True
    )
    with_indexes = planned(tmp_path, "n = 3")
    dropped = jobs.run("drop_index", tmp_path, table("t"))

    assert built["built"]
    assert dropped["dropped"]
    assert [*with_indexes.values()] == [[3]]
    assert planned(tmp_path, "n = 3") == found
    assert (written_entries(directory), files_below(directory / "index")) == (before, there)


def test_rows_are_deleted_beside_them(jobs: Jobs, warehouse: Path, tmp_path: Path) -> None:
    directory = copy_of(warehouse, "java.db/compacted", tmp_path)
    for schema in (directory / "schema").glob("schema-*"):
        document = json.loads(schema.read_text())
        document["options"]["deletion-vectors.enabled"] = "true"
        # Jobs leave the rows of tables with data evolution to the engine.
        del document["options"]["data-evolution.enabled"]
        schema.write_text(json.dumps(document))
    add_source(directory)
    before = written_entries(directory)

    report = jobs.run("delete", tmp_path, table("t"), where="n < 5")

    assert report["rows_deleted"] == 5
    assert written_entries(directory) == before
