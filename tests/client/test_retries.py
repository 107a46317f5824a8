"""Who is asked again, when, and what is raised in the end."""

import asyncio
import json
import logging
import random
import struct
import time
from email.utils import formatdate
from itertools import pairwise
from typing import Any

import httpx
import pytest

from paimon_index import (
    AsyncClient,
    Client,
    DeadlineError,
    IncompleteAnswerError,
    PaimonIndexError,
    ServiceError,
    ServiceUnavailableError,
    UnavailableError,
)
from paimon_index.arrow_stream import ArrowStream
from paimon_index.attempts import Replicas
from paimon_index.requests import ARROW
from tests.client.scripted import READY, Answer, ScriptedServer, nowhere, problem

SECRET = "of-the-caller"  # noqa: S105 - of a server of the test


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_asked_again(scripted: ScriptedServer, status: int) -> None:
    scripted.answers = [problem(status, "busy"), problem(status, "busy"), READY]

    with Client(scripted.url) as client:
        assert client.ready().status == "ready"

    assert len(scripted.requests) == 3


def test_the_asynchronous_client_asks_again_too(scripted: ScriptedServer) -> None:
    scripted.answers = [problem(503, "busy"), READY]

    async def ask() -> str:
        async with AsyncClient(scripted.url) as client:
            return (await client.ready()).status

    assert asyncio.run(ask()) == "ready"
    assert len(scripted.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 424, 500, 504])
def test_other_problems_are_final(scripted: ScriptedServer, status: int) -> None:
    scripted.answers = [
        problem(status, "kind", column="c", position=3, path="p", offset=4, limit=5, instance="id")
    ]

    with Client(scripted.url) as client, pytest.raises(ServiceError, match=f"{status} kind: told") as raised:
        client.ready()

    told = raised.value.problem
    assert (told.column, told.position, told.path, told.offset, told.limit) == ("c", 3, "p", 4, 5)
    assert (told.slug, told.status, told.detail, told.request_id) == ("kind", status, "told", "id")
    assert isinstance(raised.value, UnavailableError) == (status == 504)
    assert len(scripted.requests) == 1


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"", b'{"detail": null}'])
def test_answers_of_proxies_are_problems_too(scripted: ScriptedServer, body: bytes) -> None:
    scripted.answers = [Answer(502, body)]

    with Client(scripted.url) as client, pytest.raises(ServiceError, match="check the base URL") as raised:
        client.ready()

    assert raised.value.problem.slug == "http-502"


def test_one_deadline_is_for_all_pages(scripted: ScriptedServer) -> None:
    page = {"index_files": [], "snapshot_id": 1, "schema_id": 0, "warnings": [], "next_page_token": "more"}
    scripted.answers = [Answer(body=json.dumps(page).encode())]

    async def ask() -> None:
        async with AsyncClient(scripted.url, deadline_seconds=0.2) as client:
            await client.index_files("main.db.t")

    with Client(scripted.url, deadline_seconds=0.2) as client, pytest.raises(DeadlineError):
        client.index_files("main.db.t")
    with pytest.raises(DeadlineError):
        asyncio.run(ask())

    assert len(scripted.requests) > 2


def test_no_more_than_the_beginning_of_an_error_is_read(scripted: ScriptedServer) -> None:
    scripted.answers = [Answer(500, b"x" * (1 << 20), announced=1 << 40)]

    async def ask() -> None:
        async with AsyncClient(scripted.url) as client:
            await client.ready()

    with Client(scripted.url) as client, pytest.raises(ServiceError, match="http-500"):
        client.ready()
    with pytest.raises(ServiceError, match="http-500"):
        asyncio.run(ask())


def test_retries_end(scripted: ScriptedServer) -> None:
    scripted.answers = [problem(503, "not-ready")]

    with Client(scripted.url, retries=2) as client, pytest.raises(ServiceUnavailableError, match="not-ready"):
        client.ready()

    assert len(scripted.requests) == 3


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(scripted: ScriptedServer, form: str) -> None:
    after = "1" if form == "seconds" else formatdate(time.time() + 2, usegmt=True)
    scripted.answers = [problem(429, "busy", {"Retry-After": after}), READY]

    began = time.monotonic()
    with Client(scripted.url) as client:
        client.ready()

    assert time.monotonic() - began >= 0.9


def test_a_pause_beyond_the_deadline_is_not_made(scripted: ScriptedServer) -> None:
    scripted.answers = [problem(429, "busy", {"Retry-After": "3600"})]

    with Client(scripted.url, deadline_seconds=60) as client, pytest.raises(ServiceUnavailableError):
        client.ready()

    assert len(scripted.requests) == 1


