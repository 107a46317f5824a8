"""What is the same for every request: ids, compression, connections."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

import pytest

from app.api.compression import CODINGS, preferred_coding
from app.api.versioned import is_known

if TYPE_CHECKING:
    import httpx

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


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", None),
        ("identity", None),
        ("gzip", "gzip"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("GZIP;q=1.0, zstd; q=0.5", "gzip"),
        ("zstd;q=0, gzip", "gzip"),
        ("gzip;q=0, zstd;q=0", None),
        ("*", "zstd"),
        ("*;q=0", None),
        ("identity, gzip;q=0.5", None),
        ("br", None),
        ("gzip;q=much", None),
        (";;;,,,", None),
    ],
)
def test_the_coding_that_a_caller_likes_best(accepted: str, coding: str | None) -> None:
    assert preferred_coding(accepted) == coding


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


def test_small_answers_are_not(client: httpx.Client) -> None:
    assert "content-encoding" not in client.get("/health/live", headers={"Accept-Encoding": "zstd"}).headers


@pytest.mark.parametrize(
    ("header", "known"),
    [
        ('"abc"', True),
        ('W/"abc"', True),
        ('"x", "abc"', True),
        *((f'"abc-{coding}"', True) for coding in CODINGS),
        ("*", True),
        ('"abcd"', False),
        ("abc", False),
        ("", False),
    ],
)
def test_which_tags_are_known(header: str, known: bool) -> None:  # noqa: FBT001 - an expected value
    assert is_known('"abc"', [header]) is known
