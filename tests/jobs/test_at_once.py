"""Two jobs and the engine commit to one table at once, round after round: nothing of anybody's is lost."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.engine_tables import EngineTable
from tests.jobs.new_tables import buckets_of_keys
from tests.jobs.running_jobs import Jobs, table
from tests.spark.sessions import Spark

pytestmark = [*(pytest.mark.spark, pytest.mark.connector, pytest.mark.engine, pytest.mark.long)]

ROUNDS = 50
KEYS = 40
"""New keys of a round."""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Yield a second Spark for jobs, since one runs a job at a time."""
    running = Jobs.start(tmp_path_factory.mktemp("others"))
    yield running
    running.stop()


def rows(partition: str, round_number: int) -> str:
    """Return new keys, and half of those of the round before with another value."""
    first = max(0, round_number * KEYS - KEYS // 2)
    return (
        f"SELECT '{partition}' p, id k, CAST({round_number} AS INT) v, concat('s', id) s "  # noqa: S608 - numbers
        f"FROM range({first}, {(round_number + 1) * KEYS}, 1, 1)"
    )


def expected() -> dict[tuple[str, int], int]:
    """Return the round that has written each key last."""
    return {
        (partition, key): number
        for partition in ("ours", "theirs")
        for number in range(ROUNDS)
        for key in range(max(0, number * KEYS - KEYS // 2), (number + 1) * KEYS)
    }


def test_nothing_is_lost(jobs: Jobs, others: Jobs, connector: Spark) -> None:
    """The engine writes one partition, ``upsert`` another, and ``build-index`` changes files of both.

    A partition of a table with dynamic buckets has one writer at a time: the engine relies on that.
    """
    session, root = connector.session(), connector.warehouse
    session.sql(
        f"CREATE TABLE {table('together')} (p STRING, k BIGINT, v INT, s STRING) PARTITIONED BY (p) "
        "TBLPROPERTIES ('primary-key'='p,k', 'bucket'='-1', 'dynamic-bucket.target-row-num'='100', "
        "'write-only'='true', 'file.format'='parquet', 'snapshot.num-retained.min'='1000')"
    )
    found = EngineTable(connector, "together")
    start = threading.Barrier(3)

    def repeated(act: Callable[[int], Any]) -> list[Any]:
        done = []
        try:
            for number in range(ROUNDS):
                start.wait(300)
                done.append(act(number))
        except BaseException:
            start.abort()
            raise
        return done

    def upsert(number: int) -> Any:
        report = jobs.run("upsert", root, found.name, paths=[], query=rows("ours", number))
        return report["snapshot_id"]

    def build_index(_: int) -> Any:
        report = others.run("build_index", root, found.name, options={"file-index.bitmap.columns": "s"})
        return report["snapshot_id"], report["built"]

    def insert(number: int) -> None:
        session.sql(f"INSERT INTO {found.name} {rows('theirs', number)}")

    with ThreadPoolExecutor(3) as threads:
        upserted, built, _ = (
            thread.result()
            for thread in [threads.submit(repeated, each) for each in (upsert, build_index, insert)]
        )
    last = others.run("build_index", root, found.name, options={"file-index.bitmap.columns": "s"})

    ours = [*upserted, *(number for number, _ in [*built, (last["snapshot_id"], 0)] if number is not None)]
    assert len(set(ours)) == len(ours) >= ROUNDS
    numbers = snapshot_numbers(found.directory)
    assert numbers == list(range(1, 1 + ROUNDS + len(ours)))
    assert {
        (row["p"], row["k"]): row["v"]
        for row in session.sql(f"SELECT p, k, v FROM {found.name}")  # noqa: S608
    } == expected()
    assert all(len(buckets) == 1 for buckets in buckets_of_keys(root, "together").values())
    assert found.missing_files() == []
    # Every file has its index, and every bucket its hash index.
    entries = found.opened.entries()
    assert sum(count for _, count in built) + last["built"] == len(entries)
    assert {(entry.partition, entry.bucket) for entry in entries} == {
        (entry.partition, entry.bucket)
        for entry in found.opened.table.metadata.index_entries(found.opened.table.resolve())
    }
    assert others.run("audit", root, found.name)["problems"] == []


def snapshot_numbers(directory: Path) -> list[int]:
    paths = (directory / "snapshot").glob("snapshot-*")
    return sorted(int(path.name.rpartition("-")[2]) for path in paths)
