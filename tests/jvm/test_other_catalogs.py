"""Catalogs that put tables where they like: each is planned where it lies, or its catalog is said to have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.jvm.rest_catalog import RestCatalog, RestTable, serving
from tests.jvm.sql_sessions import Created, Query, compare, write_indexed
from tests.maven import HIVE, maven_jar

pytestmark = pytest.mark.jvm

_RELEASES: Final = (None, "bundle-1.3.1", "bundle-1.2.0", "bundle-1.1.1")
"""Of the engine, with a catalog over REST; None is the one that the jar is compiled against."""


def one_file(table: str) -> Query:
    column = {"name": "FIELD_REF", "fieldRef": {"name": "city"}}
    leaf = {"kind": "LEAF", "function": "EQUAL", "transform": column, "literals": ["middle-3"]}
    return Query(table, leaf, {})


def assert_planned(answer: Mapping[str, Any]) -> None:
    assert answer["rows_equal"]
    assert answer["outcome"] == ["planned"]
    assert (answer["rows"], len(answer["files"])) == (1, 1)


def assert_left(answer: Mapping[str, Any], outcome: str) -> None:
    assert answer["rows_equal"]
    assert answer["outcome"] == [outcome]
    assert answer["rows"] == 1


@pytest.fixture
def uri(tmp_path: Path) -> Iterator[str]:
    """A service with the catalogs' warehouse, and with a root that other tables lie below."""
    (tmp_path / "roots").mkdir()
    (tmp_path / "warehouse").mkdir()
    warehouses = {"main": str(tmp_path / "warehouse"), "roots": str(tmp_path / "roots")}
    with listening(create_app(Settings.load(warehouses=warehouses)), lifespan="on") as started:
        yield str(started.base_url).rstrip("/")


def hive(directory: Path) -> dict[str, str]:
    return {
        "metastore": "hive",
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:{directory}/metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "NONE",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(directory / "warehouse"),
    }


def test_tables_of_hive_are_planned_wherever_they_lie(tmp_path: Path, uri: str) -> None:
    roots, outside = tmp_path / "roots", tmp_path / "outside"
    jars = [maven_jar(artifact) for artifact in HIVE]

    *_, default, located, own, same_name, unknown = compare(
        tmp_path / "warehouse",
        uri,
        [
            Created("main.t"),
            Created("away.t", {"location": str(roots / "lake")}),
            Created("main.own", options={"path": str(roots / "some where" / "own")}),
            Created("outside.t", {"location": str(outside)}),
            one_file("main.t"),
            one_file("away.t"),
            one_file("main.own"),
            one_file("outside.t"),
            one_file("outside.t"),
        ],
        hive(tmp_path),
        jars=jars,
    )

    assert_planned(default)
    assert_planned(located)
    assert_planned(own)
    assert_left(same_name, "not_found")
    assert_left(unknown, "quiet")


def test_a_table_of_hive_is_not_taken_for_that_of_the_warehouse(tmp_path: Path, uri: str) -> None:
    """The warehouse has another table of the name, with as many snapshots, that the metastore does not know."""
    write_indexed(tmp_path / "warehouse", "bundle-1.3.1")
    options = hive(tmp_path)

    created, answer = compare(
        tmp_path / "warehouse",
        uri,
        [Created("demo.indexed", {"location": str(tmp_path / "roots" / "demo.db")}), one_file("demo.indexed")],
        options,
        jars=[maven_jar(artifact) for artifact in HIVE],
    )

    assert created["location"].endswith("/roots/demo.db/indexed")
    assert_planned(answer)
    ours = {path.name for path in (tmp_path / "roots" / "demo.db" / "indexed").rglob("*.parquet")}
    assert set(answer["files"]) <= ours


def test_a_catalog_that_does_not_name_its_warehouse_is_planned(tmp_path: Path, uri: str) -> None:
    *_, answer = compare(
        Path(),
        uri,
        [Created("default.t"), one_file("default.t")],
        {**hive(tmp_path), "warehouse": ""},
        jars=[maven_jar(artifact) for artifact in HIVE],
    )

    assert_planned(answer)


def test_tables_of_a_catalog_in_a_database_are_planned(tmp_path: Path, uri: str) -> None:
    names = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db", "jdbc.user": "u", "jdbc.password": "p"}

    *_, answer, with_spaces = compare(
        tmp_path / "warehouse",
        uri,
        [Created("db.t"), Created("db.a table"), one_file("db.t"), one_file("db.a table")],
        names,
    )

    assert_planned(answer)
    assert_planned(with_spaces)


@pytest.mark.parametrize("release", _RELEASES)
def test_tables_of_a_catalog_over_rest_are_planned_unless_it_keeps_their_snapshots(
    tmp_path: Path, uri: str, release: str | None
) -> None:
    write_indexed(tmp_path / "roots", "bundle-1.1.1")
    directory = tmp_path / "roots" / "demo.db" / "indexed"
    tables = {"a.external": RestTable(directory, True), "a.managed": RestTable(directory, False)}
    with serving(RestCatalog(tables)) as catalog:
        external, managed = compare(
            Path(), uri, [one_file("a.external"), one_file("a.managed")], rest(catalog), release=release
        )

    assert_planned(external)
    assert_left(managed, "catalog_managed")


def test_a_catalog_that_gives_tokens_for_files_keeps_its_tables(tmp_path: Path, uri: str) -> None:
    write_indexed(tmp_path / "roots", "bundle-1.3.1")
    table = RestTable(tmp_path / "roots" / "demo.db" / "indexed", True)
    with serving(RestCatalog({"a.t": table}, {"data-token.enabled": "true"})) as catalog:
        (answer,) = compare(Path(), uri, [one_file("a.t")], rest(catalog))

    assert_left(answer, "catalog_managed")


def rest(uri: str) -> dict[str, str]:
    return {"metastore": "rest", "uri": uri, "warehouse": "main", "token.provider": "bear", "token": "t"}
