"""Pages never mix versions, and a tag that is still good saves the work."""

import base64
import json
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.answers.paging import PageToken, VersionKey, Window
from app.errors import PageTokenError
from app.table.schema.schema import SchemaIds
from tests import golden_cases
from tests.api.conftest import Serve
from tests.copied_tables import GROWING, GrowingTable

TABLES = "/v1/main/databases/golden/tables"
PLAN = f"{TABLES}/append_dv32/plan"


def pages(
    client: httpx.Client, path: str, body: dict[str, Any], token: str | None = None
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while not found or token:
        response = client.post(path, json={**body, "page_token": token})
        assert response.status_code == 200, response.text
        found.append(response.json())
        token = found[-1]["next_page_token"]
    return found


def test_pages_of_a_plan_together_are_the_whole_plan(client: httpx.Client) -> None:
    body = {"filter": "score > 0", "explain": True}
    (whole,) = pages(client, PLAN, body)

    small = pages(client, PLAN, body | {"page_size": 2})

    assert len(small) > 2
    for member in ("files", "skipped_files"):
        assert [file for page in small for file in page[member]] == whole[member]
    assert all(len(page["files"]) + len(page["skipped_files"]) <= 2 for page in small)
    assert all(page["summary"] == whole["summary"] for page in small)


def test_pages_of_deletions_together_are_all_deletions(client: httpx.Client) -> None:
    (whole,) = pages(client, f"{TABLES}/append_dv32/deletions", {})

    small = pages(client, f"{TABLES}/append_dv32/deletions", {"page_size": 1})

    assert [entry for page in small for entry in page["deletions"]] == whole["deletions"]
    assert len(small) == len(whole["deletions"])


def test_pages_of_index_files(client: httpx.Client) -> None:
    path = f"{TABLES}/dyn_bucket/index-files"
    whole = client.get(path).json()["index_files"]

    first = client.get(path, params={"page_size": 2}).json()
    second = client.get(path, params={"page_size": 2, "page_token": first["next_page_token"]}).json()

    assert first["index_files"] + second["index_files"] == whole[:4]


def test_a_page_stays_in_the_version_of_the_first_one(serve: Serve, growing: GrowingTable) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        before = pages(client, PLAN, {})[0]
        first = client.post(PLAN, json={"page_size": 1}).json()
        growing.commit(4)
        rest = pages(client, PLAN, {"page_size": 1}, first["next_page_token"])
        after = client.post(PLAN, json={}).json()

    assert [page["snapshot_id"] for page in rest] == [3] * len(rest)
    assert [file["file_name"] for page in (first, *rest) for file in page["files"]] == [
        file["file_name"] for file in before["files"]
    ]
    assert after["snapshot_id"] == 4


def test_another_replica_goes_on_with_a_page(serve: Serve, growing: GrowingTable) -> None:
    warehouses = {"main": str(growing.warehouse)}
    with serve(warehouses=warehouses) as one, serve(warehouses=warehouses) as other:
        first = one.post(PLAN, json={"page_size": 1}).json()
        second = other.post(PLAN, json={"page_size": 1, "page_token": first["next_page_token"]}).json()

    assert second["snapshot_id"] == first["snapshot_id"]
    assert second["files"] != first["files"]


def test_a_page_of_an_expired_snapshot_is_gone(serve: Serve, growing: GrowingTable) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        first = client.post(PLAN, json={"page_size": 1}).json()
        growing.commit(4)
        (growing.directory / "snapshot" / "snapshot-3").unlink()
        client.post("/v1/cache/clear")
        response = client.post(PLAN, json={"page_size": 1, "page_token": first["next_page_token"]})

    assert response.status_code == 409, response.text
    assert response.json()["type"] == "urn:paimon-index:error:snapshot-expired"


def test_a_token_is_good_for_its_own_request_only(client: httpx.Client) -> None:
    body = {"filter": "score > 0", "page_size": 2}
    token = client.post(PLAN, json=body).json()["next_page_token"]

    other_size = client.post(PLAN, json=body | {"page_token": token, "page_size": 3})
    other_filter = client.post(PLAN, json={"filter": "score > 1", "page_token": token})
    other_paths = client.post(PLAN, json=body | {"page_token": token, "uris": True})
    other_table = client.post(f"{TABLES}/append_dv64/plan", json=body | {"page_token": token})
    other_endpoint = client.post(f"{TABLES}/append_dv32/deletions", json={"page_token": token})
    swapped = token[:50] + token[60:70] + token[50:60] + token[70:]
    forged = client.post(PLAN, json=body | {"page_token": swapped})
    nonsense = client.post(PLAN, json=body | {"page_token": "nonsense"})

    assert swapped != token
    assert other_size.status_code == 200
    for refused in (other_filter, other_paths, other_table, other_endpoint, forged, nonsense):
        assert refused.status_code == 400, refused.text
        assert refused.json()["type"] == "urn:paimon-index:error:page-token"


ASKED = [
    (PLAN, {"filter": "score > 0"}),
    (f"{TABLES}/append_dv32/deletions", {}),
    (f"{TABLES}/dyn_bucket/buckets/lookup", {"partition": {"dte": "2024-01-01"}, "hashes": [1]}),
]


@pytest.mark.parametrize(("path", "body"), ASKED)
@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_a_known_tag_gives_304(client: httpx.Client, path: str, body: object, coding: str) -> None:
    etag = client.post(path, json=body, headers={"Accept-Encoding": coding}).headers["etag"]

    again = client.post(path, json=body, headers={"If-None-Match": f'"other", {etag}'})
    changed = client.post(path, json={**body, "snapshot_id": 1}, headers={"If-None-Match": etag})  # type: ignore[dict-item] # JSON

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == etag
    assert changed.status_code == 200
    assert changed.headers["etag"] != etag


def test_a_304_is_answered_without_the_work(serve: Serve) -> None:
    with serve() as client:
        etag = client.post(PLAN, json={"filter": "score > 0"}).headers["etag"]
        client.post("/v1/cache/clear")
        client.post(PLAN, json={"filter": "score > 0"}, headers={"If-None-Match": etag})
        caches = client.get("/v1/cache").json()

    assert caches["manifests"]["entries"] == 0


def test_a_new_snapshot_has_another_tag(serve: Serve, growing: GrowingTable) -> None:
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        etag = client.post(PLAN, json={}).headers["etag"]
        unchanged = client.post(PLAN, json={}, headers={"If-None-Match": etag})
        growing.commit(4)
        changed = client.post(PLAN, json={}, headers={"If-None-Match": etag})

    assert (unchanged.status_code, changed.status_code) == (304, 200)
    assert changed.json()["snapshot_id"] == 4


def test_a_table_that_was_made_again_has_other_tags(serve: Serve, growing: GrowingTable) -> None:
    """paimon-cpp #267: snapshot ids start again, and cached answers of the old table were served."""
    schema = growing.directory / "schema" / "schema-0"
    with serve(warehouses={"main": str(growing.warehouse)}) as client:
        old = client.post(PLAN, json={"page_size": 1})
        document = json.loads(schema.read_text())
        schema.write_text(json.dumps(document | {"timeMillis": document["timeMillis"] + 1}))
        for file in growing.directory.glob("snapshot/snapshot-*"):
            snapshot = json.loads(file.read_text())
            file.write_text(json.dumps(snapshot | {"timeMillis": snapshot["timeMillis"] + 1}))
        tag = client.post(PLAN, json={"page_size": 1}, headers={"If-None-Match": old.headers["etag"]})
        page = client.post(PLAN, json={"page_size": 1, "page_token": old.json()["next_page_token"]})

    assert tag.status_code == 200
    assert page.status_code == 409


def test_versions_of_golden_tables_have_tags_of_their_own(client: httpx.Client) -> None:
    snapshots = golden_cases.expected("append_dv32")["snapshots"]

    tags = {client.post(PLAN, json={"snapshot_id": snapshot["id"]}).headers["etag"] for snapshot in snapshots}

    assert len(tags) == len(snapshots)


VERSION = VersionKey(b"0123456789abcdef", 7, SchemaIds(2, 3))
REQUEST = b"request"


@given(st.integers(0, 300), st.integers(1, 50), st.integers(1, 400))
def test_pages_together_are_the_whole_answer(total: int, size: int, max_bytes: int) -> None:
    found: list[int] = []
    offset: int | None = 0
    while offset is not None:
        page = Window(offset, size, max_bytes).fill(total, lambda index: {"entry": index})
        entries = json.loads(orjson.dumps(page.entries))
        assert len(entries) <= size
        assert len(entries) > 0 or total == 0
        found += [entry["entry"] for entry in entries]
        offset = page.next_offset

    assert found == list(range(total))


def test_a_page_ends_before_it_grows_over_its_bytes() -> None:
    page = Window(0, 100, max_bytes=25).fill(100, lambda _: "12345678")

    assert len(page.entries) == 2
    assert page.next_offset == 2


def test_an_entry_larger_than_a_page_goes_out_alone() -> None:
    page = Window(3, 100, max_bytes=5).fill(10, lambda _: "12345678")

    assert len(page.entries) == 1
    assert page.next_offset == 4


@pytest.mark.parametrize("version", [VERSION, VersionKey(b"0123456789abcdef", None, SchemaIds(0, 0))])
def test_a_token_goes_on_with_its_own_request(version: VersionKey) -> None:
    token = PageToken(version, 500)

    assert PageToken.read(token.write(REQUEST), REQUEST) == token


def test_a_token_of_another_request_is_refused() -> None:
    with pytest.raises(PageTokenError):
        PageToken.read(PageToken(VERSION, 500).write(REQUEST), b"another request")


@given(st.integers(0, 57 * 8 - 1))
def test_a_changed_bit_is_refused(bit: int) -> None:
    content = bytearray(base64.urlsafe_b64decode(PageToken(VERSION, 500).write(REQUEST)))
    content[bit // 8] ^= 1 << bit % 8

    with pytest.raises(PageTokenError):
        PageToken.read(base64.urlsafe_b64encode(content).decode(), REQUEST)


@given(st.text(max_size=80))
def test_text_that_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(PageTokenError):
        PageToken.read(text, REQUEST)


def test_another_spelling_of_a_token_is_refused() -> None:
    text = PageToken(VERSION, 500).write(REQUEST)
    respelled = f"{text}\n"

    assert base64.urlsafe_b64decode(respelled) == base64.urlsafe_b64decode(text)
    with pytest.raises(PageTokenError):
        PageToken.read(respelled, REQUEST)


URL = f"/v1/main/databases/golden/tables/{GROWING}"


def page(client: httpx.Client, path: str, **asked: Any) -> dict[str, Any]:
    answer = client.get(f"{URL}/{path}", params=asked)
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
            client.get(f"{URL}/tags", params={"page_token": token}),
            client.get(f"{URL}/snapshots", params={"page_token": token, "branch": "main"}),
            client.get(f"{URL}/snapshots", params={"page_token": "AA" + token[2:]}),
            client.get(f"{URL}/snapshots", params={"page_token": "x"}),
            client.get(f"{URL}/schemas", params={"page_token": token}),
            client.get(f"{URL}/snapshots", params={"page_size": 1_000_000}),
        ]

    assert {answer.status_code for answer in refused} == {400}
