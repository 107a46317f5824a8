from __future__ import annotations

import base64
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.paging import PageToken, VersionKey, Window
from app.errors import PageTokenError

VERSION = VersionKey(b"0123456789abcdef", 7, 2)
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


@pytest.mark.parametrize("version", [VERSION, VersionKey(b"0123456789abcdef", None, 0)])
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
