"""Spark with Iceberg's runtime, unmodified, beside Spark with the engine's connector: the same rows."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.golden_tables import GoldenWarehouse, expected
from tests.spark.iceberg_runtime import iceberg_runtime
from tests.spark.sessions import Spark, SparkError, SparkSession

pytestmark = [pytest.mark.shared, pytest.mark.spark, pytest.mark.long]

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
        """What the engine's connector reads, and Iceberg's runtime; ``{t}`` is the catalog and database."""
        engine, iceberg = self.session.exactly(
            query.replace("{t}", "engine.golden"), query.replace("{t}", "ice.golden")
        )
        return sorted(engine), sorted(iceberg)


@pytest.fixture(scope="module")
def iceberg_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    running = Spark.start(tmp_path_factory.mktemp("spark"), iceberg_runtime())
    yield running
    running.stop()


@pytest.fixture(scope="module")
def both(iceberg_spark: Spark, golden: GoldenWarehouse) -> Iterator[Both]:
    with serving(golden.root) as url:
        yield Both(iceberg_spark.session("UTC", catalogs(golden.root, url)))


@contextmanager
def serving(warehouse: Path) -> Iterator[str]:
    """A service with Iceberg's catalog; gives its URL."""
    settings = Settings.load(warehouses={"main": str(warehouse)}, iceberg=True)
    with listening(create_app(settings), lifespan="on") as started:
        yield str(started.base_url)


def catalogs(warehouse: Path, url: str) -> dict[str, str]:
    """The catalogs of a session: the engine's, and Iceberg's."""
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


def test_other_types_are_read_once_those_are_dropped_that_iceberg_lacks(
    iceberg_spark: Spark, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    directory = tmp_path / "warehouse" / "golden.db" / "all_types"
    shutil.copytree(golden.table("all_types"), directory)
    schema = json.loads((directory / "schema" / "schema-0").read_text())
    kept = [
        each for each in schema["fields"] if not re.search("TIME\\(|TIMESTAMP\\([0379]\\)", str(each["type"]))
    ]
    (directory / "schema" / "schema-1").write_text(json.dumps({**schema, "id": 1, "fields": kept}))
    names = ", ".join(f"`{each['name']}`" for each in kept)

    with serving(tmp_path / "warehouse") as url:
        session = Both(iceberg_spark.session("UTC", catalogs(tmp_path / "warehouse", url)))
        engine, iceberg = session.rows(f"SELECT {names} FROM {{t}}.all_types")

    assert len(kept) > 20
    assert len(engine) > 0
    assert iceberg == engine


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("all_types", "TIME"),
        ("append_dv32", "32 bits"),
        ("append_sidecar", "milliseconds"),
        ("pk_merge", "merged|milliseconds"),
    ],
)
def test_what_cannot_be_read_right_is_refused_with_the_reason(both: Both, table: str, reason: str) -> None:
    with pytest.raises(SparkError, match=reason):
        both.session.sql(f"SELECT * FROM ice.golden.{table}")


def test_nobody_writes(both: Both) -> None:
    with pytest.raises(SparkError):
        both.session.sql("DELETE FROM ice.golden.append_embedded WHERE lane = 1")
    with pytest.raises(SparkError):
        both.session.sql("DROP TABLE ice.golden.append_embedded")
