"""``compose.yaml``: valid by the specification, and its services do what they are for."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from compose_spec import PyCompose

from tests.composed import ROOT, composed, running
from tests.served import PATIENCE_SECONDS, Served


def test_the_file_is_valid_and_names_only_what_is_there() -> None:
    file = composed()

    PyCompose.from_json(json.dumps(file)).validate()
    for service in file["services"].values():
        assert set(service.get("depends_on", {})) <= set(file["services"])
        mounted = [each.partition(":")[0] for each in service.get("volumes", []) if isinstance(each, str)]
        assert [each for each in mounted if each.startswith(".") and not (ROOT / each).exists()] == []


def test_what_differs_between_machines_is_a_variable() -> None:
    text = (ROOT / "compose.yaml").read_text()

    for line in text.splitlines():
        assert "image: " not in line or "${" in line, line


@pytest.mark.long
def test_the_service_plans_the_samples_in_the_store(tmp_path: Path) -> None:
    with running(tmp_path) as services:
        asked = services.index.client.post(
            "/v1/main/databases/demo/tables/sessions/plan", json={"filter": "fee = 58.43", "uris": True}
        ).json()

    assert (asked["summary"]["files_kept"], asked["summary"]["files_total"]) == (3, 10)
    assert asked["files"][0]["path"].startswith("s3://warehouse/demo.db/sessions/")
    assert [each.name for each in (tmp_path / "catalog").iterdir()] == ["catalog.jar"]


def plan_of_users(replica: Served) -> dict[str, Any]:
    path = "/v1/main/databases/demo/tables/users/plan"
    answer: dict[str, Any] = replica.client.post(path, json={}).raise_for_status().json()
    return answer


def shared(replica: Served) -> dict[str, int]:
    state: dict[str, int] = replica.client.get("/v1/cache").raise_for_status().json()["shared"]
    return state


@pytest.mark.long
def test_the_second_replica_takes_what_the_first_has_decoded(tmp_path: Path) -> None:
    with running(tmp_path) as services:
        first = plan_of_users(services.index)
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not shared(services.index)["written"]:
            assert time.monotonic() < give_up, shared(services.index)
        with services.starting("second") as replica:
            second = plan_of_users(replica)
            state = shared(replica)

    assert second["files"] == first["files"] != []
    assert state["hits"] > 0
    assert (state["misses"], state["failures"], state["written"]) == (0, 0, 0)
