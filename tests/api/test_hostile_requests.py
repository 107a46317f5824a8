"""Whatever is sent, no answer is a 500, and no path leads out of the warehouse."""

import shutil
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.api.conftest import Serve
from tests.examples import examples
from tests.golden_cases import GoldenWarehouse

TABLES = "/v1/main/databases/golden/tables"
MEMBERS = f"""
{TABLES}/append_sidecar/plan filter in_lists snapshot_id tag timestamp_millis branch selection explain files \
    top_n limit page_size page_token
{TABLES}/pk_merge/plan filter files top_n limit explain
{TABLES}/pk_merge/pruned-snapshot filter snapshot_id budget_ms
{TABLES}/append_sidecar/aggregate filter aggregates group_by top tag
{TABLES}/append_dv32/changes from_token from_snapshot_id filter wait_seconds tag
{TABLES}/append_sidecar/what-if indexes filters files bytes seed snapshot_id
{TABLES}/append_dv32/deletions snapshot_id partition files encoding page_size page_token
{TABLES}/dyn_bucket/buckets/lookup partition keys hashes snapshot_id
{TABLES}/dyn_bucket/buckets/assign partition keys hashes assign_id num_assigners num_channels
/v1/main/index-files/evaluate schema files row_count filter in_lists top_n selection
/v1/main/index-files/inspect path content kind name
"""
POSTS = {path: members for path, *members in map(str.split, MEMBERS.strip().splitlines())}
"""Members of the bodies by the path that takes them."""

_WORDS = """
.. grade data-1.parquet bitmap INT ARRAY<INT> EQUAL FIELD_REF LEAF COMPOUND AND AAAA uid dte
golden.db/append_sidecar/snapshot/LATEST
"""
WORDS = st.sampled_from(["", "rank_no = 1", "score > 0 AND", "\x00", *_WORDS.split()])
_NAMES = """
kind function children transform fieldRef name index type literals column limit order_by direction nulls path
content uid dte $ms $hex $arrow grade a
"""
NAMES = st.sampled_from(_NAMES.split())
_COLUMNS = "grade rank_no fee logged temp day memo uid"
_FUNCTIONS = "EQUAL NOT_EQUAL LESS_THAN IS_NULL IN NOT_IN BETWEEN LIKE TRUE ODD"
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-3, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | WORDS
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
PREDICATES = st.recursive(
    st.fixed_dictionaries(
        {
            "kind": st.just("LEAF"),
            "transform": st.fixed_dictionaries(
                {
                    "name": st.just("FIELD_REF"),
                    "fieldRef": st.fixed_dictionaries({"name": st.sampled_from(_COLUMNS.split())}),
                }
            ),
            "function": st.sampled_from(_FUNCTIONS.split()),
            "literals": st.lists(LEAVES, max_size=3) | LEAVES,
        }
    ),
    lambda inner: st.fixed_dictionaries(
        {
            "kind": st.just("COMPOUND"),
            "function": st.sampled_from(["AND", "OR", "NOT"]),
            "children": st.lists(inner, max_size=3) | VALUES,
        }
    ),
    max_leaves=6,
)
EXPECTED = {200, 400, 404, 409, 422, 424}


