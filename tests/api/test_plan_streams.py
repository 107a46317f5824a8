"""Plans as Arrow and NDJSON streams: all files of the JSON answer, and an end that tells so."""

import base64
import gzip
import json
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from app.api.http.headers import PlanFormat, preferred_format
from tests import golden_cases
from tests.api.conftest import Serve
from tests.examples import share
from tests.golden_checks import for_each

TABLES = "/v1/main/databases/golden/tables"
PLAN = f"{TABLES}/append_dv32/plan"
ARROW = {"Accept": PlanFormat.ARROW.value}
LINES = {"Accept": PlanFormat.LINES.value}
TOLD_OF_THE_WHOLE = {"summary", "snapshot_id", "schema_id", "warnings", "unknown_files"}


def whole(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert answer["next_page_token"] is None
    return answer


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == PlanFormat.LINES
    assert response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


def arrow(response: httpx.Response) -> tuple[list[dict[str, Any]], pa.Schema]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == PlanFormat.ARROW
    with pa.ipc.open_stream(response.content) as reader:
        return reader.read_all().to_pylist(), reader.schema


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", PlanFormat.JSON),
        ("*/*", PlanFormat.JSON),
        ("application/*", PlanFormat.JSON),
        ("text/html", PlanFormat.JSON),
        ("application/x-ndjson", PlanFormat.LINES),
        ("Application/X-NDJSON; charset=utf-8", PlanFormat.LINES),
        ("application/vnd.apache.arrow.stream", PlanFormat.ARROW),
        ("application/vnd.apache.arrow.stream, */*;q=0.1", PlanFormat.ARROW),
        ("application/json;q=0.4, application/x-ndjson;q=0.5", PlanFormat.LINES),
        ("application/json;q=0, application/*;q=0.1", PlanFormat.LINES),
        ("application/x-ndjson;q=0", PlanFormat.JSON),
        ("application/x-ndjson;q=lots, application/vnd.apache.arrow.stream ; q = 0.2", PlanFormat.ARROW),
        ("application/x-ndjson, application/vnd.apache.arrow.stream", PlanFormat.LINES),
    ],
)
def test_the_format_that_a_caller_likes_best(accept: str, chosen: PlanFormat) -> None:
    assert preferred_format(accept) is chosen


@for_each("table", share(golden_cases.tables(), 2))
def test_streams_hold_the_files_of_the_json_answer(client: httpx.Client, table: str) -> None:
    path = f"{TABLES}/{table}/plan"
    answer = whole(client, path, {})

    *files, end = lines(client.post(path, json={}, headers=LINES))
    rows, schema = arrow(client.post(path, json={}, headers=ARROW))

    assert files == answer["files"]
    assert {name: end[name] for name in TOLD_OF_THE_WHOLE} == {
        name: json.loads(schema.metadata[name.encode()]) for name in TOLD_OF_THE_WHOLE
    }
    assert {name: answer[name] for name in TOLD_OF_THE_WHOLE}.items() <= end.items()
    assert end["timings_ms"].keys() == {"resolve", "load", "evaluate", "encode"}
    for row, file in zip(rows, answer["files"], strict=True):
        assert row.keys() == file.keys()
        selection = None if file["selection"] is None else base64.b64decode(file["selection"])
        assert row["selection"] == selection
        same = row.keys() - {"selection", "partition"}
        assert {name: row[name] for name in same} == {name: file[name] for name in same}
        assert (row["partition"] or {}).keys() == file["partition"].keys()


def test_a_plan_without_files_is_a_stream_with_an_end(client: httpx.Client) -> None:
    body = {"filter": "score IS NULL AND score > 0"}

    (end,) = lines(client.post(PLAN, json=body, headers=LINES))
    rows, schema = arrow(client.post(PLAN, json=body, headers=ARROW))

    assert (rows, end["summary"]["files_kept"]) == ([], 0)
    assert json.loads(schema.metadata[b"summary"]) == end["summary"]


def test_a_stream_is_whole_where_json_has_pages(serve: Serve) -> None:
    with serve(page_size=1) as client:
        kept = client.post(PLAN, json={}).json()["summary"]["files_kept"]
        *files, _ = lines(client.post(PLAN, json={}, headers=LINES))
        rows, _schema = arrow(client.post(PLAN, json={}, headers=ARROW))

    assert kept > 1
    assert len(files) == len(rows) == kept


