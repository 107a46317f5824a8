"""Pruned tags as the engine's connector reads them, and what the engine does to a table that has some."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.golden_tables import DATABASE
from tests.jobs.engine_tables import EngineTable
from tests.spark.served_tables import chosen, columns_of
from tests.spark.sessions import SparkError
from tests.writable_tables import files_below

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.golden_tables import GoldenWarehouse
    from tests.spark.sessions import Spark

pytestmark = [pytest.mark.spark, pytest.mark.shared]

TABLES: Final = (
    *("append_sidecar", "append_dv32", "evolve_append", "append_avro", "pk_merge", "pk_dv", "pk_aggregation"),
)
MERGED: Final = ("pk_aggregation",)
"""All files of this table merge with one another."""


@pytest.fixture(scope="module")
def url(spark: Spark) -> Iterator[str]:
    settings = Settings.load(warehouses={"main": str(spark.warehouse)})
    with listening(create_app(settings), lifespan="on") as started:
        yield str(started.base_url)


@pytest.fixture
def numbers(spark: Spark) -> Iterator[Path]:
    """A table of four files with ten rows each, ids ascending; its directory."""
    session = spark.session()
    session.sql("CREATE DATABASE IF NOT EXISTS paimon.pruning")
    session.sql("CREATE TABLE pruning.numbers (id BIGINT, s STRING) TBLPROPERTIES ('file.format'='parquet')")
    for first in range(0, 40, 10):
        insert(spark, first)
    yield spark.warehouse / "pruning.db" / "numbers"
    session.sql("DROP DATABASE paimon.pruning CASCADE")


def insert(spark: Spark, first: int) -> None:
    rows = f"SELECT /*+ COALESCE(1) */ id, concat('s', id) FROM range({first}, {first + 10})"  # noqa: S608
    spark.session().sql(f"INSERT INTO pruning.numbers {rows}")


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_those_of_the_table_and_files_those_of_the_plan(
    spark: Spark, golden: GoldenWarehouse, url: str, name: str
) -> None:
    table = EngineTable.copy(spark, golden, name)
    session, before = spark.session(), files_below(table.directory)
    shown = ", ".join(f"`{column}`" for column in columns_of(name))
    pruned = 0
    for query in [each for each in chosen(name, "UTC") if not each.get("engine_error")][1:4]:
        where = query["filter_sql"] or "TRUE"
        tag = session.prune(url, f"main.{table.name}", where, catalog="paimon")
        asked = f"SELECT {shown} FROM paimon.{table.name} {{}} WHERE {where}"  # noqa: S608 - our own

        expected, found = session.exactly(asked.format(""), asked.format(f"VERSION AS OF '{tag}'"))

        assert found == expected, where
        whole = f"SELECT {shown} FROM paimon.{table.name} {{}}"  # noqa: S608 - fixed words
        files = session.planned_files(whole.format(f"VERSION AS OF '{tag}'"))
        document = json.loads((table.directory / "tag" / f"tag-{tag}").read_text())
        assert document["tagTimeRetained"] == 3600
        pruned += files < session.planned_files(whole.format(""))
        session.end_pruned(tag)
    assert files_below(table.directory) == before
    assert pruned or name in MERGED


def test_a_tag_names_the_kept_files_only(spark: Spark, numbers: Path, url: str) -> None:
    session, before = spark.session(), files_below(numbers)

    tag = session.prune(url, "main.pruning.numbers", "id = 17", catalog="paimon")

    rows = session.sql(f"SELECT id FROM pruning.numbers VERSION AS OF '{tag}'")  # noqa: S608 - our own
    assert sorted(row["id"] for row in rows) == list(range(10, 20))
    assert session.planned_files(f"SELECT * FROM pruning.numbers VERSION AS OF '{tag}'") == 1  # noqa: S608
    # Other queries of the session see the table.
    assert session.planned_files("SELECT * FROM pruning.numbers") == 4
    assert session.sql("SHOW TAGS pruning.numbers") == []
    session.end_pruned(tag)
    assert files_below(numbers) == before
    assert not list((numbers / "tag").iterdir())


@pytest.mark.usefixtures("numbers")
def test_files_without_a_key_are_left_out_of_the_tag(spark: Spark, url: str) -> None:
    session = spark.session()
    keys = {"id": [5, 17, 39], "s": "SELECT concat('s', id) FROM range(0, 30)"}

    tag = session.prune(url, "main.pruning.numbers", "id > 9", in_lists=keys, catalog="paimon")

    rows = session.sql(f"SELECT id FROM pruning.numbers VERSION AS OF '{tag}'")  # noqa: S608 - our own
    assert sorted(row["id"] for row in rows) == list(range(10, 20))
    session.end_pruned(tag)


@pytest.mark.usefixtures("numbers")
def test_the_newest_schema_is_read(spark: Spark, url: str) -> None:
    session = spark.session()
    session.sql("ALTER TABLE pruning.numbers RENAME COLUMN id TO number")
    tag = session.prune(url, "main.pruning.numbers", "number = 17", catalog="paimon")

    (row,) = session.sql(f"SELECT * FROM pruning.numbers VERSION AS OF '{tag}' WHERE number = 17")  # noqa: S608

    assert row == {"number": 17, "s": "s17"}
    session.end_pruned(tag)


def test_the_engine_deletes_no_file_that_is_needed(spark: Spark, numbers: Path, url: str) -> None:
    """Whatever removes snapshots and tags looks at tags, and must not be misled by those that lack files."""
    session = spark.session()

    def call(procedure: str, *arguments: str) -> None:
        named = ", ".join(("table => 'pruning.numbers'", *arguments))
        session.sql(f"CALL paimon.sys.{procedure}({named})")

    def ids(version: str) -> list[int]:
        rows = session.sql(f"SELECT id FROM pruning.numbers {version}")  # noqa: S608 - fixed words
        return sorted(row["id"] for row in rows)

    call("create_tag", "tag => 'early'", "snapshot => 4")
    first = session.prune(url, "main.pruning.numbers", "id = 17", catalog="paimon")
    insert(spark, 40)
    second = session.prune(url, "main.pruning.numbers", "id = 27", catalog="paimon")
    call("create_tag", "tag => 'late'", "snapshot => 5", "time_retained => '1 h'")
    # All files of both tags are replaced, and all snapshots that had them are gone.
    call("compact", "order_strategy => 'order'", "order_by => 'id'")
    insert(spark, 50)
    call("expire_snapshots", "retain_max => 1", "retain_min => 1")

    assert ids("VERSION AS OF 'early'") == list(range(40))
    assert ids("VERSION AS OF 'late'") == list(range(50))
    assert ids("") == list(range(60))
    # The tag of an earlier call does not keep files, but these are those of 'early'.
    assert ids(f"VERSION AS OF '{first}'") == list(range(10, 20))
    call("expire_tags", "older_than => '2099-01-01 00:00:00'")
    assert session.sql("SHOW TAGS pruning.numbers") == []
    assert ids("") == list(range(60))
    call("remove_orphan_files")
    assert ids("") == list(range(60))

    # Somebody who deletes the tag itself gets an error from the engine; no data file goes with it.
    third = session.prune(url, "main.pruning.numbers", "id = 17", catalog="paimon")
    call("create_tag", "tag => 'now'")
    insert(spark, 60)
    call("expire_snapshots", "retain_max => 1", "retain_min => 1")
    data = set((numbers / "bucket-0").iterdir())
    with pytest.raises(SparkError):
        call("delete_tag", f"tag => '{third}'")
    assert set((numbers / "bucket-0").iterdir()) == data
    assert ids("VERSION AS OF 'now'") == list(range(60))
    for tag in (first, second, third):
        session.end_pruned(tag)
    assert ids("") == list(range(70))


def test_what_a_stopped_process_leaves_is_swept(spark: Spark, numbers: Path, url: str) -> None:
    session, before = spark.session(), files_below(numbers)
    lasting = session.prune(url, "main.pruning.numbers", "id = 27", catalog="paimon")
    tag = session.prune(url, "main.pruning.numbers", "id = 17", catalog="paimon")
    # A time to live that is over; the process was stopped before it had written everything.
    old = numbers / "tag" / f"tag-{tag.partition('/')[0]}"
    expired = "paimon-index-1-" + tag.partition("/")[0].split("-", 3)[3]
    old.rename(numbers / "tag" / f"tag-{expired}")
    uuid = expired.removeprefix("paimon-index-1-")
    (numbers / "manifest" / f"manifest-list-{uuid}-1").unlink()

    assert session.sweep_pruned("main.pruning.numbers", catalog="paimon") == 1

    assert session.planned_files(f"SELECT * FROM pruning.numbers VERSION AS OF '{lasting}'") == 1  # noqa: S608
    session.end_pruned(lasting)
    session.end_pruned(tag)  # nothing is left of it
    assert files_below(numbers) == before


def test_what_is_refused(spark: Spark, numbers: Path, url: str, golden: GoldenWarehouse) -> None:
    session = spark.session()
    name = "main.pruning.numbers"
    with pytest.raises(SparkError, match=r"ValueError: pruned writes .* may_write=True"):
        session.prune(url, name, "id = 17", catalog="paimon", may_write=False)
    with pytest.raises(SparkError, match=r"UnsupportedTableError: .* no table of the engine's connector"):
        session.prune(url, name, "id = 17", catalog="spark_catalog")
    with pytest.raises(SparkError, match=r"UnsupportedTableError: .* no table of the engine's connector"):
        session.prune(url, "main.pruning.letters", "id = 17", catalog="paimon")
    with pytest.raises(SparkError, match="ServiceError: 422 filter"):
        session.prune(url, name, "nothing = 17", catalog="paimon")
    # Another warehouse has a table of the same name.
    elsewhere = spark.warehouse.parent / "elsewhere"
    shutil.copytree(golden.table("append_sidecar"), elsewhere / f"{DATABASE}.db" / "append_sidecar")
    EngineTable.copy(spark, golden, "append_dv32").directory.rename(
        spark.warehouse / f"{DATABASE}.db" / "same_name"
    )
    (elsewhere / f"{DATABASE}.db" / "append_sidecar").rename(elsewhere / f"{DATABASE}.db" / "same_name")
    with (
        listening(create_app(Settings.load(warehouses={"main": str(elsewhere)})), lifespan="on") as started,
        pytest.raises(SparkError, match=r"UnsupportedTableError: .* is not the table that the service"),
    ):
        session.prune(str(started.base_url), f"main.{DATABASE}.same_name", "TRUE", catalog="paimon")
    assert not (numbers / "tag").exists()