def test_no_answer_in_time(scripted: ScriptedServer) -> None:
    scripted.answers = [Answer(silent=True)]

    with Client(scripted.url, deadline_seconds=0.2) as client, pytest.raises(DeadlineError, match=r"0\.2 s"):
        client.ready()


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(scripted: ScriptedServer) -> None:
    scripted.answers = [Answer(dripping=True)]

    async def ask() -> None:
        async with AsyncClient(scripted.url, deadline_seconds=0.1) as client:
            await client.ready()

    with Client(scripted.url, deadline_seconds=0.1) as client:
        for call in (client.ready, lambda: client.plan("main.db.t")):
            with pytest.raises(DeadlineError, match=r"0\.1 s"):
                call()
    with pytest.raises(DeadlineError, match=r"0\.1 s"):
        asyncio.run(ask())


@pytest.mark.parametrize("status", [200, 500])
def test_json_that_nests_too_deeply_is_an_error_of_the_client(scripted: ScriptedServer, status: int) -> None:
    scripted.answers = [Answer(status, b"[" * 1_000_000)]

    with Client(scripted.url) as client, pytest.raises(PaimonIndexError):
        client.ready()


def test_no_plan_announces_gigabytes_of_metadata(scripted: ScriptedServer) -> None:
    scripted.answers = [Answer(body=struct.pack("<ii", -1, (1 << 31) - 1), announced=1 << 40)]

    with (
        Client(scripted.url) as client,
        pytest.raises(IncompleteAnswerError, match="2147483647 bytes of Arrow"),
    ):
        client.plan("main.db.t")


def test_nobody_listens() -> None:
    with Client(nowhere(), retries=1) as client, pytest.raises(UnavailableError, match="cannot be reached"):
        client.ready()


def test_the_next_base_url_stands_in_at_once(scripted: ScriptedServer) -> None:
    with Client([nowhere(), scripted.url], retries=0) as client:
        for table in range(20):
            client.tables("main", f"database{table}") if scripted.answers != [READY] else client.ready()

    assert len(scripted.requests) == 20


def test_a_table_is_asked_of_one_base_url(scripted: ScriptedServer, other: ScriptedServer) -> None:
    for server in (scripted, other):
        server.answers = [Answer(body=b'{"branches": []}')]

    with Client([scripted.url, other.url]) as client, Client([other.url, scripted.url]) as same:
        for asking in (client, same):
            for table in range(30):
                asking.branches(f"main.db.table{table}")

    asked = [{path for path, _ in server.requests} for server in (scripted, other)]
    assert asked[0].isdisjoint(asked[1])
    assert all(len(paths) >= 5 for paths in asked)


def test_a_base_url_that_is_down_is_asked_last(scripted: ScriptedServer, other: ScriptedServer) -> None:
    scripted.answers = [problem(503, "not-ready")]

    with Client([scripted.url, other.url]) as client:
        for _ in range(5):
            assert client.ready().status == "ready"

    assert len(scripted.requests) <= 1
    assert len(other.requests) == 5


def test_a_busy_base_url_keeps_its_tables(scripted: ScriptedServer, other: ScriptedServer) -> None:
    first, second = (
        (scripted, other)
        if Replicas([scripted.url, other.url]).in_order("/health/ready")[0] == scripted.url
        else (other, scripted)
    )
    first.answers = [problem(429, "busy"), READY]

    with Client([scripted.url, other.url]) as client:
        client.ready()

    assert (len(first.requests), len(second.requests)) == (2, 0)


@pytest.mark.parametrize("end", ["\n", "\0", "é"])
def test_a_token_that_no_header_may_have_is_refused_and_told_nowhere(end: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="the token has characters") as raised:
            kind("http://localhost", token=SECRET + end)
        assert SECRET not in str(raised.value)


def test_the_token_is_sent_and_told_nowhere(
    scripted: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    scripted.answers = [READY, problem(401, "unauthorized")]

    with Client([nowhere(), scripted.url], token=SECRET) as client:
        client.ready()
        with pytest.raises(ServiceError) as raised:
            client.ready()
        shown = [repr(client), str(raised.value), repr(raised.value), repr(vars(raised.value)), caplog.text]

    assert scripted.requests[0][1]["Authorization"] == f"Bearer {SECRET}"
    assert caplog.text
    assert not any(SECRET in text for text in shown)


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "ftp://host", "http://", "http://host?x=1", "http://host/#a"]
)
def test_what_is_no_base_url(url: str) -> None:
    with pytest.raises(ValueError, match="is not a base URL"):
        Client(url)


def test_a_password_in_a_base_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="token=") as raised:
        Client("http://user:pa55@host")

    assert "pa55" not in str(raised.value)


