"""PyIceberg, unmodified, reads the rows that the engine reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import RESTError, UnauthorizedError
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.table import Table

from app.types import DataField, parse_type
from tests import tokens
from tests.golden_cases import GoldenWarehouse, expected
from tests.iceberg.conftest import ServeIceberg
from tests.iceberg.rows import expected_rows, live_rows, read
from tests.s3_server import serve
from tests.tables import MadeTable, entry

SERVED = (
    *("append_bucketed", "append_embedded", "append_part_types", "append_partitioned", "append_sidecar"),
    *("empty", "manifest_merge", "map_index", "pk_first_row", "pk_postpone", "stale_hints"),
)
"""Golden tables that PyIceberg reads. Those with 64-bit vectors are Spark's."""

_TESTS: Mapping[str, Any] = {
    "EQUAL": EqualTo,
    "NOT_EQUAL": NotEqualTo,
    "LESS_THAN": LessThan,
    "LESS_OR_EQUAL": LessThanOrEqual,
    "GREATER_THAN": GreaterThan,
    "GREATER_OR_EQUAL": GreaterThanOrEqual,
    "STARTS_WITH": StartsWith,
}


class InexpressibleError(Exception):
    """Iceberg's expressions have no such test, or PyIceberg another meaning of it."""


def expression(predicate: Mapping[str, Any], types: Mapping[str, str]) -> BooleanExpression:
    if predicate["kind"] == "COMPOUND":
        first, *others = (expression(each, types) for each in predicate["children"])
        join = And if predicate["function"] == "AND" else Or
        return join(first, *others) if others else first
    name = predicate["transform"]["fieldRef"]["name"]
    if name not in types or types[name].startswith(("FLOAT", "DOUBLE", "CHAR")):
        raise InexpressibleError("NaN, zeros and blanks mean something else to Arrow")
    literals = [_literal(each, types[name]) for each in predicate.get("literals", ())]
    match predicate["function"], literals:
        case _, values if None in values:
            raise InexpressibleError("there is no NULL")
        case "IS_NULL", _:
            return IsNull(name)
        case "IS_NOT_NULL", _:
            return NotNull(name)
        case "IN", values:
            return In(name, values)
        case "BETWEEN", [low, high]:
            return And(GreaterThanOrEqual(name, low), LessThanOrEqual(name, high))
        case "NOT_BETWEEN", [low, high]:
            return Not(And(GreaterThanOrEqual(name, low), LessThanOrEqual(name, high)))
        case str(function), [value] if function in _TESTS:
            found: BooleanExpression = _TESTS[function](name, value)
            return found
        case _:
            raise InexpressibleError(predicate["function"])


def _literal(value: Any, data_type: str) -> Any:
    if value is not None and "TIMESTAMP" in data_type:
        return str(value).replace(" ", "T").replace("Z", "+00:00")
    return value


def ids(table: Table, snapshot_id: int | None = None) -> list[int]:
    snapshot = None if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    schema = table.schema() if snapshot is None else table.schemas()[snapshot.schema_id or 0]
    return [field.field_id for field in schema.fields]


@pytest.mark.parametrize("name", SERVED)
def test_whole_tables_are_read(golden: GoldenWarehouse, pyiceberg: RestCatalog, name: str) -> None:
    table, document = pyiceberg.load_table(f"golden.{name}"), expected(name)
    latest = next(each for each in document["versions"] if not any(each["at"].values()))

    assert read(table.scan()) == expected_rows(golden, latest, live_rows(latest), ids(table))


@pytest.mark.parametrize("name", [name for name in SERVED if len(expected(name)["versions"]) > 1])
def test_snapshots_tags_and_branches_are_read(
    golden: GoldenWarehouse, pyiceberg: RestCatalog, name: str
) -> None:
    document = expected(name)
    for version in document["versions"]:
        at = version["at"]
        branch = f"$branch_{at['branch']}" if at["branch"] else ""
        table = pyiceberg.load_table(f"golden.{name}{branch}")
        scan = table.scan(snapshot_id=at["snapshot_id"])
        if at["tag"]:
            scan = scan.use_ref(at["tag"])
        wanted = ids(table, scan.snapshot_id)

        assert read(scan) == expected_rows(golden, version, live_rows(version), wanted), at


