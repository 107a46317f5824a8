"""``inspect`` and ``evaluate``: index files on their own, from this machine or from a warehouse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from app.api.answers.encoding import encode_evaluation
from app.api.answers.selections import SelectionEncoding
from app.cli.options import (
    AliasOption,
    ColumnsOption,
    FilterOption,
    JsonOption,
    Opened,
    TimeZoneOption,
    WarehouseOptions,
    grouped,
    local_path,
    parse_columns,
    parse_filter,
)
from app.cli.output import (
    ExplainedFile,
    plain,
    print_explanation,
    print_json,
    print_records,
    print_table,
    print_warnings,
)
from app.planning.request.requests import EvaluateRequest, InspectRequest

_INSTANCE = "command-line"
_DECISIONS = {"keep": "kept", "skip": "skipped"}

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A local file; with --warehouse a path in it.")
]
FileArguments = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Local files; with --warehouse paths in it.")
]


@grouped
def inspect(
    file: FileArgument,
    *,
    place: WarehouseOptions,
    kind: Annotated[
        str | None,
        typer.Option(help="file_index, deletion_vectors or hash. Default: detected from the file."),
    ] = None,
    columns: ColumnsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is in an index file."""
    opened, (path,) = _open((file,), place)
    request = InspectRequest.read({"path": path, "name": file, "kind": kind})
    answer = opened.service.inspect(
        opened.warehouse, request, request.kind, parse_columns(columns), any_place=True
    )
    if as_json:
        print_json(answer)
        return
    print_table(("what", "value"), _flatten(plain(answer), ""))


@grouped
def evaluate(  # noqa: PLR0913 - one parameter per option
    files: FileArguments,
    *,
    columns: ColumnsOption,
    filter_text: FilterOption = None,
    alias: AliasOption = None,
    place: WarehouseOptions,
    row_count: Annotated[int | None, typer.Option(help="Rows of each data file, if known.")] = None,
    selection: Annotated[
        str, typer.Option(help="Output format for row positions: none, count, bitmap, ranges or positions.")
    ] = "ranges",
    explain: Annotated[bool, typer.Option("--explain", help="Show which index decided.")] = False,
    time_zone: TimeZoneOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a filter of index files: which data files can be skipped, which rows can match?"""
    opened, paths = _open(files, place)
    types = parse_columns(columns)
    request = EvaluateRequest.read(
        {
            "schema": [{"name": name, "type": data_type} for name, data_type in types.items()],
            "files": [{"path": path, "name": name} for path, name in zip(paths, files, strict=True)],
            "row_count": row_count,
            "filter": parse_filter(filter_text),
            "alias": alias,
            "selection": selection,
            "explain": explain,
            "time_zone": opened.time_zone(time_zone),
        }
    )
    answer = opened.service.evaluate(opened.warehouse, request, any_place=True)
    form = SelectionEncoding(request.selection)
    encoded = encode_evaluation(answer, form, request.row_count, _INSTANCE)
    if as_json:
        print_json(encoded)
        return
    answered = plain(encoded)
    results = answered["results"]
    members = {"file": "name", "decision": "decision", "rows": "selected_rows", "selection": "selection"}
    print_records(
        {**members, "error": "error"},
        ({**result, "error": result.get("error", {}).get("detail")} for result in results),
    )
    if explain:
        decided = (result for result in results if "explain" in result)
        print_explanation(
            ExplainedFile(result["name"], _DECISIONS[result["decision"]], result["explain"])
            for result in decided
        )
    print_warnings(answered["warnings"])


def _open(files: Sequence[str], place: WarehouseOptions) -> tuple[Opened, list[str]]:
    if place.warehouse is not None:
        return place.open(), list(files)
    return Opened.local_files(), [local_path(Path(file)) for file in files]


def _flatten(value: Any, place: str) -> Iterator[tuple[str, object]]:
    match value:
        case dict() if value:
            for name, member in value.items():
                yield from _flatten(member, f"{place}.{name}" if place else name)
        case [dict(), *_]:
            for number, item in enumerate(value):
                # Columns have names, and their indexes types.
                label = item.get("name") or item.get("type") or number
                yield from _flatten(item, f"{place}[{label}]")
        case _:
            yield place, value
