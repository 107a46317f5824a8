"""``advise`` and ``what-if``: advice on the indexes of a table or data file, and trials of new indexes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from app.advice import MOST_FILES, WhatIfRequest, advise_table, try_indexes
from app.building import DataFile, size_warning, table_options
from app.building import advise as advise_columns
from app.cli.asking import VERSION, Invocation, asks
from app.cli.data_files import SchemaOption, TypesOption, column_types, progress, read_schema
from app.cli.output import InWords, print_line, print_members
from app.errors import RequestError
from app.planning import TableUsage, missing_file_means_expired
from app.planning.request import VersionedRequest


@asks(VersionedRequest, *VERSION)
def advise(
    invocation: Invocation[VersionedRequest],
    *,
    table: Annotated[str | None, typer.Argument(metavar="[DATABASE.TABLE]")] = None,
    files: Annotated[
        int, typer.Option(min=1, help="Data files of the table whose index heads are read at most.")
    ] = MOST_FILES,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="A data file, in place of a table.")
    ] = None,
    schema: SchemaOption = None,
    columns: TypesOption = None,
) -> object:
    """Advise on the indexes of a table, or on indexes for the values of a data file."""
    if (table is None) == (data is None):
        raise RequestError("advise takes a table, such as sales.orders, or --data and a data file")
    if data is not None:
        return _advise_file(data, schema, columns)
    version = invocation.opened.service.resolve(invocation.table, invocation.read().selector)
    with progress("reading index heads", files) as advance, missing_file_means_expired(version):
        # This process has made no plans, so the advice has no usage to count.
        answer = advise_table(version, TableUsage(), most_files=files, advance=advance)
    return InWords(answer, _print_table_advice)


def _print_table_advice(answer: dict[str, Any]) -> None:
    statements, command = answer.pop("statements"), answer.pop("command")
    for piece in answer["advice"]:
        if (saved := piece.pop("bytes_saved")) is not None:
            piece["bytes"] = f"saves {saved:,}" if saved >= 0 else f"takes {-saved:,}"
    print_members(answer)
    if command:
        print_line("together:")
        for statement in statements:
            print_line(f"  {statement};")
        print_line(f"  {command}")


def _advise_file(data: Path, schema: Path | None, columns: list[str] | None) -> object:
    file = DataFile.open(data)
    types = column_types(file, read_schema(schema), columns)
    with progress("counting", len(file.schema.names)) as advance:
        advice = advise_columns(file, types, advance)
    answer = {
        "data": str(file.path),
        "rows": file.row_count,
        "bytes": file.size_bytes,
        "columns": [
            {
                "column": column.column,
                "data_type": None if column.data_type is None else str(column.data_type),
                "distinct_values": column.distinct,
                "null_count": column.null_count,
                "index": column.index.kind if column.index else None,
                "index_bytes": column.size_bytes,
                "reason": column.reason,
                "warning": column.warning,
            }
            for column in advice
        ],
        "index_bytes": sum(column.size_bytes for column in advice),
        "warning": size_warning(file, advice),
        "options": dict(table_options(advice)),
    }
    return InWords(answer, _print_file_advice)


def _print_file_advice(answer: dict[str, Any]) -> None:
    options = answer.pop("options")
    print_members(answer)
    for name, value in options.items():
        print_line(f"  {_quoted(name)} = {_quoted(value)},")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@asks(
    WhatIfRequest,
    *("filters", "files", "bytes", "seed", *VERSION),
    flags={"filters": "--filter"},
)
def what_if(
    invocation: Invocation[WhatIfRequest],
    *,
    index: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN=KIND[,option=value...]",
            help="An index to try, such as user_id=bloom-filter,items=10000; repeatable.",
        ),
    ],
) -> object:
    """Try indexes on some data files: how many files would they skip?"""
    request = invocation.read(indexes=[_index(text) for text in index])
    service = invocation.opened.service
    version = service.resolve(invocation.table, request.selector)
    with missing_file_means_expired(version):
        return try_indexes(version, request, invocation.opened.settings.limits)


def _index(text: str) -> dict[str, object]:
    named, *options = text.split(",")
    column, _, kind = named.rpartition("=")
    pairs = [option.partition("=") for option in options]
    if not column or not kind or not all(sign for _, sign, _ in pairs):
        raise RequestError(
            f"--index takes COLUMN=KIND, such as user_id=bloom-filter,items=10000, not {text!r}"
        )
    return {"column": column, "index": kind, "options": {name: value for name, _, value in pairs}}
