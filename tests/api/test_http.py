"""What is the same for every request: ids, compression, connections."""

import gzip
import json
import math
import os
import re
import tracemalloc
from decimal import Decimal
from pathlib import Path

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.answers.versioned import etag_matches
from app.api.http.strict_json import memory_of_json, read_json, write_json
from app.errors import RequestError
from app.planning.request.requests import TableRef
from tests.api.conftest import Serve
from tests.examples import examples

PLAN = "/v1/main/databases/golden/tables/append_sidecar/plan"


@pytest.mark.parametrize(
    "path", ["/health/live", "/v1/config", "/nowhere", "/v1/main/databases/nowhere/tables"]
)
def test_a_callers_request_id_comes_back(client: httpx.Client, path: str) -> None:
    response = client.get(path, headers={"X-Request-Id": "trace-4711/a:b"})

    assert response.headers["x-request-id"] == "trace-4711/a:b"
    if response.status_code != 200:
        assert response.json()["instance"] == "trace-4711/a:b"


@pytest.mark.parametrize("asked", [None, "", "a b", "x" * 129, "<script>", 'a"b'])
def test_other_requests_get_an_id_of_their_own(client: httpx.Client, asked: str | None) -> None:
    headers = {} if asked is None else {"X-Request-Id": asked}

    first, second = (client.get("/health/live", headers=headers).headers["x-request-id"] for _ in range(2))

    assert re.fullmatch(r"[0-9a-f]{32}", first)
    assert first != second


@pytest.mark.parametrize("accepted", ["gzip;q=0", "gzip; q=0.000, identity", "deflate, GZIP;Q=0"])
def test_callers_who_refuse_gzip_get_none(client: httpx.Client, accepted: str) -> None:
    answer = client.post(PLAN, json={}, headers={"Accept-Encoding": accepted})

    assert len(answer.content) > 1_024
    assert "content-encoding" not in answer.headers
    assert "Accept-Encoding" in answer.headers["vary"]


@pytest.mark.parametrize("encoding", ["gzip", "x", "identity, br"])
def test_compressed_bodies_are_refused(client: httpx.Client, encoding: str) -> None:
    answer = client.post(PLAN, content=b"{}", headers={"Content-Encoding": encoding})
    plain = client.post(PLAN, content=b"{}", headers={"Content-Encoding": "identity"})

    assert (answer.status_code, answer.json()["type"]) == (415, "urn:paimon-index:error:unsupported-encoding")
    assert f"Content-Encoding {encoding}: send it as it is" in answer.json()["detail"]
    assert plain.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/health/live",
        "/v1/config",
        "/v1/main/databases/golden/tables",
        "/v1/main/databases/iceberg/tables",
        "/v1/x",
    ],
)
def test_head_is_get_without_the_body(client: httpx.Client, path: str) -> None:
    head, whole = client.head(path), client.get(path)

    assert (head.status_code, head.content) == (whole.status_code, b"")
    # What memory is in use changes from one answer to the next.
    assert int(head.headers["content-length"]) == pytest.approx(int(whole.headers["content-length"]), abs=50)
    assert head.headers["content-type"] == whole.headers["content-type"]


@pytest.mark.parametrize("listing", ["schemas", "index-files"])
def test_listings_of_a_version_are_not_sent_again(client: httpx.Client, listing: str) -> None:
    path = f"/v1/main/databases/golden/tables/append_dv32/{listing}"
    known = {"If-None-Match": client.get(path).headers["etag"]}

    assert client.get(path, headers=known).status_code == 304


def test_tables_come_in_pages(client: httpx.Client) -> None:
    path, token = "/v1/main/databases/golden/tables", None
    names: list[str] = []
    whole = client.get(path).json()["tables"]
    while token is not None or not names:
        page = client.get(path, params={"page_size": 7, **({"page_token": token} if token else {})}).json()
        names += page["tables"]
        token = page["next_page_token"]

    assert names == whole
    assert client.get(path, params={"foo": 1}).status_code == 400
    assert client.get("/v1/main/databases", params={"page_token": "x"}).status_code == 400


def test_pages_go_on_behind_a_name_that_is_no_text(serve: Serve, tmp_path: Path) -> None:
    for name in (b"a\xff.db", b"b.db"):
        (tmp_path / os.fsdecode(name)).mkdir()
    with serve(warehouses={"main": str(tmp_path)}) as client:
        first = client.get("/v1/main/databases", params={"page_size": 1}).json()
        token = {"page_size": 1, "page_token": first["next_page_token"]}
        second = client.get("/v1/main/databases", params=token).json()

    assert second == {"databases": ["b"], "next_page_token": None}


