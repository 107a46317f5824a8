"""What is missing for good is told apart from what expired."""

from __future__ import annotations

import shutil

from tests.api.conftest import Serve
from tests.growing_tables import TABLE, GrowingTable

TABLES = f"/v1/main/databases/golden/tables/{TABLE}"
MISSING = "urn:paimon-index:error:file-missing"


def test_a_manifest_that_is_missing_is_no_expired_snapshot(serve: Serve, growing: GrowingTable) -> None:
    for manifest in growing.directory.glob("manifest/manifest-*"):
        manifest.unlink()

    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        answers = [client.post(f"{TABLES}/{path}", json={}) for path in ("plan", "plan", "deletions")]

    for answer in answers:
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (424, MISSING)
        assert problem["path"].startswith(f"golden.db/{TABLE}/manifest/manifest-list-")
        assert "snapshot 3 needs it" in problem["detail"]


def test_a_table_without_its_snapshots_is_no_empty_table(serve: Serve, growing: GrowingTable) -> None:
    shutil.rmtree(growing.directory / "snapshot")

    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        answers = [client.post(f"{TABLES}/plan", json={}), client.get(TABLES)]

    for answer in answers:
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (424, MISSING)
        assert problem["path"] == f"golden.db/{TABLE}/snapshot"


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
        assert problem["path"] == f"golden.db/{TABLE}/schema/schema-0"
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
    assert answer.json()["path"] == f"golden.db/{TABLE}/schema/schema-1"
