"""The service's log: one line per event, as JSON, or as text for a terminal.

Lines of libraries, including uvicorn, take the same form. Text from callers or storage cannot break a line in
two. Locations of storage and tokens are always omitted. Messages of exceptions, which may quote a filter's
literals, appear only at the level ``debug``. Repeated lines are dropped after a few, and counted in a later
one, so that they cannot fill a disk.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import orjson
from typing_extensions import override

from app.settings import LogFormat, LogLevel

# Loggers that follow the configured level; debug lines of storage libraries would reveal credentials.
_OWN_LOGGERS: Final = ("app", "paimon_index", "uvicorn")

# uvicorn logs the address that it listens on, which is not secret.
_LOGS_ADDRESSES: Final = "uvicorn"
_SECRET: Final = re.compile(
    r"(?P<url>\b[a-z][a-z0-9+.-]*://)[^\s'\"<>]+"
    r"|(?P<host>\bhost[ =]['\"]?)[^\s'\",)]+"
    r"|(?P<token>\bbearer )\S+",
    re.IGNORECASE,
)

_SEPARATING: Final = frozenset(" ='\"\\")

_REPEAT_SECONDS: Final = 10.0
_REPEATS: Final = 5
_MAX_TEXTS: Final = 1_000

# Characters that JSON leaves alone, but some programs take for line breaks or terminal commands.
_INVISIBLE: Final = re.compile("[\x80-\x9f\u2028\u2029]")


def logging_config(log_format: LogFormat, level: LogLevel) -> dict[str, Any]:
    """Configure logging, for :func:`logging.config.dictConfig` and uvicorn. Lines go to standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "lines": {
                "()": LineFormatter,
                "as_text": log_format == "text" or (log_format == "auto" and sys.stderr.isatty()),
                "with_messages": level == "debug",
            }
        },
        "filters": {"repeated": {"()": RepeatedLines}},
        "handlers": {
            "lines": {
                "class": "logging.StreamHandler",
                "filters": ["repeated"],
                "formatter": "lines",
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"handlers": ["lines"], "level": "WARNING"},
        "loggers": {name: {"level": level.upper()} for name in _OWN_LOGGERS},
    }


def event_record(logger: str, level: int, event: str, members: Mapping[str, Any]) -> logging.LogRecord:
    """Make a record of an event, for :meth:`logging.Logger.handle`."""
    # A logger would search for the calling line, which takes several times as long, for each request.
    record = logging.LogRecord(logger, level, "", 0, event, None, None)
    record.members = members
    return record


class LineFormatter(logging.Formatter):
    """Formats records, with members (:func:`event_record`) or with a text alone.

    ``as_text``: formats readable text instead of JSON. ``with_messages``: includes exceptions' messages.
    """

    def __init__(self, *, as_text: bool, with_messages: bool) -> None:
        super().__init__()
        self._write = _to_text if as_text else _to_json
        self._with_messages = with_messages

    @override
    def format(self, record: logging.LogRecord) -> str:
        members: Mapping[str, Any] | None = record.__dict__.get("members")
        event: dict[str, Any] = {
            "timestamp": dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if members is not None:
            event |= {"event": record.msg, **members}
        else:
            text = record.getMessage()
            event["event"] = text if record.name.startswith(_LOGS_ADDRESSES) else redact(text)
        if record.exc_info and record.exc_info[1] is not None:
            event["exception"] = "".join(_chain_lines(record.exc_info[1], with_messages=self._with_messages))
        return self._write(event)


def redact(text: str) -> str:
    """Remove locations of storage and tokens from a text."""
    return _SECRET.sub(lambda match: f"{match['url'] or match['host'] or match['token']}…", text)


def _chain_lines(error: BaseException, *, with_messages: bool) -> Iterator[str]:
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _chain_lines(before, with_messages=with_messages)
        yield "which led to:\n"
    yield from _places(error.__traceback__)
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    yield f"{name}: {redact(str(error))}\n" if with_messages else f"{name}\n"


def _places(trace: TracebackType | None) -> Iterator[str]:
    while trace is not None:
        code = trace.tb_frame.f_code
        yield f"  {code.co_filename}:{trace.tb_lineno} in {code.co_qualname}\n"
        trace = trace.tb_next


def _to_json(event: Mapping[str, Any]) -> str:
    try:
        line = orjson.dumps(event, default=str).decode()
        return line if line.isascii() else _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", line)
    except TypeError:
        # Text with lone surrogates, such as a file name that is not UTF-8.
        return json.dumps(event, default=str)


def _to_text(event: dict[str, Any]) -> str:
    """Format a line as readable text. No text can begin another line or move a terminal's cursor."""
    head = [event.pop(name) for name in ("timestamp", "level", "logger", "event")]
    trace = event.pop("exception", "").rstrip("\n")
    members = "".join(f" {name}={_shown(value)}" for name, value in event.items())
    line = "{} {:8} {}: {}".format(*map(_printable, head)) + members
    return "\n".join((line, *(f"  {_printable(text)}" for text in trace.split("\n") if text)))


def _shown(value: object) -> str:
    if not isinstance(value, str):
        return _printable(repr(value))
    text = _printable(value)
    return repr(text) if _SEPARATING.intersection(text) else text


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


@dataclass(slots=True)
class _Repeats:
    """Number of times that a text was logged since a time, in seconds since 1970."""

    since: float
    times: int = 0


class RepeatedLines(logging.Filter):
    """Drops texts that were logged often within the last seconds. Passes events with members."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._repeats: dict[tuple[str, str], _Repeats] = {}

    @property
    def texts(self) -> int:
        """Number of texts remembered."""
        return len(self._repeats)

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if not isinstance(record.msg, str) or hasattr(record, "members"):
            return True
        text = record.getMessage()
        with self._lock:
            repeats = self._repeats.get((record.name, text))
            if repeats is None or record.created - repeats.since >= _REPEAT_SECONDS:
                left_out = 0 if repeats is None else max(0, repeats.times - _REPEATS)
                if len(self._repeats) >= _MAX_TEXTS:
                    self._forget(record.created)
                repeats = self._repeats[record.name, text] = _Repeats(record.created)
                if left_out:
                    record.msg, record.args = f"{text} ({left_out} lines like this were suppressed)", ()
            repeats.times += 1
            return repeats.times <= _REPEATS

    def _forget(self, now: float) -> None:
        recent = {key: value for key, value in self._repeats.items() if now - value.since < _REPEAT_SECONDS}
        self._repeats = recent if len(recent) < _MAX_TEXTS else {}
