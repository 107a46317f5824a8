"""Jobs over tables in HDFS commit there what they commit on a disk, and the engine reads it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests import hdfs
from tests.acceptance.java_engine import JavaEngine
from tests.copied_tables import open_table
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.jobs.new_tables import make_table, merged_rows
from tests.jobs.running_jobs import Jobs, deleted, live_names, table

pytestmark = [pytest.mark.spark, pytest.mark.engine, pytest.mark.long]

INDEXED: Final = "append_sidecar"
SHORTENED: Final = "append_dv64"
GROWN: Final = "grown"
WORK: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("build_index", INDEXED, {"rebuild": True}),
    ("delete", SHORTENED, {"where": "month(born) > 6 AND NOT hot"}),
    ("upsert", GROWN, {"paths": [], "query": "SELECT id AS k, concat('s', id) AS s FROM range(100)"}),
    ("upsert", GROWN, {"paths": [], "query": "SELECT id AS k, 'new' AS s FROM range(50, 150)"}),
)


@pytest.fixture(scope="module", name="local")
def a_local_warehouse(golden: GoldenWarehouse, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("local") / "warehouse"
    golden.copy(INDEXED, root)
    golden.copy(SHORTENED, root)
    columns = {"k": "BIGINT NOT NULL", "s": "STRING"}
    make_table(root, GROWN, columns, keys=("k",), options={"dynamic-bucket.target-row-num": "40"})
    return root


@pytest.fixture(scope="module", name="written")
def what_jobs_left_in_hdfs(
    jobs: Jobs, local: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Yield a copy of the warehouse in HDFS, after the jobs; ``local`` has seen the same ones."""
    directory = tmp_path_factory.mktemp("hdfs")
    with hdfs.serve(directory, local) as url:
        for job, name, arguments in WORK:
            reports = [jobs.run(job, place, table(name), **arguments) for place in (local, url)]
            assert reports[0]["snapshot_id"] == reports[1]["snapshot_id"]
        yield hdfs.copy_out(url, directory / "copy")


def test_indexes_are_those_that_are_built_on_a_disk(local: Path, written: Path) -> None:
    indexes = [
        {
            entry.file.file_name: [next(root.rglob(side)).read_bytes() for side in entry.file.extra_files]
            for entry in open_table(root, INDEXED).entries()
        }
        for root in (local, written)
    ]

    assert all(len(sides) == 1 for sides in indexes[1].values())
    assert indexes[0] == indexes[1]
    assert live_names(local, INDEXED) == live_names(written, INDEXED)


def test_deletions_are_those_of_a_disk(local: Path, written: Path) -> None:
    assert any(deleted(written, SHORTENED).values())
    assert deleted(written, SHORTENED) == deleted(local, SHORTENED)


def test_upserted_rows_are_those_of_a_disk(written: Path) -> None:
    rows = {row["k"]: row["s"] for row in merged_rows(written, GROWN)}

    assert rows == {k: "new" if k >= 50 else f"s{k}" for k in range(150)}


def test_no_draft_is_left(written: Path) -> None:
    assert list(written.rglob("*.tmp")) == []


@pytest.mark.shared
def test_the_engine_reads_what_was_committed(written: Path, golden: GoldenWarehouse, tmp_path: Path) -> None:
    engine = JavaEngine.build(tmp_path / "engine")
    database = written / f"{DATABASE}.db"
    before = engine.read_back(golden.table(SHORTENED))["row_count"]

    assert engine.read_back(database / INDEXED)["row_count"] == sum(
        entry.file.row_count for entry in open_table(written, INDEXED).entries()
    )
    deletions = sum(map(len, deleted(written, SHORTENED).values()))
    already = sum(map(len, deleted(golden.root, SHORTENED).values()))
    assert engine.read_back(database / SHORTENED)["row_count"] == before - (deletions - already)
    assert engine.read_back(database / GROWN)["row_count"] == 150
