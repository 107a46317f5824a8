"""What is said again and again is said a few times."""

from __future__ import annotations

import logging

import pytest

from app.telemetry.repeated_lines import RepeatedLines


@pytest.fixture
def lines() -> RepeatedLines:
    return RepeatedLines()


def record(text: str, created: float = 0.0) -> logging.LogRecord:
    found = logging.LogRecord("asyncio", logging.ERROR, "", 0, text, (), None)
    found.created = created
    return found


def test_the_same_text_is_told_five_times_in_a_while(lines: RepeatedLines) -> None:
    told = [lines.filter(record("out of descriptors")) for _ in range(8)]

    assert told == [True] * 5 + [False] * 3
    assert lines.filter(record("something else"))


def test_the_next_line_says_how_many_were_left_out(lines: RepeatedLines) -> None:
    for _ in range(8):
        lines.filter(record("out of descriptors"))
    later = record("out of descriptors", created=20.0)

    assert lines.filter(later)
    assert later.getMessage() == "out of descriptors (3 lines like this were left out)"


def test_texts_that_nobody_repeats_are_forgotten(lines: RepeatedLines) -> None:
    for number in range(10_000):
        assert lines.filter(record(f"text {number}"))

    assert lines.texts <= 1_000


def test_lines_of_requests_are_never_left_out(lines: RepeatedLines) -> None:
    request = record("request")
    request.members = {"status": 200}

    assert all(lines.filter(request) for _ in range(100))
