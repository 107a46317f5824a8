"""``inspect`` and ``evaluate``: index files on their own, from this machine or from a warehouse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from app.api.answers import SelectionEncoding, encode_evaluation
from app.cli.asking import Invocation, asks
from app.cli.options import ColumnsOption, local_path, parse_columns
from app.cli.output import ExplainedFile, InWords, print_explanation, print_records, print_warnings
from app.planning.request import EvaluateRequest, InspectRequest

_INSTANCE = "command-line"
_DECISIONS = {"keep": "kept", "skip": "skipped"}

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A local file; with --warehouse a path in it.")
]
FileArguments = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Local files; with --warehouse paths in it.")
]


@asks(InspectRequest, "kind")
def inspect(
    invocation: Invocation[InspectRequest], *, file: FileArgument, columns: ColumnsOption = None
) -> object:
    """Show what is in an index file."""
    request, types = invocation.read(**_named(invocation, file)), parse_columns(columns)
    opened = invocation.opened
    return opened.service.inspect(opened.warehouse, request, request.kind, types, any_place=True)


@asks(EvaluateRequest, "filter", "row_count", "selection", "explain", selection="ranges")
def evaluate(
    invocation: Invocation[EvaluateRequest], *, files: FileArguments, columns: ColumnsOption
) -> object:
    """Evaluate a filter on index files: which data files can be skipped, which rows can match?"""
    types = parse_columns(columns)
    request = invocation.read(
        schema=[{"name": name, "type": data_type} for name, data_type in types.items()],
        files=[_named(invocation, file) for file in files],
    )
    answer = invocation.opened.service.evaluate(invocation.opened.warehouse, request, any_place=True)
    form = SelectionEncoding(request.selection)
    return InWords(encode_evaluation(answer, form, request.row_count, _INSTANCE), _print_evaluation)


def _named(invocation: Invocation[Any], file: str) -> dict[str, str]:
    return {"path": local_path(Path(file)) if invocation.warehouse is None else file, "name": file}


def _print_evaluation(answer: dict[str, Any]) -> None:
    results = answer["results"]
    print_records(
        [
            {name: result[name] for name in ("name", "decision", "selected_rows", "selection")}
            | {"error": result.get("error", {}).get("detail")}
            for result in results
        ]
    )
    print_explanation(
        ExplainedFile(result["name"], _DECISIONS[result["decision"]], result["explain"])
        for result in results
        if "explain" in result
    )
    print_warnings(answer["warnings"])