def filters(name: str) -> list[tuple[Mapping[str, Any], BooleanExpression]]:
    """Return the queries of a golden table that Iceberg can express."""
    found = []
    for query in expected(name)["queries"]:
        if query["predicate"] is None or query["topn"] is not None or query["limit"] is not None:
            continue
        types = {each["name"]: str(each["type"]) for each in expected(name)["schema"]["fields"]}
        try:
            found.append((query, expression(query["predicate"], types)))
        except InexpressibleError:
            continue
    return found


def check_filters(golden: GoldenWarehouse, pyiceberg: RestCatalog, name: str, step: int) -> int:
    """Read every so many of a table's queries; how many."""
    versions = {str(each["at"]): each for each in expected(name)["versions"]}
    chosen = filters(name)[::step]
    for query, wanted in chosen:
        at = {key: query[key] for key in ("snapshot_id", "tag", "branch")}
        if at["branch"] or at["tag"]:
            continue
        table = pyiceberg.load_table(f"golden.{name}")
        rows = read(table.scan(wanted, snapshot_id=at["snapshot_id"]))
        fields = ids(table, at["snapshot_id"])
        assert rows == expected_rows(golden, versions[str(at)], query["matching"], fields), (
            query["name"],
            wanted,
        )
    return len(chosen)


@pytest.mark.parametrize("name", SERVED)
def test_some_golden_filters_give_the_rows_that_match(
    golden: GoldenWarehouse, pyiceberg: RestCatalog, name: str
) -> None:
    check_filters(golden, pyiceberg, name, 21)


@pytest.mark.long
@pytest.mark.parametrize("name", SERVED)
def test_every_golden_filter_gives_the_rows_that_match(
    golden: GoldenWarehouse, pyiceberg: RestCatalog, name: str
) -> None:
    check_filters(golden, pyiceberg, name, 1)


def test_files_are_left_out_by_the_indexes_of_the_table(pyiceberg: RestCatalog) -> None:
    table = pyiceberg.load_table("golden.append_sidecar")
    chosen = [
        (query, wanted)
        for query, wanted in filters("append_sidecar")
        if isinstance(wanted, EqualTo) and query["snapshot_id"] is query["tag"] is None
    ]
    assert chosen

    for query, wanted in chosen:
        planned = {task.file.file_path.rpartition("/")[2] for task in table.scan(wanted).plan_files()}
        assert query["matching"].keys() <= planned <= {each["file"] for each in query["engine_index_kept"]}


def test_writing_fails_and_leaves_no_file(serve_iceberg: ServeIceberg, tmp_path: Path) -> None:
    made = MadeTable.make(tmp_path, [DataField(0, "id", parse_type("INT"))])
    made.commit([entry()])
    before = sorted(tmp_path.rglob("*"))
    with serve_iceberg(warehouses={"main": str(tmp_path)}) as client:
        table = RestCatalog("paimon", uri=f"{client.base_url}/iceberg").load_table("golden.made")
        with pytest.raises(ValueError, match="paimon-index-plans-scans"):
            table.append(pa.table({"id": pa.array([1], pa.int32())}))

    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["append_dv64", "append_dv32", "pk_dv$ro"])
def test_files_with_deletion_vectors_are_refused_with_a_way_that_works(
    pyiceberg: RestCatalog, name: str
) -> None:
    scan = pyiceberg.load_table(f"golden.{name}").scan()

    for read_rows in (scan.to_arrow, scan.count):
        with pytest.raises(RESTError, match=r"Puffin.*compact the table in full.*read_table") as refused:
            read_rows()
        assert "bitmap64" not in str(refused.value)


