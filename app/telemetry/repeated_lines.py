"""Leaves out log lines that say the same again and again, so that nobody can fill a disk with them.

A text is told a few times in a while; the next line with it after that says how many were left out. Events
with members, such as the lines of requests, are not looked at.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Final

_SECONDS: Final = 10.0
_TIMES: Final = 5
_MOST_TEXTS: Final = 1_000


@dataclass(slots=True)
class _Told:
    """How often a text was logged since a time; in seconds since 1970, as the records tell it."""

    since: float
    times: int = 0


class RepeatedLines(logging.Filter):
    """Keeps back what was told often enough lately."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._told: dict[tuple[str, str], _Told] = {}

    @property
    def texts(self) -> int:
        """How many are remembered."""
        return len(self._told)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record becomes a line."""
        if not isinstance(record.msg, str) or hasattr(record, "members"):
            return True
        text = record.getMessage()
        with self._lock:
            told = self._told.get((record.name, text))
            if told is None or record.created - told.since >= _SECONDS:
                left_out = 0 if told is None else max(0, told.times - _TIMES)
                if len(self._told) >= _MOST_TEXTS:
                    self._forget(record.created)
                told = self._told[record.name, text] = _Told(record.created)
                if left_out:
                    record.msg, record.args = f"{text} ({left_out} lines like this were left out)", ()
            told.times += 1
            return told.times <= _TIMES

    def _forget(self, now: float) -> None:
        """Makes room for other texts."""
        recent = {key: told for key, told in self._told.items() if now - told.since < _SECONDS}
        self._told = recent if len(recent) < _MOST_TEXTS else {}
