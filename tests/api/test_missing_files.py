"""What is missing: files told apart from expired ones, and warehouses that cannot be listed."""

import logging
import shutil
from pathlib import Path

import pytest

from app.errors import StorageError
from app.storage import Listings, Warehouse, check_listable
from app.telemetry.state import listing_family
from tests import s3_server
from tests.api.conftest import Serve
from tests.cli.commands import run
from tests.copied_tables import GROWING, GrowingTable
from tests.faulty_store import BUCKET, Fault, Store
from tests.golden_cases import GoldenWarehouse

TABLES = f"/v1/main/databases/golden/tables/{GROWING}"
MISSING = "urn:paimon-index:error:file-missing"


def test_a_manifest_that_is_missing_is_no_expired_snapshot(serve: Serve, growing: GrowingTable) -> None:
    for manifest in growing.directory.glob("manifest/manifest-*"):
        manifest.unlink()

    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        answers = [client.post(f"{TABLES}/{path}", json={}) for path in ("plan", "plan", "deletions")]

    for answer in answers:
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (424, MISSING)
        assert problem["path"].startswith(f"golden.db/{GROWING}/manifest/manifest-list-")
        assert "snapshot 3 needs it" in problem["detail"]


def test_a_table_without_its_snapshots_is_no_empty_table(serve: Serve, growing: GrowingTable) -> None:
    shutil.rmtree(growing.directory / "snapshot")

    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        answers = [client.post(f"{TABLES}/plan", json={}), client.get(TABLES)]

    for answer in answers:
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (424, MISSING)
        assert problem["path"] == f"golden.db/{GROWING}/snapshot"


def test_a_schema_that_a_snapshot_needs_is_missing_and_the_table_is_not(
    serve: Serve, growing: GrowingTable
) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        warm = client.post(f"{TABLES}/plan", json={})
        (growing.directory / "schema" / "schema-0").unlink()
        bodies: list[dict[str, object]] = [{}, {"snapshot_id": 1}]
        answers = [client.post(f"{TABLES}/plan", json=body) for body in bodies]
        unknown = client.post(f"{TABLES}/plan", json={"snapshot_id": 9})

    assert (warm.status_code, unknown.status_code) == (200, 404)
    for answer, snapshot_id in zip(answers, (3, 1), strict=True):
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (424, MISSING)
        assert problem["path"] == f"golden.db/{GROWING}/schema/schema-0"
        assert f"snapshot {snapshot_id} " in problem["detail"]


def test_an_older_schema_does_not_stand_in_for_one_that_is_missing(
    serve: Serve, growing: GrowingTable
) -> None:
    newer = growing.directory / "schema" / "schema-1"
    older = newer.with_name("schema-0")
    newer.write_text(older.read_text().replace('"id" : 0', '"id" : 1', 1))
    latest = growing.directory / "snapshot" / "snapshot-3"
    latest.write_text(latest.read_text().replace('"schemaId" : 0', '"schemaId" : 1'))
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        there = client.post(f"{TABLES}/plan", json={})
        newer.unlink()
        answer = client.post(f"{TABLES}/plan", json={})

    assert there.status_code == 200
    assert (answer.status_code, answer.json()["type"]) == (424, MISSING)
    assert answer.json()["path"] == f"golden.db/{GROWING}/schema/schema-1"


@pytest.mark.parametrize(
    "question",
    [
        "/v1/gone/databases",
        "/v1/gone/databases/shop/tables",
        "/v1/gone/databases/shop/tables/sales/snapshots",
        "/v1/gone/databases/shop/tables/sales",
    ],
)
def test_questions_name_the_url_of_a_directory_that_is_not_there(
    serve: Serve, golden: GoldenWarehouse, tmp_path: Path, question: str
) -> None:
    warehouses = {"main": str(golden.root), "gone": str(tmp_path / "does-not-exist")}
    with serve(warehouses=warehouses) as client:
        problem = client.get(question)
        others = client.get("/v1/main/databases")

    assert problem.status_code == 503
    assert problem.json()["type"].endswith("storage-unavailable")
    assert "'gone' cannot be listed" in problem.json()["detail"]
    assert str(tmp_path / "does-not-exist") in problem.json()["detail"]
    assert others.json()["databases"] == ["golden"]