@pytest.mark.parametrize("path", POSTS)
@given(data=st.data())
@examples(120, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_gets_an_answer(client: httpx.Client, path: str, data: st.DataObject) -> None:
    members = st.dictionaries(st.sampled_from(POSTS[path]), VALUES | PREDICATES, max_size=4)
    body: Any = data.draw(members | VALUES)

    response = client.post(path, json=body)

    assert response.status_code in EXPECTED, response.text


@pytest.mark.parametrize("path", POSTS)
@given(content=st.binary(max_size=200))
@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_get_an_answer(client: httpx.Client, path: str, content: bytes) -> None:
    response = client.post(path, content=content)

    assert response.status_code == 400, response.text


@given(written=st.text(max_size=60) | st.lists(WORDS, max_size=8).map(" ".join) | PREDICATES)
@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_filter_gets_an_answer(client: httpx.Client, written: object) -> None:
    response = client.post(f"{TABLES}/append_sidecar/plan", json={"filter": written})

    assert response.status_code in (200, 422), response.text


@pytest.mark.parametrize("depth", [*range(50, 1000, 50), *range(930, 1001, 5), 5000])
def test_any_depth_gets_an_answer(client: httpx.Client, depth: int) -> None:
    path = f"{TABLES}/append_sidecar/plan"
    leaf = '{"kind": "LEAF", "function": "TRUE", "transform": {"name": "TRUE"}, "literals": []}'
    deep = '{"kind": "COMPOUND", "function": "AND", "children": [' * (depth // 2) + leaf + "]}" * (depth // 2)

    nested = client.post(path, content=f'{{"filter": {{"a": {"[" * depth}{"]" * depth}}}}}')
    compound = client.post(path, content=f'{{"filter": {deep}}}')
    text = client.post(path, json={"filter": "(" * depth + "grade = 1" + ")" * depth})

    assert nested.status_code in (400, 422), nested.text
    assert compound.status_code in (200, 400, 422), compound.text
    assert text.status_code in (200, 422), text.text


_LEAVING = """
.. ../secret golden.db/../../secret /etc/passwd //etc/passwd file:///etc/passwd file:/etc/passwd
s3://elsewhere/x memory://x http://127.0.0.1/x golden.db//append_sidecar ./golden.db golden.db/link/secret
"""
NO_NAMES = ".. %2e%2e ..%2f.. %2e%2e%2fsecret golden.db%2f.. %2fetc %00 a%0ab %5c.. ."
LEAVING = [*_LEAVING.split(), "golden.db\x00/x"]


@pytest.fixture(scope="module")
def fenced(serve: Serve, golden: GoldenWarehouse, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Yield a server on a warehouse beside a secret, with a link that leads there."""
    root: Path = tmp_path_factory.mktemp("fenced")
    (root / "secret").write_text("secret")
    (root / "outside").mkdir()
    (root / "outside" / "secret").write_text("secret")
    shutil.copytree(golden.table("append_sidecar"), root / "warehouse" / "golden.db" / "append_sidecar")
    shutil.copytree(golden.table("append_sidecar"), root / "outside" / "table")
    (root / "warehouse" / "golden.db" / "link").symlink_to(root / "outside")
    (root / "warehouse" / "golden.db" / "linked_table").symlink_to(root / "outside" / "table")
    with serve(warehouses={"main": str(root / "warehouse")}, allow_external=()) as client:
        yield client


@pytest.mark.parametrize("path", LEAVING)
def test_paths_of_index_files_stay_in_the_warehouse(fenced: httpx.Client, path: str) -> None:
    inspected = fenced.post("/v1/main/index-files/inspect", json={"path": path})
    evaluated = fenced.post(
        "/v1/main/index-files/evaluate", json={"schema": [], "files": [{"path": path}], "filter": None}
    )

    assert inspected.status_code == 400, inspected.text
    assert inspected.json()["type"] == "urn:paimon-index:error:path-not-allowed"
    assert evaluated.json()["results"][0]["error"]["status"] == 400, evaluated.text
    assert "root:" not in inspected.text + evaluated.text


@pytest.mark.parametrize("name", NO_NAMES.split())
def test_names_in_urls_are_never_paths(fenced: httpx.Client, name: str) -> None:
    paths = [
        f"/v1/{name}/databases",
        f"/v1/main/databases/{name}/tables",
        f"/v1/main/databases/golden/tables/{name}",
        f"/v1/main/databases/{name}/tables/append_sidecar/snapshots",
    ]

    # The other client would resolve dots by itself.
    connection = HTTPConnection(fenced.base_url.host, fenced.base_url.port, timeout=20)
    statuses = {}
    for path in paths:
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        statuses[path] = response.status
    connection.close()

    assert set(statuses.values()) <= {400, 404}, statuses


@pytest.mark.parametrize("name", ["..", "../..", "/etc", "a/../../b", "a\x00b", "%2e%2e"])
def test_branches_and_tags_are_never_paths(fenced: httpx.Client, name: str) -> None:
    plan = "/v1/main/databases/golden/tables/append_sidecar/plan"

    answers = [fenced.post(plan, json={member: name}).status_code for member in ("branch", "tag")]

    assert set(answers) <= {400, 404}, answers


def test_a_link_out_of_the_warehouse_is_no_table(fenced: httpx.Client) -> None:
    listed = fenced.get("/v1/main/databases/golden/tables")
    planned = fenced.post("/v1/main/databases/golden/tables/linked_table/plan", json={})

    assert listed.json()["tables"] == ["append_sidecar"]
    assert planned.status_code in (404, 424), planned.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{TABLES}/external_data/plan", {"filter": "user_key = 'customer-reference-grove-666'"}),
        (f"{TABLES}/index_external/deletions", {}),
    ],
)
def test_external_files_need_the_operators_leave(serve: Serve, path: str, body: object) -> None:
    with serve(allow_external=()) as closed, serve() as opened:
        refused = closed.post(path, json=body)
        answered = opened.post(path, json=body)

    assert refused.status_code == 424, refused.text
    assert refused.json()["type"] == "urn:paimon-index:error:path-not-allowed"
    assert "--allow-external" in refused.json()["detail"]
    assert answered.status_code == 200, answered.text
