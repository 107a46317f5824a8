"""Tables that lie where their catalog says, and not where their name puts them."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import tokens
from tests.api.conftest import Serve
from tests.api.gate.test_access import ENDPOINTS, TABLE
from tests.golden_cases import GoldenWarehouse

NAMED = "/v1/main/databases/golden/tables"
ELSEWHERE = "/v1/main/databases/sales/tables/orders"
_PASSING = {"timings_ms", "next_from_token", "snapshot_age_ms"}
QUESTIONS = [
    (method, path.removeprefix(TABLE), body)
    for method, path, body, _ in ENDPOINTS
    if path.startswith(TABLE) and (method, path) != ("GET", f"{TABLE}/advice")
]


@pytest.fixture(scope="module")
def root(golden: GoldenWarehouse, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse with golden tables by their names, and two of them at places that no name tells.

    ``sales.orders`` is a third one by its name.
    """
    root = tmp_path_factory.mktemp("locations")
    for name, place in (
        ("dyn_bucket", "golden.db/dyn_bucket"),
        ("append_sidecar", "golden.db/append_sidecar"),
        ("dyn_bucket", "lake/2024/orders"),
        ("append_sidecar", "lake/orders"),
        ("append_dv64", "sales.db/orders"),
    ):
        shutil.copytree(golden.table(name), root / place)
    return root


@pytest.fixture(scope="module")
def served(serve: Serve, root: Path) -> Iterator[httpx.Client]:
    with serve(warehouses={"main": str(root)}, public_urls={"main": "s3a://bucket/lakes/"}) as client:
        yield client


def planned(client: httpx.Client, path: str, **parameters: str) -> list[str]:
    answer = client.post(f"{path}/plan", json={}, params=parameters).raise_for_status()
    return [file["file_name"] for file in answer.json()["files"]]


@pytest.mark.parametrize(("method", "about", "body"), QUESTIONS)
def test_every_question_is_answered_about_the_table_at_the_location(
    served: httpx.Client, root: Path, method: str, about: str, body: Any
) -> None:
    location = f"{root}/lake/2024/orders"

    by_name = served.request(method, f"{NAMED}/dyn_bucket{about}", json=body)
    by_location = served.request(method, f"{ELSEWHERE}{about}", json=body, params={"location": location})

    assert (by_name.status_code, by_location.status_code) == (200, 200)
    if by_name.headers["content-type"] == "application/json":
        assert said(by_location) == said(by_name)
        assert "etag" not in by_name.headers or by_location.headers["etag"] != by_name.headers["etag"]


