"""Spark with Iceberg's runtime, unmodified, beside Spark with the engine's connector: the same rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.golden_cases import GoldenWarehouse, expected
from tests.maven import ICEBERG_RUNTIME, maven_jar
from tests.spark.sessions import Spark, SparkError, SparkSession

pytestmark = [pytest.mark.connector, pytest.mark.spark, pytest.mark.long]

SERVED = (
    *("append_bucketed", "append_dv64", "append_embedded", "append_partitioned", "empty", "manifest_merge"),
    *("map_index", "pk_dv", "stale_hints"),
)
"""Golden tables that Spark reads: without milliseconds, with 64-bit vectors."""


@dataclass(frozen=True, slots=True)
class Both:
    """One session with two catalogs of the golden tables."""

    session: SparkSession

    def rows(self, query: str) -> tuple[list[str], list[str]]:
        """Return what the engine's connector reads, and Iceberg's runtime.

        ``{t}`` is the catalog and database.
        """
        engine, iceberg = self.session.exactly(
            query.replace("{t}", "engine.golden"), query.replace("{t}", "ice.golden")
        )
        return sorted(engine), sorted(iceberg)


@pytest.fixture(scope="module")
def iceberg_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    running = Spark.start(tmp_path_factory.mktemp("spark"), maven_jar(ICEBERG_RUNTIME))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def both(iceberg_spark: Spark, golden: GoldenWarehouse) -> Iterator[Both]:
    with serving(golden.root) as url:
        yield Both(iceberg_spark.session("UTC", catalogs(golden.root, url)))


@contextmanager
def serving(warehouse: Path) -> Iterator[str]:
    """Serve Iceberg's catalog, and yield its URL."""
    settings = Settings.load(warehouses={"main": str(warehouse)}, iceberg=True)
    with listening(create_app(settings), lifespan="on") as started:
        yield str(started.base_url)


def catalogs(warehouse: Path, url: str) -> dict[str, str]:
    """Return the catalogs of a session: the engine's, and Iceberg's."""
    return {
        "spark.sql.catalog.engine": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.engine.warehouse": f"file:{warehouse}",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "rest",
        "spark.sql.catalog.ice.uri": f"{url}/iceberg",
    }


def columns(table: str) -> str:
    return ", ".join(f"`{each['name']}`" for each in expected(table)["schema"]["fields"])


@pytest.mark.parametrize("table", SERVED)
def test_whole_tables_are_read(both: Both, table: str) -> None:
    engine, iceberg = both.rows(f"SELECT {columns(table)} FROM {{t}}.{table}")

    assert iceberg == engine


@pytest.mark.parametrize("table", SERVED)
def test_filters_give_the_rows_of_the_engine(both: Both, table: str) -> None:
    conditions = [
        query["filter_sql"]
        for query in expected(table)["queries"]
        if query["filter_sql"]
        and "NULL" not in query["filter_sql"].replace("IS NULL", "").replace("IS NOT NULL", "")
        and not any(query[key] is not None for key in ("snapshot_id", "tag", "branch"))
    ]
    # Where the engine itself loses rows, its connector is no judge; it fails at a NULL in a list.
    wrong = {query["filter_sql"] for query in expected(table)["queries"] if query.get("engine_differs")}
    for condition in [each for each in dict.fromkeys(conditions) if each not in wrong][::3]:
        engine, iceberg = both.rows(f"SELECT {columns(table)} FROM {{t}}.{table} WHERE {condition}")
        assert iceberg == engine, condition


@pytest.mark.parametrize("table", ["append_dv64", "append_embedded", "append_partitioned", "pk_dv"])
def test_snapshots_and_tags_are_read(both: Both, table: str) -> None:
    for version in expected(table)["versions"]:
        at = version["at"]
        if at["branch"] is None and (named := at["snapshot_id"] or at["tag"]):
            word = f"'{named}'" if isinstance(named, str) else named
            engine, iceberg = both.rows(f"SELECT * FROM {{t}}.{table} VERSION AS OF {word}")
            assert iceberg == engine, at


@pytest.mark.parametrize("table", ["append_bucketed", "append_partitioned", "append_embedded", "append_dv64"])
def test_aggregates_that_are_answered_from_bounds_are_right(both: Both, table: str) -> None:
    names = [each["name"] for each in expected(table)["schema"]["fields"]]
    wanted = ", ".join(f"min(`{name}`), max(`{name}`), count(`{name}`)" for name in names)
    engine, iceberg = both.rows(f"SELECT count(*), {wanted} FROM {{t}}.{table}")

    assert iceberg == engine


def test_conditions_on_partitions_are_applied(both: Both) -> None:
    for condition in (
        "part_day = '2025-01-02'",
        "grp = 1",
        "grp <> 1",
        "grp IS NULL",
        "grp > 0 AND part_day LIKE '2025%'",
        "part_day IN ('2025-01-01', 'x') OR grp IN (2, 3)",
    ):
        engine, iceberg = both.rows(f"SELECT * FROM {{t}}.append_partitioned WHERE {condition}")
        assert iceberg == engine, condition


