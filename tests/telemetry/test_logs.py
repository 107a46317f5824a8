import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from app.telemetry.logs import LineFormatter, RepeatedLines, logging_config, redact

QUOTED = "rank_no = 4956 at http://10.1.2.3:9000/bucket"


def failure() -> logging.LogRecord:
    """Return a record of an exception that quotes what it should not, and of the one that led to it."""
    info = None
    try:
        try:
            int(QUOTED)
        except ValueError as error:
            raise RuntimeError(QUOTED) from error
    except RuntimeError:
        info = sys.exc_info()
    return logging.LogRecord("paimon_index", logging.ERROR, "", 0, "request %s failed", ("7",), info)


def written(record: logging.LogRecord, *, with_messages: bool = False) -> dict[str, Any]:
    line = LineFormatter(as_text=False, with_messages=with_messages).format(record)
    assert "\n" not in line
    found: dict[str, Any] = json.loads(line)
    return found


def record_of(message: str, logger: str = "botocore.endpoint") -> logging.LogRecord:
    return logging.LogRecord(logger, logging.WARNING, "", 0, message, (), None)


def test_exceptions_are_told_without_their_messages() -> None:
    found = written(failure())

    assert found["event"] == "request 7 failed"
    lines = found["exception"].splitlines()
    assert [line for line in lines if not line.startswith("  ")] == [
        "ValueError",
        "which led to:",
        "RuntimeError",
    ]
    assert "test_logs.py" in lines[0]


def test_messages_of_exceptions_are_told_where_everything_is() -> None:
    told = written(failure(), with_messages=True)["exception"]

    assert "RuntimeError: rank_no = 4956 at http://…" in told
    assert "10.1.2.3" not in told


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ('Could not connect to the endpoint URL: "http://10.1.2.3:9000/b?x=1"', 'endpoint URL: "http://…"'),
        ("cannot list s3://bucket/warehouse/db.db: denied", "cannot list s3://… denied"),
        ("Cannot connect to host 10.1.2.3:9000 ssl:default", "Cannot connect to host … ssl:default"),
        ("HTTPSConnectionPool(host='store.internal', port=443)", "(host='…', port=443)"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer …"),
    ],
)
def test_places_of_storage_and_tokens_are_never_told(message: str, told: str) -> None:
    assert told in written(record_of(message))["event"]
    assert redact(redact(message)) == redact(message)


def test_where_the_service_listens_is_told() -> None:
    record = record_of("Uvicorn running on http://127.0.0.1:8080", "uvicorn.error")

    assert written(record)["event"] == "Uvicorn running on http://127.0.0.1:8080"


def test_text_that_is_no_unicode_is_written() -> None:
    assert written(record_of("caf\udce9"))["event"] == "caf\udce9"


def test_text_forms_no_second_line() -> None:
    formatter = LineFormatter(as_text=True, with_messages=False)

    forged = formatter.format(record_of("a\n2026-01-01 [info] forged\x1b[2J\u2028\u202e"))
    traced = formatter.format(failure())

    assert forged.isprintable()
    assert "a\\n2026-01-01" in forged
    # What follows the first line is set in, so that it can be taken for no other.
    assert all(line.startswith("  ") for line in traced.splitlines()[1:])


def test_libraries_are_not_heard_below_warnings() -> None:
    config = logging_config("json", "debug")

    assert config["root"]["level"] == "WARNING"
    assert {name: logger["level"] for name, logger in config["loggers"].items()} == {
        "app": "DEBUG",
        "paimon_index": "DEBUG",
        "uvicorn": "DEBUG",
    }


def test_what_is_not_asked_for_is_not_imported() -> None:
    program = (
        "import sys; from app.telemetry.service import start_tracing;"
        "assert start_tracing() is None;"
        "sys.exit(any(name.split('.')[0] in ('opentelemetry', 'rich') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0  # noqa: S603


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize(
    "separator", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029"]
)
def test_nothing_that_somebody_chose_begins_another_line(separator: str, *, as_text: bool) -> None:
    line = LineFormatter(as_text=as_text, with_messages=True).format(record_of(f"one{separator}two"))

    assert len(line.splitlines()) == 1
    if not as_text:
        assert json.loads(line)["event"] == f"one{separator}two"


@pytest.mark.parametrize("separator", ["\r", "\x1c", "\x85", "\u2028", "\u2029"])
def test_nothing_that_an_exception_quotes_begins_another_line(separator: str) -> None:
    info = (RuntimeError, RuntimeError(f"one{separator}two"), None)
    record = logging.LogRecord("paimon_index", logging.ERROR, "", 0, "failed", (), info)

    lines = LineFormatter(as_text=True, with_messages=True).format(record).splitlines()

    assert len(lines) == 2


@pytest.fixture
def lines() -> RepeatedLines:
    return RepeatedLines()


def repeated(text: str, created: float = 0.0) -> logging.LogRecord:
    found = logging.LogRecord("asyncio", logging.ERROR, "", 0, text, (), None)
    found.created = created
    return found


def test_the_same_text_is_told_five_times_in_a_while(lines: RepeatedLines) -> None:
    told = [lines.filter(repeated("out of descriptors")) for _ in range(8)]

    assert told == [True] * 5 + [False] * 3
    assert lines.filter(repeated("something else"))


def test_the_next_line_says_how_many_were_left_out(lines: RepeatedLines) -> None:
    for _ in range(8):
        lines.filter(repeated("out of descriptors"))
    later = repeated("out of descriptors", created=20.0)

    assert lines.filter(later)
    assert later.getMessage() == "out of descriptors (3 lines like this were suppressed)"


def test_texts_that_nobody_repeats_are_forgotten(lines: RepeatedLines) -> None:
    for number in range(10_000):
        assert lines.filter(repeated(f"text {number}"))

    assert lines.texts <= 1_000


def test_lines_of_requests_are_never_left_out(lines: RepeatedLines) -> None:
    request = repeated("request")
    request.members = {"status": 200}

    assert all(lines.filter(request) for _ in range(100))
