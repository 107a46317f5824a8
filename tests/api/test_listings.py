"""Pages of listings that change between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.api.conftest import Serve
from tests.growing_tables import TABLE, GrowingTable

if TYPE_CHECKING:
    import httpx

TABLES = f"/v1/main/databases/golden/tables/{TABLE}"


def page(client: httpx.Client, path: str, **asked: Any) -> dict[str, Any]:
    answer = client.get(f"{TABLES}/{path}", params=asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_what_stays_is_listed_once_while_snapshots_come_and_go(serve: Serve, growing: GrowingTable) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        first = page(client, "snapshots", page_size=2)
        (growing.directory / "snapshot" / "snapshot-1").unlink()
        growing.commit(4)
        second = page(client, "snapshots", page_size=2, page_token=first["next_page_token"])

    assert [each["id"] for each in first["snapshots"]] == [1, 2]
    assert [each["id"] for each in second["snapshots"]] == [3, 4]
    assert second["next_page_token"] is None


def test_tags_come_by_name(serve: Serve, growing: GrowingTable) -> None:
    tags = growing.directory / "tag"
    tags.mkdir(exist_ok=True)
    names = ["b", "a", "\u00e4 b", "c"]
    for name in names:
        (tags / f"tag-{name}").write_bytes((growing.directory / "snapshot" / "snapshot-2").read_bytes())

    found: list[str] = []
    asked: dict[str, Any] | None = {"page_size": 1}
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        while asked is not None:
            part = page(client, "tags", **asked)
            found += [each["name"] for each in part["tags"]]
            token = part["next_page_token"]
            asked = None if token is None else {"page_size": 1, "page_token": token}

    assert found == sorted(names)


def test_a_token_is_good_for_its_own_listing_only(serve: Serve, growing: GrowingTable) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        token = page(client, "snapshots", page_size=1)["next_page_token"]
        refused = [
            client.get(f"{TABLES}/tags", params={"page_token": token}),
            client.get(f"{TABLES}/snapshots", params={"page_token": token, "branch": "main"}),
            client.get(f"{TABLES}/snapshots", params={"page_token": "AA" + token[2:]}),
            client.get(f"{TABLES}/snapshots", params={"page_token": "x"}),
            client.get(f"{TABLES}/schemas", params={"page_token": token}),
            client.get(f"{TABLES}/snapshots", params={"page_size": 1_000_000}),
        ]

    assert {answer.status_code for answer in refused} == {400}