def test_every_type_is_read_as_the_engine_writes_it(iceberg_spark: Spark) -> None:
    session = iceberg_spark.session("America/New_York")
    session.sql("CREATE DATABASE shapes")
    session.sql(
        "CREATE TABLE paimon.shapes.t (b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, f4 FLOAT, "
        "f8 DOUBLE, d1 DECIMAL(4, 2), d2 DECIMAL(18, 6), d3 DECIMAL(38, 10), s STRING, c CHAR(4), "
        "v VARCHAR(9), x BINARY, d DATE, ts TIMESTAMP, nts TIMESTAMP_NTZ, a ARRAY<INT>, "
        "aa ARRAY<ARRAY<STRING>>, m MAP<STRING, BIGINT>, "
        "r STRUCT<k: INT, l: ARRAY<STRUCT<p: STRING, q: DATE>>>, mm MAP<INT, MAP<STRING, INT>>)"
    )
    session.sql(
        "INSERT INTO paimon.shapes.t VALUES (true, -1, 300, 70000, 5000000000, 1.5F, double('NaN'), 12.34, "
        "-0.000001, 12345678901234567890.5, 'grün 😀', 'ab', 'cd', X'00FF', DATE '1582-01-01', "
        "TIMESTAMP '1969-07-20 20:17:40.123456', TIMESTAMP_NTZ '2999-12-31 23:59:59.999999', "
        "array(1, NULL), array(array('x', NULL), NULL), map('k', 1L, 'l', NULL), "
        "named_struct('k', 1, 'l', array(named_struct('p', 'y', 'q', DATE '2024-02-29'))), "
        f"map(1, map('z', 2))), ({', '.join(['NULL'] * 22)})"
    )
    session.sql("ALTER TABLE paimon.shapes.t RENAME COLUMN i4 TO renamed")
    session.sql("ALTER TABLE paimon.shapes.t ADD COLUMN i4 STRING")
    session.sql("ALTER TABLE paimon.shapes.t ALTER COLUMN i1 TYPE BIGINT")
    session.sql("ALTER TABLE paimon.shapes.t DROP COLUMN s")
    names = "b, i1, i2, renamed, i4, i8, f4, f8, d1, d2, d3, c, v, x, d, ts, nts, a, aa, m, r, to_json(mm)"

    with serving(iceberg_spark.warehouse) as url:
        asked = iceberg_spark.session("America/New_York", catalogs(iceberg_spark.warehouse, url))
        engine, iceberg = asked.exactly(
            *(f"SELECT {names} FROM {catalog}.shapes.t" for catalog in ("engine", "ice"))
        )

    assert len(engine) == 2
    assert sorted(iceberg) == sorted(engine)


def test_what_full_compactions_made_of_a_table_is_what_the_engine_reads(iceberg_spark: Spark) -> None:
    session = iceberg_spark.session()
    session.sql("CREATE DATABASE compacted")
    session.sql(
        "CREATE TABLE paimon.compacted.t (id INT, part STRING, score INT) PARTITIONED BY (part) "
        "TBLPROPERTIES ('primary-key' = 'id,part', 'bucket' = '2', 'write-only' = 'true', "
        "'num-sorted-run.compaction-trigger' = '3')"
    )
    rows = "SELECT CAST(id AS INT), IF(id % 3 = 0, 'a', 'b'), CAST(id % {} AS INT) FROM range({}, {})"
    compact = "CALL paimon.sys.compact(table => 'compacted.t', compact_strategy => 'full')"
    statements = [
        "INSERT INTO paimon.compacted.t " + rows.format(7, 0, 40),
        compact,
        "INSERT INTO paimon.compacted.t " + rows.format(5, 20, 60),
        "DELETE FROM paimon.compacted.t WHERE id = 3",
        compact.replace(")", ", partitions => \"part='a'\")"),
        "INSERT INTO paimon.compacted.t " + rows.format(3, 50, 60),
    ]
    counts = []
    with serving(iceberg_spark.warehouse) as url:
        asked = iceberg_spark.session("UTC", catalogs(iceberg_spark.warehouse, url))
        for statement in statements:
            session.sql(statement)
            for condition in ("true", "score = 1", "id < 25 AND part = 'a'", "id = 3"):
                engine, iceberg = asked.exactly(
                    *(
                        f"SELECT * FROM {catalog}.compacted.`t$ro` WHERE {condition}"
                        for catalog in ("engine", "ice")
                    )
                )
                assert sorted(iceberg) == sorted(engine), (statement, condition)
                counts.append(len(engine))

    assert counts[::4] == [0, 40, 40, 40, 45, 45]


def test_deletion_vectors_of_the_top_level_are_those_of_the_engine(both: Both) -> None:
    for version in ("", "VERSION AS OF 4", "VERSION AS OF 8"):
        engine, iceberg = both.rows(f"SELECT {columns('pk_dv')} FROM {{t}}.`pk_dv$ro` {version}")
        whole, _ = both.rows(f"SELECT {columns('pk_dv')} FROM {{t}}.pk_dv {version}")
        assert iceberg == engine != whole


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("all_types", "TIME"),
        ("append_dv32", "32 bits|milliseconds"),
        ("append_sidecar", "milliseconds"),
        ("pk_merge", "merged|milliseconds"),
    ],
)
def test_what_cannot_be_read_right_is_refused_with_the_reason(both: Both, table: str, reason: str) -> None:
    with pytest.raises(SparkError, match=reason):
        both.session.sql(f"SELECT * FROM ice.golden.{table}")


def test_nobody_writes(both: Both, golden: GoldenWarehouse) -> None:
    directory = golden.table("append_embedded")
    before = sorted(directory.rglob("*"))
    for statement in (
        "DELETE FROM {t} WHERE lane = 1",
        "INSERT INTO {t} SELECT * FROM {t} LIMIT 1",
        "DROP TABLE {t}",
    ):
        with pytest.raises(SparkError):
            both.session.sql(statement.replace("{t}", "ice.golden.append_embedded"))
    assert sorted(directory.rglob("*")) == before
