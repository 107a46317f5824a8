"""The Java engine reads what upserts committed as it reads its own, and goes on with it.

*Twins* are two tables with the same rows: the engine writes to one of them, our job to the other.
"""

from typing import Any

import pytest

from tests.acceptance.java_engine import JavaEngine
from tests.golden_cases import DATABASE
from tests.jobs.engine_tables import EngineTable
from tests.jobs.new_tables import buckets_of_keys
from tests.jobs.running_jobs import Jobs, table
from tests.spark.sessions import Spark, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.connector, pytest.mark.engine]


def make(
    session: SparkSession, name: str, columns: str, options: dict[str, str], partitions: str = ""
) -> None:
    session.sql(f"DROP TABLE IF EXISTS {table(name)}")
    listed = ", ".join(f"'{option}' = '{value}'" for option, value in options.items())
    divided = f"PARTITIONED BY ({partitions})" if partitions else ""
    session.sql(f"CREATE TABLE {table(name)} ({columns}) {divided} TBLPROPERTIES ({listed})")


def contents(session: SparkSession, name: str) -> dict[tuple[str, int], tuple[int, str]]:
    rows = session.sql(f"SELECT * FROM {table(name)}")  # noqa: S608 - fixed words
    assert len({(row["p"], row["k"]) for row in rows}) == len(rows)
    return {(row["p"], row["k"]): (row["v"], row["s"]) for row in rows}


def test_the_engine_goes_on_with_dynamic_buckets(jobs: Jobs, connector: Spark) -> None:
    session, root = connector.session(), connector.warehouse
    options = {
        "primary-key": "p,k",
        "bucket": "-1",
        "dynamic-bucket.target-row-num": "60",
        "file-index.bloom-filter.columns": "s",
        "file-index.bloom-filter.s.items": "100",
    }
    make(session, "dynamic", "p STRING, k BIGINT, v INT, s STRING", options, "p")
    found = EngineTable(connector, "dynamic")
    expected: dict[tuple[str, int], tuple[int, str]] = {}
    buckets: dict[Any, set[int]] = {}

    def rows(first: int, end: int, version: int) -> str:
        for k in range(first, end):
            expected[f"p{k % 2}", k] = (version, f"s{k}")
        return (
            f"SELECT concat('p', id % 2) p, id k, {version} v, concat('s', id) s "  # noqa: S608 - numbers
            f"FROM range({first}, {end}, 1, 4)"
        )

    def check() -> None:
        assert contents(session, "dynamic") == expected
        now = buckets_of_keys(root, "dynamic")
        assert all(len(each) == 1 for each in now.values())
        assert {key: now[key] for key in buckets if key in now} == {
            key: each for key, each in buckets.items() if key in now
        }
        buckets.update(now)
        (one,) = session.sql(f"SELECT count(*) n FROM {found.name} WHERE s = 's77'")  # noqa: S608 - fixed words
        assert one["n"] == (("p1", 77) in expected)
        assert found.missing_files() == []

    session.sql(f"INSERT INTO {found.name} {rows(0, 200, 1)}")
    check()
    jobs.run("upsert", root, found.name, paths=[], query=rows(100, 350, 2), parallelism=3)
    check()
    session.sql(f"INSERT INTO {found.name} {rows(50, 500, 3)}")
    check()
    gone = f"SELECT *, '-D' what FROM ({rows(60, 90, 4)})"  # noqa: S608 - fixed words
    jobs.run("upsert", root, found.name, paths=[], query=gone, row_kind_column="what")
    for k in range(60, 90):
        del expected[f"p{k % 2}", k]
    check()
    found.call(f"compact(table => '{found.name}')")
    check()
    jobs.run("upsert", root, found.name, paths=[], query=rows(0, 600, 5))
    check()
    found.call(f"expire_snapshots(table => '{found.name}', retain_max => 1, retain_min => 1)")
    session.sql(f"INSERT INTO {found.name} {rows(500, 700, 6)}")
    check()
    assert jobs.run("audit", root, found.name)["problems"] == []


ENGINES = {
    "deduplicate": {"sequence.field": "v"},
    "with vectors": {"deletion-vectors.enabled": "true"},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.s.aggregate-function": "max",
    },
}