def test_who_reads_no_vectors_is_not_told_to_use_them_where_rows_merge(
    pyiceberg: RestCatalog, iceberg: httpx.Client
) -> None:
    with pytest.raises(RESTError, match=r"add \$ro to its name.*compact the table in full") as refused:
        pyiceberg.load_table("golden.pk_merge").scan().to_arrow()

    assert "deletion-vectors" not in str(refused.value)
    others = iceberg.post("main/namespaces/golden/tables/pk_merge/plan", json={})
    assert "deletion-vectors.bitmap64" in others.text


@pytest.mark.parametrize("header", ["User-Agent", "X-Client-Version"])
def test_a_client_is_known_by_either_of_its_headers(iceberg: httpx.Client, header: str) -> None:
    path = "main/namespaces/golden/tables/append_dv64/plan"

    statuses = [
        iceberg.post(path, json={}, headers={header: name}).status_code
        for name in ("PyIceberg/0.12.0", "PyIceberg 0.12.0", "Apache Iceberg 1.11.0", "")
    ]

    assert statuses == [406, 406, 200, 200]


def test_files_without_vectors_are_read_of_a_table_that_may_have_some(
    pyiceberg: RestCatalog, iceberg: httpx.Client
) -> None:
    tasks = iceberg.post("main/namespaces/golden/tables/append_dv64/plan", json={"snapshot-id": 1}).json()
    assert not tasks["delete-files"]

    table = pyiceberg.load_table("golden.append_dv64")

    assert table.scan(snapshot_id=1).count() == sum(
        each["data-file"]["record-count"] for each in tasks["file-scan-tasks"]
    )


def test_rows_are_counted_as_they_are_read(pyiceberg: RestCatalog) -> None:
    table = pyiceberg.load_table("golden.append_sidecar")

    for wanted in (AlwaysTrue(), NotNull("grade"), NotEqualTo("grade", 5), LessThan("grade", 1_000_000)):
        assert table.scan(wanted).count() == len(table.scan(wanted).to_arrow())


def test_a_token_of_the_service_lets_pyiceberg_in(serve_iceberg: ServeIceberg, tmp_path: Path) -> None:
    file = tokens.write(tmp_path / "tokens", tokens.entry("reader", "pix_reader"))
    with serve_iceberg(tokens_file=str(file)) as client:
        uri = f"{client.base_url}/iceberg"
        catalog = RestCatalog("x", uri=uri, token="pix_reader")  # noqa: S106 - made for this test
        rows = catalog.load_table("golden.manifest_merge").scan().count()
        with pytest.raises(UnauthorizedError):
            RestCatalog("x", uri=uri, token="pix_other")  # noqa: S106 - likewise

    assert rows == 358


def test_an_object_store_is_found_where_the_settings_say(
    golden: GoldenWarehouse, serve_iceberg: ServeIceberg, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        str(path.relative_to(golden.root)): path.read_bytes()
        for path in golden.table("manifest_merge").rglob("*")
        if path.is_file()
    }
    with serve("iceberg-clients", files) as options:
        for name, value in {
            "AWS_ACCESS_KEY_ID": options["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
            "AWS_ENDPOINT_URL": options["endpoint"],
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        told = {"s3.endpoint": options["endpoint"], "s3.region": "us-east-1"}
        with serve_iceberg(warehouses={"main": "s3://iceberg-clients"}, iceberg_s3=told) as client:
            table = RestCatalog("s3", uri=f"{client.base_url}/iceberg").load_table("golden.manifest_merge")
            (task, *_) = table.scan().plan_files()
            rows = read(table.scan())

    latest = next(each for each in expected("manifest_merge")["versions"] if not any(each["at"].values()))
    assert task.file.file_path.startswith("s3://iceberg-clients/golden.db/manifest_merge/")
    assert rows == expected_rows(golden, latest, live_rows(latest), ids(table))