def test_an_empty_directory_is_an_empty_warehouse(serve: Serve, tmp_path: Path) -> None:
    with serve(warehouses={"new": str(tmp_path)}) as client:
        assert client.get("/v1/new/databases").json()["databases"] == []
        assert client.get("/v1/new/databases/shop/tables").status_code == 404


def test_of_an_object_store_a_missing_bucket_is_told_and_an_empty_prefix_is_not() -> None:
    with s3_server.serve("lake", {"other/key": b""}) as options:
        check_listable(Warehouse("new", "s3://lake/prefix", options=options))
        with pytest.raises(StorageError, match=r"'gone' cannot be listed.*s3://no-such-bucket/prefix"):
            check_listable(Warehouse("gone", "s3://no-such-bucket/prefix", options=options))


def test_a_failure_is_warned_of_once_and_measured(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    warehouses = {
        "gone": Warehouse("gone", str(tmp_path / "gone")),
        "there": Warehouse("there", str(tmp_path)),
    }
    listings = Listings(warehouses)
    with caplog.at_level(logging.WARNING):
        for warehouse in (*warehouses.values(), *warehouses.values()):
            listings.check(warehouse)

    (record,) = caplog.records
    assert f"there is no directory or bucket file://{tmp_path}/gone" in record.getMessage()
    assert listings.failing == 1
    samples = {each.labels["warehouse"]: each.value for each in listing_family(listings).samples}
    assert samples == {"gone": 0, "there": 1}
    (tmp_path / "gone").mkdir()
    listings.check(warehouses["gone"])
    assert listings.failing == 0


def test_readiness_tells_how_many_fail(serve: Serve, golden: GoldenWarehouse, tmp_path: Path) -> None:
    warehouses = {"main": str(golden.root), "gone": str(tmp_path / "gone")}
    with serve(warehouses=warehouses) as client:
        answer = client.get("/health/ready")
        while "warehouses_failing" not in answer.json():  # the first listing is made beside requests
            answer = client.get("/health/ready")
        metrics = client.get("/metrics").text

    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "warehouses_failing": 1})
    assert 'paimon_index_warehouse_listable{warehouse="gone"} 0.0' in metrics


def test_a_service_whose_only_warehouse_is_missing_is_not_ready(serve: Serve, tmp_path: Path) -> None:
    with serve(warehouses={"gone": str(tmp_path / "gone")}) as client:
        answer = client.get("/health/ready")
        while answer.json() == {"status": "ready"}:  # the first listing is made beside requests
            answer = client.get("/health/ready")
        live = client.get("/health/live")

    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (503, "urn:paimon-index:error:not-ready")
    assert problem["detail"].startswith("no warehouse exists")
    assert str(tmp_path) not in problem["detail"]
    assert live.status_code == 200


def test_a_warehouse_that_comes_is_not_missing_any_more(tmp_path: Path) -> None:
    gone = Warehouse("gone", str(tmp_path / "gone"))
    listings = Listings({"gone": gone})
    listings.check(gone)
    before = listings.all_missing

    (tmp_path / "gone").mkdir()
    listings.check(gone)

    assert (before, listings.all_missing) == (True, False)


def test_a_warehouse_whose_store_fails_is_not_missing() -> None:
    with Store({}, lambda _: Fault.RESET).serving() as options:
        failing = Warehouse("failing", f"s3://{BUCKET}", options=options)
        listings = Listings({"failing": failing})
        listings.check(failing)

    assert (listings.failing, listings.all_missing) == (1, False)


def test_the_command_line_tells_of_the_warehouse_and_not_of_the_table(tmp_path: Path) -> None:
    for command in (("describe", "shop.sales"), ("plan", "shop.sales")):
        done = run(*command, "--warehouse", f"gone={tmp_path}/does-not-exist")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"file://{tmp_path}/does-not-exist" in done.stderr