@pytest.mark.parametrize("name", ENGINES)
def test_rows_are_merged_as_those_that_the_engine_wrote(jobs: Jobs, connector: Spark, name: str) -> None:
    session, root = connector.session(), connector.warehouse
    options = {"primary-key": "p,k", "bucket": "2", **ENGINES[name]}
    # Only tables whose engine keeps one version may get a key twice at once.
    repeats = 2 if name in ("deduplicate", "with vectors") else 1
    batches = [
        "SELECT concat('p', id % 2) p, id k, CAST(1000 - r * id AS INT) v, "  # noqa: S608 - fixed words
        "CASE WHEN id % 3 > 0 THEN concat('s', id + r) END s "
        f"FROM (SELECT id, explode(sequence({first}, {first} + {repeats - 1})) r "
        f"FROM range({first}, 100, 1, 1))"
        for first in (10, 40)
    ]
    for each in ("theirs", "ours"):
        make(session, each, "p STRING, k BIGINT, v INT, s STRING", options, "p")
        session.sql(f"INSERT INTO {table(each)} SELECT 'p0', id, 990, 'first' FROM range(0, 60, 2)")  # noqa: S608

    for batch in batches:
        session.sql(f"INSERT INTO {table('theirs')} {batch}")
        report = jobs.run("upsert", root, table("ours"), paths=[], query=batch)
    hidden = report["waits_for_compaction"]
    before = contents(session, "ours")
    for each in ("theirs", "ours"):
        session.sql(f"CALL paimon.sys.compact(table => '{table(each)}')")

    assert contents(session, "ours") == contents(session, "theirs")
    assert (before != contents(session, "ours")) == hidden


COLUMNS = (
    "k INT NOT NULL, b BOOLEAN, i8 TINYINT, i16 SMALLINT, f FLOAT, d DOUBLE, d9 DECIMAL(9, 2), "
    "d18 DECIMAL(18, 3), d38 DECIMAL(38, 10), vc VARCHAR(40), bin BINARY, day DATE, "
    "ts TIMESTAMP_NTZ, ltz TIMESTAMP, a ARRAY<INT>, m MAP<STRING, BIGINT>, r STRUCT<x: INT, y: STRING>"
)
QUERY = """
SELECT CAST(id AS INT) k, id % 2 = 0 b, CAST(id - 5 AS TINYINT) i8, CAST(-id AS SMALLINT) i16,
  CAST((id + 1) / 4 AS FLOAT) f, CASE WHEN id > 0 THEN id / 8D END d, CAST(id / 4 AS DECIMAL(9, 2)) d9,
  CAST(-id AS DECIMAL(18, 3)) d18, CAST(concat('1234567890123456789', id) AS DECIMAL(38, 10)) d38,
  concat('a name of more than 16 characters ', id) vc, X'00ff' bin,
  date_add(DATE '1969-12-30', CAST(id AS INT)) day, TIMESTAMP_NTZ '1969-12-31 23:59:59.999999' ts,
  TIMESTAMP '2026-11-01 00:00:00.123456' ltz,
  array(CAST(id AS INT), null) a, map('a', id) m, named_struct('x', CAST(id AS INT), 'y', 'two') r
FROM range(0, 7, 1, 1)
UNION ALL SELECT 7, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
  null
"""
TWINS = {
    "keyed": {"primary-key": "k", "bucket": "1", "file-index.bitmap.columns": "vc,day"},
    "bucketed": {"bucket": "1", "bucket-key": "k", "metadata.stats-mode": "full"},
    "appended": {"bucket": "-1", "metadata.stats-mode": "counts"},
}


@pytest.mark.parametrize("name", TWINS)
def test_files_and_what_manifests_say_of_them_are_as_the_engine_writes_them(
    jobs: Jobs, connector: Spark, engine: JavaEngine, name: str
) -> None:
    session, root = connector.session(), connector.warehouse
    found = {}
    for each in ("theirs", "ours"):
        make(session, each, COLUMNS, TWINS[name])
        rows = f"SELECT /*+ COALESCE(1) */ * FROM ({QUERY})"  # noqa: S608 - fixed words
        if each == "ours":
            jobs.run("upsert", root, table(each), paths=[], query=rows)
        else:
            session.sql(f"INSERT INTO {table(each)} {rows}")
        found[each] = engine.read_back(root / f"{DATABASE}.db" / each, max_rows=10)

    ours, theirs = found["ours"], found["theirs"]
    assert ours["rows"] == theirs["rows"]
    assert ours["rows_sha256"] == theirs["rows_sha256"]
    told: tuple[str, ...] = (
        "partition",
        "bucket",
        "total_buckets",
        "level",
        "row_count",
        "delete_row_count",
        "schema_id",
    )
    told += (
        "min_sequence",
        "max_sequence",
        "file_source",
        "embedded_index",
        "value_stats_cols",
        "value_stats",
    )
    told += ("min_key", "max_key", "first_row_id", "write_cols")
    (our_file,), (their_file,) = ours["files"], theirs["files"]
    # The connector's release has bounds of binaries, which 1.4 has not.
    for each in (our_file, their_file):
        each["value_stats"].pop("bin")
    for member in told:
        assert our_file.get(member) == their_file.get(member), member
    for member in ("schemaId", "commitKind", "totalRecordCount", "deltaRecordCount", "nextRowId"):
        assert ours["snapshot"].get(member) == theirs["snapshot"].get(member), member
