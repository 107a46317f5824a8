"""Why each file is kept or skipped, for people: files to which the same happened stand together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from app.cli.output import print_line, print_table

_Step: TypeAlias = Mapping[str, Any]
"""A step of an explanation, as the service's JSON has it."""

_OUTCOMES: Final = {"skip": "no row", "keep": "may match", "rows": "some rows", "unknown": "cannot tell"}
_COLUMNS: Final = ("step", "condition", "outcome", "what the files have")
_NAMED_FILES: Final = 3
_SHOWN_FINDINGS: Final = 3


class ExplainedFile(NamedTuple):
    """A file, what was decided of it, and what was tried."""

    name: str
    decision: str
    steps: Sequence[_Step]


def print_explanation(files: Iterable[ExplainedFile]) -> None:
    """The steps of every file, once for all files that took the same ones."""
    groups: dict[object, list[ExplainedFile]] = {}
    for file in files:
        groups.setdefault((file.decision, *map(_question, file.steps)), []).append(file)
    for members in groups.values():
        print_line("")
        print_line(_header(members))
        steps = zip(*(file.steps for file in members), strict=True)
        rows = [(*_question(alike[0]), "\n".join(_findings(alike))) for alike in steps]
        if rows:
            print_table(_COLUMNS, rows)


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
