"""Answers on the terminal: the service's JSON, or a table for people."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.api.strict_json import read_json, write_json
from app.storage.locations import without_credentials

# Wide enough that nothing is cut where the output goes into a file or a pipe.
_PIPE_COLUMNS = 400
# Characters that move the cursor, change colours or the direction of text.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def print_json(answer: object) -> None:
    """The answer as the service writes it, on one line."""
    sys.stdout.write(write_json(answer).decode() + "\n")


def plain(answer: object) -> Any:
    """The answer as a caller of the service gets it, without fragments and arrays."""
    return read_json(write_json(answer))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under a header; None is a dash."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text, since a plain string would be read as markup.
        table.add_row(*(Text(printable(_text(cell))) for cell in row))
    _console().print(table)


def print_records(columns: Mapping[str, str], records: Iterable[Mapping[str, Any]]) -> None:
    """JSON objects as rows: each column has the member that it names; None, or no such member, is a dash."""
    print_table(tuple(columns), ([record.get(member) for member in columns.values()] for record in records))


def print_warnings(warnings: Iterable[str]) -> None:
    """Each on a line."""
    for warning in warnings:
        print_line(f"warning: {warning}")


def print_line(text: str) -> None:
    """One line of text, taken literally."""
    _console().print(printable(text), markup=False, highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """A text that a terminal shows and does not obey, without the user and password of a URL."""
    shown = _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    # A terminal of another language has fewer characters.
    encoding = sys.stdout.encoding or "utf-8"
    shown = shown.encode(encoding, "backslashreplace").decode(encoding)
    return without_credentials(shown, "***@")


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS)


def _text(cell: object) -> str:
    match cell:
        case None:
            return "-"
        case str():
            return cell
        case dict() | list():
            return write_json(cell).decode()
        case _:
            return str(cell)
