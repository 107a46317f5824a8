"""A warehouse that cannot be listed: told by every way of asking, while the others are answered."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from app.errors import StorageError
from app.storage import Listings, Warehouse, check_listable
from app.telemetry.state import listing_family
from tests import s3_server
from tests.api.conftest import Serve
from tests.cli.commands import run
from tests.golden_tables import GoldenWarehouse


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
    assert others.json() == {"databases": ["golden"]}


def test_an_empty_directory_is_an_empty_warehouse(serve: Serve, tmp_path: Path) -> None:
    with serve(warehouses={"new": str(tmp_path)}) as client:
        assert client.get("/v1/new/databases").json() == {"databases": []}
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


def test_the_command_line_tells_of_the_warehouse_and_not_of_the_table(tmp_path: Path) -> None:
    for command in (("describe", "shop.sales"), ("plan", "shop.sales")):
        done = run(*command, "--warehouse", f"gone={tmp_path}/does-not-exist")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"file://{tmp_path}/does-not-exist" in done.stderr
