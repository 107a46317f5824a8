"""Catalogs that put tables where they like: each table is planned where it lies, or left to the engine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.main import create_app
from app.settings import Settings
from tests.api.conftest import listening
from tests.jvm.rest_catalog import RestCatalog, RestTable, serving
from tests.jvm.sql_sessions import Created, Query, compare, write_indexed
from tests.maven import HIVE, maven_jar

pytestmark = pytest.mark.jvm


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


@contextmanager
def service(directory: Path, **others: Path) -> Iterator[str]:
    """One with the catalogs' warehouse, and with roots that other tables lie below."""
    roots = {"warehouse": directory / "warehouse", "roots": directory / "roots", **others}
    for root in roots.values():
        root.mkdir(exist_ok=True)
    settings = Settings.load(warehouses={name: str(root) for name, root in roots.items()})
    with listening(create_app(settings), lifespan="on") as started:
        yield str(started.base_url).rstrip("/")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warehouse = tmp_path_factory.mktemp("written")
    write_indexed(warehouse, "bundle-1.2.0")
    return warehouse / "demo.db" / "indexed"


@pytest.fixture
def uri(tmp_path: Path, written: Path) -> Iterator[str]:
    with service(tmp_path, lake=written.parent) as started:
        yield started


def hive(directory: Path) -> dict[str, str]:
    return {
        "metastore": "hive",
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:{directory}/metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "NONE",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(directory / "warehouse"),
    }


@pytest.fixture(scope="module")
def of_hive(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Any]]:
    """Return what became of a query of each table.

    The warehouse has another ``demo.indexed``, of as many snapshots, which the metastore does not know.
    """
    directory = tmp_path_factory.mktemp("hive")
    roots, own = directory / "roots", directory / "roots" / "some where" / "own"
    write_indexed(directory / "warehouse", "bundle-1.3.1")
    tables = [
        Created("main.default"),
        Created("main.own", options={"path": str(own)}),
        Created("away.located", {"location": str(roots / "lake")}),
        Created("demo.indexed", {"location": str(roots / "demo")}),
        Created("outside.unknown", {"location": str(directory / "outside")}),
    ]
    with service(directory) as uri:
        answers = compare(
            directory / "warehouse",
            uri,
            [*tables, *(one_file(created.table) for created in tables)],
            hive(directory),
            jars=[maven_jar(artifact) for artifact in HIVE],
        )
    return dict(zip((created.table for created in tables), answers[len(tables) :], strict=True))


@pytest.mark.parametrize("table", ["main.default", "main.own", "away.located", "demo.indexed"])
def test_a_table_of_hive_is_planned_where_it_lies(
    of_hive: Mapping[str, Mapping[str, Any]], table: str
) -> None:
    assert_planned(of_hive[table])


def test_a_table_of_hive_that_no_warehouse_of_the_service_has_is_planned_by_the_engine(
    of_hive: Mapping[str, Mapping[str, Any]],
) -> None:
    assert_left(of_hive["outside.unknown"], "not_found")


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
    names = {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/names.db",
        "jdbc.user": "u",
        "jdbc.password": "p",
    }

    *_, answer, with_spaces = compare(
        tmp_path / "warehouse",
        uri,
        [Created("db.t"), Created("db.a table"), one_file("db.t"), one_file("db.a table")],
        names,
    )

    assert_planned(answer)
    assert_planned(with_spaces)


@pytest.mark.parametrize(
    ("release", "of_external"),
    [(None, "planned"), ("bundle-1.3.1", "catalog_managed"), ("bundle-1.2.0", "catalog_managed")],
)
def test_tables_of_a_catalog_over_rest_are_planned_unless_it_keeps_their_snapshots(
    written: Path, uri: str, release: str | None, of_external: str
) -> None:
    """Engines before 1.4 ask it for those of external tables as well."""
    tables = {
        "a.external": RestTable(written, is_external=True),
        "a.managed": RestTable(written, is_external=False),
    }
    with serving(RestCatalog(tables)) as catalog:
        external, managed = compare(
            Path(), uri, [one_file("a.external"), one_file("a.managed")], rest(catalog), release=release
        )

    assert (external["rows"], external["rows_equal"], external["outcome"]) == (1, True, [of_external])
    assert_left(managed, "catalog_managed")


def test_a_catalog_that_gives_tokens_for_files_keeps_its_tables(written: Path, uri: str) -> None:
    tables = {"a.t": RestTable(written, is_external=True)}
    with serving(RestCatalog(tables, {"data-token.enabled": "true"})) as catalog:
        (answer,) = compare(Path(), uri, [one_file("a.t")], rest(catalog))

    assert_left(answer, "catalog_managed")


def test_without_the_service_the_engine_plans(written: Path) -> None:
    with serving(RestCatalog({"a.t": RestTable(written, is_external=True)})) as catalog:
        (answer,) = compare(Path(), "http://127.0.0.1:1", [one_file("a.t")], rest(catalog))

    assert_left(answer, "unreachable")


def rest(uri: str) -> dict[str, str]:
    return {"metastore": "rest", "uri": uri, "warehouse": "main", "token.provider": "bear", "token": "t"}