def said(answer: httpx.Response) -> Any:
    """Return the answer without what tells the two places apart."""
    text = answer.text.replace("lake/2024/orders", "PLACE").replace("golden.db/dyn_bucket", "PLACE")
    named = {("database", "golden"), ("database", "sales"), ("table", "dyn_bucket"), ("table", "orders")}

    def kept(value: Any) -> Any:
        if isinstance(value, list):
            return [kept(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {
            key: kept(each)
            for key, each in value.items()
            if key not in _PASSING and (key, str(each)) not in named
        }

    return kept(httpx.Response(200, text=text).json())


def test_tables_of_one_name_are_never_taken_for_each_other(served: httpx.Client, root: Path) -> None:
    locations = [f"file://{root}/lake/orders", f"{root}/lake/2024/orders/", "s3://bucket/lakes/lake/orders"]

    one, two, published = (planned(served, ELSEWHERE, location=each) for each in locations)

    assert planned(served, ELSEWHERE) == planned(served, ELSEWHERE, location=f"{root}/sales.db/orders")
    assert one == published == planned(served, f"{NAMED}/append_sidecar")
    assert two == planned(served, f"{NAMED}/dyn_bucket")
    assert len({*one, *two, *planned(served, ELSEWHERE)}) == len(one + two + planned(served, ELSEWHERE))


def test_a_page_goes_on_at_the_location_that_it_began_at(served: httpx.Client, root: Path) -> None:
    at = {"location": f"{root}/lake/orders"}
    first = served.post(f"{ELSEWHERE}/plan", json={"page_size": 1}, params=at).json()
    goes_on = {"page_size": 1, "page_token": first["next_page_token"]}

    same = served.post(f"{ELSEWHERE}/plan", json=goes_on, params=at)
    other = served.post(f"{ELSEWHERE}/plan", json=goes_on, params={"location": f"{root}/lake/2024/orders"})

    assert same.status_code == 200
    assert other.status_code == 400
    assert other.json()["type"].endswith("page-token")


def test_plans_count_for_the_place(served: httpx.Client, root: Path) -> None:
    place = {"location": f"{root}/lake/orders"}

    def plans(path: str, **parameters: str) -> int:
        advice = served.get(f"{path}/advice", params=parameters).raise_for_status().json()
        count: int = advice["savings"]["plans"]
        return count

    before = [plans(ELSEWHERE), plans(ELSEWHERE, **place), plans("/v1/main/databases/a/tables/b", **place)]
    planned(served, ELSEWHERE, **place)
    after = [plans(ELSEWHERE), plans(ELSEWHERE, **place), plans("/v1/main/databases/a/tables/b", **place)]

    assert [now - then for now, then in zip(after, before, strict=True)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("location", "status", "says"),
    [
        ("s3://other/lake/orders", 404, "does not lie below warehouse 'main' at s3a://bucket/lakes/"),
        ("s3://bucket/lakes2/lake/orders", 404, "does not lie below"),
        ("s3://bucket/lakes", 404, "does not lie below"),
        ("s3://bucket/lakes/lake/nothing", 404, "no table sales.orders at lake/nothing of 'main'"),
        ("s3://bucket/lakes/../lakes/lake/orders", 400, "location: "),
        ("s3://bucket/lakes//lake/orders", 400, "location: "),
        ("lake/orders", 400, "'lake/orders' is not a URL"),
        ("", 400, "'' is not a URL"),
        ("s3://bucket/lakes/lake/\x00orders", 400, "location: "),
        ("s3://reader:pix_SECRET@other/lakes/orders", 404, "s3://other/lakes/orders does not lie below"),
        ("{root}/lake/orders\n", 400, "location: control characters"),
        ("{root}/lake/../lake/orders", 400, "without empty segments, '.' and '..'"),
        ("{root}//lake/orders", 400, "without empty segments"),
        ("/{root}/lake/orders", 400, "without empty segments"),
        ("file:/{root}/lake/orders", 400, "write file:///path, with three slashes"),
    ],
)
def test_other_places_are_refused(
    served: httpx.Client, root: Path, location: str, status: int, says: str
) -> None:
    for method, about in (
        ("POST", "/plan"),
        ("POST", "/pruned-snapshot"),
        ("GET", ""),
        ("GET", "/snapshots"),
    ):
        answer = served.request(
            method,
            ELSEWHERE + about,
            json={} if method == "POST" else None,
            params={"location": location.replace("{root}", str(root))},
        )

        assert (answer.status_code, answer.json()["detail"]) == (status, answer.json()["detail"])
        assert says in answer.json()["detail"]
        assert "SECRET" not in answer.text


def test_a_link_that_leads_out_of_the_warehouse_is_no_table(
    serve: Serve, golden: GoldenWarehouse, tmp_path: Path
) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "orders").symlink_to(golden.table("append_sidecar"))
    with serve(warehouses={"main": str(tmp_path)}) as client:
        answer = client.post(f"{ELSEWHERE}/plan", json={}, params={"location": f"{tmp_path}/lake/orders"})

    assert answer.status_code == 424
    assert "leads out of its root" in answer.json()["detail"]


def test_a_branch_is_no_table_at_its_directory(serve: Serve, golden: GoldenWarehouse, tmp_path: Path) -> None:
    table = tmp_path / "lake" / "orders"
    shutil.copytree(golden.table("versions"), table)
    with serve(warehouses={"main": str(tmp_path)}) as client:
        planned_branch = client.post(
            f"{ELSEWHERE}/plan", json={"branch": "dev"}, params={"location": str(table)}
        )
        # What is known of the branch by now is not to be taken for a table of its own.
        answer = client.post(f"{ELSEWHERE}/plan", json={}, params={"location": f"{table}/branch/branch-dev"})

    assert planned_branch.status_code == 200
    assert answer.status_code == 404
    assert "lake/orders/branch/branch-dev is a branch of a table" in answer.json()["detail"]


def test_a_misspelled_parameter_does_not_change_the_question(served: httpx.Client, root: Path) -> None:
    answer = served.post(f"{ELSEWHERE}/plan", json={}, params={"locaton": f"{root}/lake/orders"})

    assert answer.status_code == 400
    assert answer.json()["detail"] == (
        "there is no parameter 'locaton': did you mean 'location'? Parameters: location"
    )


@pytest.mark.parametrize(("method", "about"), [("POST", "/plan"), ("GET", ""), ("GET", "/snapshots")])
def test_a_parameter_that_stands_twice_is_refused(
    served: httpx.Client, root: Path, method: str, about: str
) -> None:
    names = {"location": [f"{root}/lake/orders", f"{root}/lake/2024/orders"]}

    answer = served.request(method, ELSEWHERE + about, json={} if method == "POST" else None, params=names)

    assert answer.status_code == 400
    assert answer.json()["detail"] == "the parameter 'location' stands 2 times: send it once"


def test_a_password_in_a_url_does_not_tell_places_apart(served: httpx.Client, root: Path) -> None:
    with_password = planned(served, ELSEWHERE, location="s3://reader:pix_SECRET@bucket/lakes/lake/orders")

    assert with_password == planned(served, ELSEWHERE, location=f"{root}/lake/orders")


def test_rights_are_those_of_the_place(serve: Serve, root: Path, tmp_path: Path) -> None:
    entries = (
        tokens.entry("sales", "pix_sales", databases=["sales", "golden"]),
        tokens.entry("lake", "pix_lake", warehouses=["lake"]),
        tokens.entry("all", "pix_all", warehouses=["main", "lake"]),
    )
    path = tokens.write(tmp_path / "tokens", *entries)
    warehouses = {"main": str(root), "lake": f"{root}/lake"}

    def status(secret: str, warehouse: str, location: str) -> int:
        asked = f"/v1/{warehouse}/databases/sales/tables/orders/plan"
        headers, parameters = tokens.bearer(secret), {"location": f"{root}/{location}"}
        return client.post(asked, json={}, params=parameters, headers=headers).status_code

    with serve(warehouses=warehouses, tokens_file=str(path)) as client:
        found = {
            secret: [
                status(secret, "main", "lake/orders"),
                status(secret, "main", "golden.db/dyn_bucket"),
                status(secret, "lake", "lake/orders"),
                status(secret, "lake", "golden.db/dyn_bucket"),
            ]
            for secret in ("pix_sales", "pix_lake", "pix_all")
        }

    assert found == {
        # Only where its databases are.
        "pix_sales": [403, 200, 403, 403],
        "pix_lake": [403, 403, 200, 404],
        "pix_all": [200, 200, 200, 404],
    }
