"""An answer that ends early is an error, wherever it was cut; never a smaller answer."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise

import httpx
import pytest

from paimon_index import AsyncClient, Client, IncompleteAnswerError
from paimon_index.arrow_stream import ArrowStream
from paimon_index.requests import ARROW
from tests.client.scripted import Answer, ScriptedServer

TABLE = "main.golden.append_partitioned"
HEADERS = {"Content-Type": ARROW}


@pytest.fixture(scope="module")
def stream(url: str) -> bytes:
    """A plan of 36 files."""
    path = f"{url}/v1/main/databases/golden/tables/append_partitioned/plan"
    return httpx.post(path, json={"explain": True}, headers={"Accept": ARROW}).raise_for_status().content


def fed(pieces: list[bytes]) -> int:
    """Rows of a stream in pieces."""
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

    with Client(scripted.url) as client, pytest.raises(IncompleteAnswerError, match="36 files and 0 came"):
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
