"""Printing of answers: as the service's JSON, as tables, and as explanations of decisions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.api.http import read_json, write_json
from app.storage.locations import without_credentials

_NOTHING: Final[tuple[object, ...]] = (None, "", [], {})
# Wide enough that nothing is cut if the output goes into a file or a pipe.
_PIPE_COLUMNS = 400
# Characters that move the cursor, or change colours or the direction of text.
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_Step: TypeAlias = Mapping[str, Any]
"""A step of an explanation in the service's JSON."""

_OUTCOMES: Final = {"skip": "no row", "keep": "may match", "rows": "some rows", "unknown": "cannot tell"}
_STEP_COLUMNS: Final = ("step", "condition", "outcome", "what the files have")
_NAMED_FILES: Final = 3
_SHOWN_FINDINGS: Final = 3


class InWords(NamedTuple):
    """An answer, and the function that prints it as readable text."""

    answer: object
    print_words: Callable[[Any], None]


def print_answer(answer: object, *, as_json: bool) -> None:
    """Print an answer as the service's JSON on one line, or as readable text."""
    answer, print_words = answer if isinstance(answer, InWords) else (answer, print_members)
    if as_json:
        sys.stdout.write(write_json(answer).decode() + "\n")
    else:
        print_words(plain(answer))


def plain(answer: object) -> Any:
    """Convert an answer to plain JSON values, as a caller of the service reads it."""
    # Tables are printed from the JSON, so that both forms show equal values.
    return read_json(write_json(answer))


def print_members(answer: Mapping[str, Any], place: str = "") -> None:
    """Print a JSON object: lists of objects as tables, other members as lines. Skip empty ones."""
    for name, value in answer.items():
        if name == "warnings":
            print_warnings(value)
        elif _is_records(value):
            print_line(f"{place}{name}:")
            print_records(value)
        elif isinstance(value, dict) and value:
            print_members(value, f"{place}{name}.")
        elif value not in _NOTHING:
            print_line(f"{place}{name}: {_text(value)}")


def print_records(records: Sequence[Mapping[str, Any]]) -> None:
    """Print JSON objects as rows. An inner list of objects gives one row for each of its objects."""
    rows = [row for record in records for row in _rows(record)]
    columns = dict.fromkeys(name for row in rows for name, value in row.items() if value not in _NOTHING)
    print_table(tuple(columns), ([row.get(name) for name in columns] for row in rows))


def _rows(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    inner = next((name for name, value in record.items() if _is_records(value)), None)
    if inner is None:
        yield record
        return
    outer = {name: value for name, value in record.items() if not isinstance(value, list | dict)}
    for each in record[inner]:
        yield outer | {name if name not in outer else f"{inner}.{name}": each[name] for name in each}


def _is_records(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under a header. None is a dash, and a tuple is lines of text."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text, since a plain string would be read as markup.
        table.add_row(*(Text("\n".join(map(printable, _lines(cell)))) for cell in row))
    _console().print(table)


def print_warnings(warnings: Iterable[str]) -> None:
    """Print each warning on a line."""
    for warning in warnings:
        print_line(f"warning: {warning}")


def print_line(text: str) -> None:
    """Print one line of text, taken literally."""
    _console().print(printable(text), markup=False, highlight=False, soft_wrap=True)


def print_error(error: Exception, message: str | None = None) -> None:
    """Print an error to standard error, and each of its notes on a line of its own."""
    for line in (f"error: {error if message is None else message}", *getattr(error, "__notes__", ())):
        typer.echo(printable(line), err=True)


def printable(text: str) -> str:
    """Escape control characters, and hide the user and password of a URL."""
    shown = _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    # The terminal's encoding may lack characters.
    encoding = sys.stdout.encoding or "utf-8"
    shown = shown.encode(encoding, "backslashreplace").decode(encoding)
    return without_credentials(shown, "***@")


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS)


def _lines(cell: object) -> Iterator[str]:
    # Each text of a tuple is a line: ``printable`` escapes line ends within it.
    return map(_text, cell if isinstance(cell, tuple) else (cell,))


def _text(cell: object) -> str:
    match cell:
        case None:
            return "-"
        case str():
            return cell
        case dict() | list() | bool():
            return write_json(cell).decode()
        case _:
            return str(cell)


class ExplainedFile(NamedTuple):
    """A file, its decision and the steps to it."""

    name: str
    decision: str
    steps: Sequence[_Step]


def print_explanation(files: Iterable[ExplainedFile]) -> None:
    """Print the steps of every file. Files with equal steps share one table."""
    groups: dict[object, list[ExplainedFile]] = {}
    for file in files:
        groups.setdefault((file.decision, *map(_question, file.steps)), []).append(file)
    for members in groups.values():
        print_line("")
        print_line(_header(members))
        steps = zip(*(file.steps for file in members), strict=True)
        rows = [(*_question(same_steps[0]), tuple(_findings(same_steps))) for same_steps in steps]
        if rows:
            print_table(_STEP_COLUMNS, rows)


def _question(step: _Step) -> tuple[str, str | None, str]:
    source = step["index"] if step["index"] not in (None, "min_max") else step["step"]
    return source, step["predicate"], _OUTCOMES[step["outcome"]]


def _header(members: Sequence[ExplainedFile]) -> str:
    names = [file.name for file in members[:_NAMED_FILES]]
    if len(members) > _NAMED_FILES:
        names.append(f"and {len(members) - _NAMED_FILES:,} more")
    files = "file is" if len(members) == 1 else "files are"
    return f"{len(members):,} {files} {members[0].decision}: {', '.join(names)}"


def _findings(steps: Sequence[_Step]) -> Iterator[str]:
    findings = list(dict.fromkeys(filter(None, map(_finding, steps))))
    if len(findings) <= _SHOWN_FINDINGS + 1:
        yield from findings
        return
    yield from findings[:_SHOWN_FINDINGS]
    yield f"and {len(findings) - _SHOWN_FINDINGS:,} others"


def _finding(step: _Step) -> str:
    parts = [
        step["evidence"],
        f"{step['rows']:,} rows" if step["outcome"] == "rows" else None,
        None if step["fpp"] is None else f"fpp {step['fpp']}",
        None if step["index_bytes"] is None else f"index of {step['index_bytes']:,} bytes",
    ]
    return ", ".join(part for part in parts if part)