@pytest.mark.parametrize("headers", [ARROW, LINES])
@pytest.mark.parametrize("page", [{"page_size": 1}, {"page_token": "x"}])
def test_streams_have_no_pages(client: httpx.Client, headers: dict[str, str], page: dict[str, Any]) -> None:
    response = client.post(PLAN, json=page, headers=headers)

    assert response.status_code == 400
    assert "omit page_size and page_token" in response.json()["detail"]


def test_skipped_files_follow_the_kept_ones_where_decisions_are_explained(client: httpx.Client) -> None:
    body = {"filter": "score = 1090.75", "explain": True}
    answer = whole(client, PLAN, body)

    *files, _ = lines(client.post(PLAN, json=body, headers=LINES))
    rows, _schema = arrow(client.post(PLAN, json=body, headers=ARROW))

    kept = [{**file, "skipped": False} for file in answer["files"]]
    skipped = [{**file, "skipped": True} for file in answer["skipped_files"]]
    assert kept
    assert skipped
    assert files == kept + skipped
    assert [row["skipped"] for row in rows] == [file["skipped"] for file in files]
    assert [row["explain"] for row in rows] == [file["explain"] for file in files]
    assert [row["selected_rows"] for row in rows] == [file.get("selected_rows") for file in files]


@pytest.mark.parametrize("form", ["ranges", "positions"])
def test_rows_in_arrow_are_packed_numbers(client: httpx.Client, form: str) -> None:
    body = {"filter": "score = 1090.75 OR score < 60", "selection": form}
    files = whole(client, PLAN, body)["files"]

    rows, _schema = arrow(client.post(PLAN, json=body, headers=ARROW))

    shape = (-1, 2) if form == "ranges" else (-1,)
    unpacked = [
        None if row["selection"] is None else np.frombuffer(row["selection"], "<u8").reshape(shape).tolist()
        for row in rows
    ]
    assert any(unpacked)
    assert unpacked == [file["selection"] for file in files]


@pytest.mark.parametrize("form", ["none", "count"])
def test_rows_that_nobody_asked_for_are_null_in_arrow(client: httpx.Client, form: str) -> None:
    rows, schema = arrow(client.post(PLAN, json={"selection": form}, headers=ARROW))

    assert schema.field("selection").type == pa.binary()
    assert {row["selection"] for row in rows} == {None}


@pytest.mark.parametrize("headers", [{}, ARROW, LINES])
@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_every_representation_has_a_tag_of_its_own(
    client: httpx.Client, headers: dict[str, str], coding: str
) -> None:
    asked = {**headers, "Accept-Encoding": coding}
    response = client.post(PLAN, json={}, headers=asked)
    etag = response.headers["etag"]

    again = client.post(PLAN, json={}, headers={**asked, "If-None-Match": etag})
    others = [
        client.post(PLAN, json={}, headers={**other, "If-None-Match": etag})
        for other in ({}, ARROW, LINES)
        if other != headers
    ]

    assert (again.status_code, again.content) == (304, b"")
    assert [other.status_code for other in others] == [200, 200]
    assert response.headers["vary"] == "Accept, Accept-Encoding"


@pytest.mark.parametrize("headers", [ARROW, LINES])
def test_streams_are_compressed(client: httpx.Client, headers: dict[str, str]) -> None:
    plain = client.post(PLAN, json={}, headers={**headers, "Accept-Encoding": "identity"})
    asked = {**headers, "Accept-Encoding": "gzip"}
    with client.stream("POST", PLAN, json={}, headers=asked) as response:
        compressed = b"".join(response.iter_raw())

    decompressed = gzip.decompress(compressed)
    assert "content-encoding" not in plain.headers
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["etag"] == plain.headers["etag"]
    # The time that a plan took is told, too.
    assert len(decompressed) == pytest.approx(len(plain.content), abs=100)


@pytest.mark.parametrize("headers", [ARROW, LINES])
@pytest.mark.parametrize(
    ("body", "status"), [({"filter": "no_such_column = 1"}, 422), ({"snapshot_id": 10_000}, 404)]
)
def test_what_goes_wrong_before_the_first_piece_is_a_problem(
    client: httpx.Client, headers: dict[str, str], body: dict[str, Any], status: int
) -> None:
    response = client.post(PLAN, json=body, headers=headers)

    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
