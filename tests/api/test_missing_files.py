"""What is missing for good is told apart from what expired."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.growing_tables import TABLE

if TYPE_CHECKING:
    from tests.api.conftest import Serve
    from tests.growing_tables import GrowingTable

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