@pytest.mark.parametrize("path", ["/v1/config?warehouse=main", "/v1/namespaces"])
def test_clients_of_iceberg_are_told_where_its_catalog_is(client: httpx.Client, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 404
    assert f"Iceberg's catalog is at {client.base_url}/iceberg" in answer.json()["error"]["message"]


def test_large_answers_are_compressed(client: httpx.Client) -> None:
    body = {"explain": True}
    plain = client.post(PLAN, json=body, headers={"Accept-Encoding": "identity"})
    with client.stream("POST", PLAN, json=body, headers={"Accept-Encoding": "gzip"}) as response:
        compressed = b"".join(response.iter_raw())

    assert "content-encoding" not in plain.headers
    assert response.headers["content-encoding"] == "gzip"
    assert int(response.headers["content-length"]) == len(compressed) < len(plain.content)
    assert len(gzip.decompress(compressed)) == pytest.approx(len(plain.content), abs=100)
    assert plain.headers["vary"] == response.headers["vary"] == "Accept, Accept-Encoding"


def test_an_answer_that_the_caller_has_varies_as_the_answer_does(client: httpx.Client) -> None:
    first = client.post(PLAN, json={"explain": True})
    again = client.post(PLAN, json={"explain": True}, headers={"If-None-Match": first.headers["etag"]})

    assert again.status_code == 304
    assert again.headers["vary"] == first.headers["vary"]


def test_a_plan_tells_its_summary_ahead_of_its_files(client: httpx.Client) -> None:
    members = list(client.post(PLAN, json={"explain": True}).json())

    assert max(map(members.index, ("summary", "warnings"))) < members.index("files")


def test_a_get_is_told_of_a_body_for_any_table(client: httpx.Client) -> None:
    detail = client.get(PLAN).json()["detail"]

    assert f"{client.base_url}{PLAN} -d " in detail
    assert '{"filter": "COLUMN = 5"}' in detail


def test_a_service_without_icebergs_catalog_says_how_to_have_one(client: httpx.Client) -> None:
    message = client.get("/iceberg/v1/main/x").json()["error"]["message"]

    assert "this service has no Iceberg catalog, which PAIMON_INDEX_ICEBERG=true switches on" in message


def test_small_answers_are_not(client: httpx.Client) -> None:
    assert "content-encoding" not in client.get("/health/live", headers={"Accept-Encoding": "gzip"}).headers


@pytest.mark.parametrize(
    ("header", "known"),
    [
        ('"abc"', True),
        ('W/"abc"', True),
        ('"x", "abc"', True),
        ("*", True),
        ('"abcd"', False),
        ("abc", False),
        ("", False),
    ],
)
def test_which_tags_are_known(header: str, known: bool) -> None:
    assert etag_matches('W/"abc"', [header]) is known


@pytest.mark.parametrize(
    ("method", "path", "body", "kept"),
    [
        ("GET", "/health/live", None, "no-store"),
        ("GET", "/v1/config", None, "no-store"),
        ("GET", "/nowhere", None, "no-store"),
        ("POST", PLAN, b"{", "no-store"),
        ("POST", PLAN, b"{}", "private, no-cache"),
        ("GET", "/docs", None, "no-store"),
        ("GET", "/docs/swagger-ui.css", None, "private, max-age=3600"),
    ],
)
def test_every_answer_has_them(
    client: httpx.Client, method: str, path: str, body: bytes | None, kept: str
) -> None:
    headers = client.request(method, path, content=body).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers.get_list("cache-control") == [kept]


def test_so_have_streams_and_what_did_not_change(client: httpx.Client) -> None:
    stream = client.post(PLAN, json={}, headers={"Accept": "application/x-ndjson"})
    known = client.post(PLAN, json={}, headers={"If-None-Match": "*"})

    assert known.status_code == 304
    assert known.headers["cache-control"] == stream.headers["cache-control"] == "private, no-cache"


def test_the_documentation_loads_nothing_from_other_hosts(client: httpx.Client) -> None:
    page = client.get("/docs")
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page.text)

    assert "http" not in page.text
    assert {client.get(f"/{place}").status_code for place in loaded if place != "data:,"} == {200}
    assert len(loaded) == 4
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert not re.search(r"https?:|\*", page.headers["content-security-policy"])


def test_the_documentation_shows_this_api(client: httpx.Client) -> None:
    script = client.get("/docs/start.js").text

    assert 'url: "openapi.json"' in script
    assert "SwaggerUIBundle" in client.get("/docs/swagger-ui-bundle.js").text
    assert client.get("/openapi.json").json()["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_null_is_an_absent_member_in_the_schemas_of_bodies_too(client: httpx.Client) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    optional = [
        member
        for name, schema in schemas.items()
        if name.endswith("Body")
        for key, member in schema["properties"].items()
        if key not in schema.get("required", ())
    ]

    assert {"type": "null"} in schemas["EvaluateBody"]["properties"]["explain"]["anyOf"]
    assert all({"type": "null"} in member["anyOf"] for member in optional)