def test_at_least_one_base_url_and_a_deadline() -> None:
    with pytest.raises(ValueError, match="no base URL"):
        Client([])
    with pytest.raises(ValueError, match="deadline_seconds is a number of seconds above 0, found 0"):
        Client("http://host", deadline_seconds=0)
    with pytest.raises(ValueError, match="retries is at least 0, found -1"):
        Client("http://host", retries=-1)


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ({"base_urls": None}, "found None"),
        ({"base_urls": [8080]}, "found 8080"),
        ({"deadline_seconds": "5"}, "deadline_seconds is a number of seconds, found '5'"),
        ({"token": 5}, "the token is a text, found int"),
    ],
)
def test_arguments_of_other_types_say_what_to_pass(given: dict[str, Any], remedy: str) -> None:
    with pytest.raises(TypeError, match=remedy):
        Client(**{"base_urls": "http://host", **given})


def test_a_table_is_named_by_a_text() -> None:
    with Client("http://host") as client, pytest.raises(TypeError, match="found NoneType"):
        client.describe(None)  # type: ignore[arg-type] # what a caller without types may pass


TABLE = "main.golden.append_partitioned"
HEADERS = {"Content-Type": ARROW}


@pytest.fixture(scope="module")
def stream(url: str) -> bytes:
    path = f"{url}/v1/main/databases/golden/tables/append_partitioned/plan"
    return (
        httpx.post(path, json={"explain": True}, headers={"Accept": ARROW}, timeout=120)
        .raise_for_status()
        .content
    )


def fed(pieces: list[bytes]) -> int:
    reader = ArrowStream()
    rows: int = sum(batch.num_rows for piece in pieces for batch in reader.feed(piece))
    reader.check_ended()
    return rows


def test_pieces_of_any_size(stream: bytes) -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    for longest in (1, 7, 100, 5000, len(stream)):
        cuts = [0]
        while cuts[-1] < len(stream):
            cuts.append(cuts[-1] + chance.randint(1, longest))
        pieces = [stream[start:end] for start, end in pairwise(cuts)]
        assert fed(pieces) == 36


def test_a_stream_that_ends_early(stream: bytes) -> None:
    for end in (*range(0, len(stream), 41), *range(len(stream) - 16, len(stream))):
        reader = ArrowStream()
        list(reader.feed(stream[:end]))
        with pytest.raises(IncompleteAnswerError, match="ended early"):
            reader.check_ended()


@pytest.mark.parametrize("more", [b"x", b"\xff\xff\xff\xff\x00\x00\x00\x00"])
def test_bytes_behind_the_end(stream: bytes, more: bytes) -> None:
    with pytest.raises(IncompleteAnswerError):
        fed([stream + more])


def test_what_is_no_stream(stream: bytes) -> None:
    for wrong in (
        b"<html>....",
        b'{"files": []}',
        b"\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\xff" * 64,
        stream[8:],
    ):
        with pytest.raises(IncompleteAnswerError):
            fed([wrong])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("announced", [True, False])
def test_a_cut_body(scripted: ScriptedServer, stream: bytes, share: float, *, announced: bool) -> None:
    """HTTP tells of a cut if the length was announced; else the stream's missing end does."""
    cut = stream[: int(len(stream) * share)]
    scripted.answers = [Answer(body=cut, headers=HEADERS, announced=len(stream) if announced else len(cut))]

    with Client(scripted.url) as client, pytest.raises(IncompleteAnswerError):
        client.plan(TABLE).to_arrow()

    async def ask() -> None:
        async with AsyncClient(scripted.url) as client:
            await (await client.plan(TABLE)).to_arrow()

    with pytest.raises(IncompleteAnswerError):
        asyncio.run(ask())


def test_fewer_files_than_the_plan_has(scripted: ScriptedServer, stream: bytes) -> None:
    reader = ArrowStream()
    list(reader.feed(stream))
    schema = reader.schema
    assert schema is not None
    without_files = schema.serialize().to_pybytes() + b"\xff\xff\xff\xff\x00\x00\x00\x00"
    scripted.answers = [Answer(body=without_files, headers=HEADERS)]

    with Client(scripted.url) as client, pytest.raises(IncompleteAnswerError, match="36 files and 0 arrived"):
        client.plan(TABLE).to_arrow()


def test_an_answer_in_json_that_is_cut(scripted: ScriptedServer) -> None:
    scripted.answers = [Answer(body=b'{"status": "re', announced=100)]
    with Client(scripted.url) as client, pytest.raises(IncompleteAnswerError, match="was cut"):
        client.ready()


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"7", b"{}", b"\xff"])
def test_an_answer_of_something_else(scripted: ScriptedServer, body: bytes) -> None:
    scripted.answers = [Answer(body=body)]
    with Client(scripted.url) as client:
        with pytest.raises(IncompleteAnswerError):
            client.ready()
        with pytest.raises(IncompleteAnswerError):
            client.databases("main")
        with pytest.raises(IncompleteAnswerError):
            client.plan(TABLE)
