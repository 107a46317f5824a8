"""Twenty queries at a time while two writers commit: each has the rows of one snapshot of that time."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.jvm.sql_sessions import SqlSpark

pytestmark = [pytest.mark.jvm, pytest.mark.shared]

_SESSIONS: Final = 4
_THREADS: Final = 20
_QUERIES: Final = 4
_COMMITS: Final = 8
# Each commit adds two rows for each of eight names, in four files; the amounts of a commit are zero together.
_APPEND: Final = (
    "INSERT INTO {catalog}.db.moves SELECT /*+ REPARTITION_BY_RANGE(4, name) */ concat('n', id % 8) AS name, "
    "{commit} AS commit, IF(id < 8, 1, -1) * (id % 8 + {commit}) AS amount FROM range(0, 16) AS numbers(id)"
)
# Each commit gives all keys its number; after every third one, some keys are deleted.
_UPSERT: Final = (
    "INSERT INTO {catalog}.db.states SELECT CAST(id AS INT), CAST(id / 10 AS INT), "
    "concat('g', CAST(id / 10 AS INT)), {commit} FROM range(0, 40)"
)
_DELETE: Final = "DELETE FROM {catalog}.db.states WHERE id % 8 > 3"
_READ_MOVES: Final = (
    "SELECT count(*) AS n, sum(amount) AS amount, max(commit) AS last, count(DISTINCT commit) AS commits "
    "FROM {catalog}.db.moves WHERE name = 'n5'"
)
_READ_STATES: Final = (
    "SELECT count(*) AS n, min(commit) AS first, max(commit) AS last FROM {catalog}.db.states "
    "WHERE name = 'g1'"
)


def create(spark: SqlSpark, warehouse: Path, uri: str) -> None:
    index = "'file-index.in-manifest-threshold' = '1 MB', 'num-sorted-run.compaction-trigger' = '4'"
    spark.session(warehouse, uri).sql(
        "CREATE DATABASE plain.db",
        "CREATE TABLE plain.db.moves (name STRING, commit INT, amount BIGINT) TBLPROPERTIES "
        f"({index}, 'file-index.bloom-filter.columns' = 'name')",
        "CREATE TABLE plain.db.states (id INT NOT NULL, part INT NOT NULL, name STRING, commit INT) "
        "PARTITIONED BY (part) TBLPROPERTIES "
        f"({index}, 'file-index.bitmap.columns' = 'name', 'primary-key' = 'part,id', 'bucket' = '1')",
        _APPEND.format(catalog="plain", commit=0),
        _UPSERT.format(catalog="plain", commit=0),
    )


def test_no_query_has_a_wrong_row_or_fails(spark: SqlSpark, tmp_path: Path) -> None:
    settings = Settings.load(warehouses={"main": str(tmp_path)}, max_staleness_ms=60_000)
    with listening(create_app(settings), lifespan="on") as started:
        uri = str(started.base_url).rstrip("/")
        create(spark, tmp_path, uri)
        before = spark.outcomes()
        moves = [_APPEND.format(catalog="indexed", commit=number + 1) for number in range(_COMMITS)]
        states = [
            statement.format(catalog="plain", commit=number + 1)
            for number in range(_COMMITS)
            for statement in ((_UPSERT, _DELETE) if number % 3 == 2 else (_UPSERT,))
        ]
        # A machine that is busy with all of this is no reason to stop asking.
        patient = {"spark.sql.catalog.indexed.paimon-index.timeout": "60 s"}
        sessions = [spark.session(tmp_path, uri, conf=patient) for _ in range(_SESSIONS)]
        reads = [each.format(catalog="indexed") for each in (_READ_MOVES, _READ_STATES) * (_QUERIES // 2)]

        writes_of_moves, writes_of_states, *reading = spark.at_once(
            (spark.session(tmp_path, uri), moves),
            (spark.session(tmp_path, uri), states),
            *((sessions[number % _SESSIONS], reads) for number in range(_THREADS)),
        )

    everything = [each for statements in (writes_of_moves, writes_of_states, *reading) for each in statements]
    assert not [each["error"] for each in everything if "error" in each]
    for answers in reading:
        for query, answer in zip(reads, answers, strict=True):
            (row,) = map(json.loads, answer["rows"])
            if "moves" in query:
                assert row["amount"] == 0
                assert row["n"] == 2 * row["commits"] == 2 * (row["last"] + 1)
                assert row["last"] in meanwhile(answer, writes_of_moves)
            else:
                assert row["first"] == row["last"]
                assert row["n"] in (10, 6)
    outcomes = Counter(spark.outcomes())
    outcomes.subtract(before)
    assert outcomes["planned"] > _THREADS, outcomes
    assert not outcomes["refused"]


def meanwhile(query: dict[str, Any], writes: list[dict[str, Any]]) -> range:
    """Numbers of the last commit that a query may see: those that ended before it began are there."""
    least = sum(write["ended"] < query["began"] for write in writes)
    most = sum(write["began"] < query["ended"] for write in writes)
    return range(least, most + 1)