def test_the_schema_of_a_location_allows_urls_alone(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    patterns = {
        parameter["schema"]["pattern"]
        for operations in paths.values()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
        if parameter.get("name") == "location"
    }

    (pattern,) = patterns
    for location, is_url in (("s3://bucket/table", True), ("/data/table", True), ("", False), ("0", False)):
        assert bool(re.search(pattern, location)) is is_url
        status = client.get(
            f"{PLAN.removesuffix('/plan')}/schemas", params={"location": location}
        ).status_code
        assert (status != 400) is is_url


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_json_is_read_as_it_was_written(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value


SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet='a,"[]{}\\: \n€', max_size=8)
)
LARGE = "x" * (1 << 20)
"""In a body with it, lists are read in pieces."""


@given(
    st.lists(SCALAR, min_size=1, max_size=6), st.lists(JSON, max_size=3), st.sampled_from([",", " , ", ",\n"])
)
@examples(15)
def test_long_lists_are_read_as_they_were_written(
    values: list[object], others: list[object], comma: str
) -> None:
    long = values * (100_000 // len(values))
    value = {
        "large": LARGE,
        "a": long,
        "b": {"c": [*long, *others], "d": others},
        "e": [others, *long],
        "f": 5,
    }

    assert read_json(json.dumps(value, separators=(comma, ":")).encode()) == value


@pytest.mark.parametrize(
    "end", [",]", ",,1]", " 2]", "}", "", ',"a]', ",01]", ",1٢]", ',"\n"]', "]]", ",.5]", "]}"]
)
@pytest.mark.parametrize("value", ["1", '"a"'])
def test_what_is_wrong_in_long_lists_has_its_place(value: str, end: str) -> None:
    text = f'{{"large": "{LARGE}", "a": [{",".join([value] * 50_000)}{end}, "b": 1}}'
    with pytest.raises(json.JSONDecodeError) as wrong:
        json.loads(text)

    with pytest.raises(RequestError, match=f"line {wrong.value.lineno}, column {wrong.value.colno} "):
        read_json(text.encode())


@pytest.mark.parametrize("begin", ["[,", "[ ,", "[1,,", "[[],,"])
def test_values_that_are_missing_in_long_lists(begin: str) -> None:
    text = f'{{"large": "{LARGE}", "a": {begin}{",".join(["1"] * 50_000)}]}}'

    with pytest.raises(RequestError, match="a value is missing"):
        read_json(text.encode())


@pytest.mark.parametrize(
    "text",
    ["12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678", "1e400", "1E-400"],
)
def test_numbers_keep_every_digit(text: str) -> None:
    number = read_json(text.encode())

    assert isinstance(number, int | Decimal)
    assert Decimal(number) == Decimal(text)


@pytest.mark.parametrize("text", ["0.1", "1e3", "-0.0", "123456789.25", "1.7976931348623157e308"])
def test_doubles_stay_doubles(text: str) -> None:
    number = read_json(text.encode())

    assert isinstance(number, float)
    assert number == float(text)
    assert math.copysign(1, number) == math.copysign(1, float(text))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{} x", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b"\xff{}", "not UTF-8"),
        (b"NaN", "NaN is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b'["\\ud800"]', "half a surrogate pair"),
        (b'{"\\uDfff": 1}', "half a surrogate pair"),
        (b"[" * 100_000, "nests too deeply"),
        (b'{"a":' * 100_000, "nests too deeply"),
        (b"1" * 5_000, "not JSON"),
        (b"0." + b"1" * 5_000, "a number of 5002 characters"),
        (b"1e99999999999999999999", "exponent"),
    ],
)
def test_what_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        read_json(body)


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert read_json(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


def test_arrays_are_written_as_lists() -> None:
    assert write_json({"ranges": np.array([[1, 2], [3, 4]], np.uint64)}) == b'{"ranges":[[1,2],[3,4]]}'


def test_names_that_are_not_unicode_are_still_written() -> None:
    table = TableRef("w", "caf\udce9", "plain")

    assert json.loads(write_json({"names": [table], "n": 1})) == {
        "names": [{"warehouse": "w", "database": "caf?", "table": "plain", "directory": None}],
        "n": 1,
    }


@pytest.mark.parametrize(
    "value",
    [
        "1",
        "257",
        "1.5",
        '"ab"',
        "[]",
        "{}",
        "[257]",
        '{"a":257}',
        '"€"',
        '"a long text, of words, with commas"',
        "null",
    ],
)
def test_reading_takes_no_more_memory_than_is_claimed(value: str) -> None:
    content = ('{"values":[' + ",".join([value] * 20_000) + "]}").encode()
    tracemalloc.start()
    try:
        read_json(content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak <= memory_of_json(content)
