"""``advise`` and ``what-if``: which indexes a table or a data file is worth, and what new ones would skip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from app.advice.answers import TableAdvice
from app.advice.table_advice import MOST_FILES, advise_table
from app.advice.what_if import DEFAULT_BYTES, DEFAULT_FILES, WhatIf, WhatIfRequest, try_indexes
from app.api.questions.queries import VersionQuery
from app.building import ColumnAdvice, DataFile, size_warning, table_options
from app.building import advise as advise_columns
from app.cli.data_files import SchemaOption, TypesOption, column_types, progress, read_schema
from app.cli.options import JsonOption, TableArgument, TimeZoneOption, VersionOptions, grouped, parse_filter
from app.cli.output import print_answer, print_json, print_line, print_table, print_warnings
from app.errors import RequestError
from app.planning.usage import TableUsage
from app.planning.version.version import missing_file_means_expired


@grouped
def advise(
    table: Annotated[str | None, typer.Argument(metavar="[DATABASE.TABLE]")] = None,
    *,
    version: VersionOptions,
    files: Annotated[
        int, typer.Option(min=1, help="Data files of the table whose index heads are read at most.")
    ] = MOST_FILES,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="A data file, in place of a table.")
    ] = None,
    schema: SchemaOption = None,
    columns: TypesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Advise on the indexes of a table, or of the values that a data file has."""
    if (table is None) == (data is None):
        raise RequestError("advise takes a table, such as sales.orders, or --data and a data file")
    if data is not None:
        _advise_file(data, schema, columns, as_json=as_json)
        return
    opened = version.open()
    selector = VersionQuery.read(version.members).selector
    resolved = opened.service.resolve(opened.table(table or ""), selector)
    with progress("reading index heads", files) as advance, missing_file_means_expired(resolved):
        answer = advise_table(resolved, TableUsage(), most_files=files, advance=advance)
    print_answer(answer, _print_table_advice, as_json=as_json)


def _print_table_advice(table_advice: TableAdvice) -> None:
    print_line(
        f"snapshot {table_advice.snapshot_id}: {table_advice.files:,} files, {table_advice.data_bytes:,} "
        f"bytes, and {table_advice.index_bytes:,} bytes of indexes; "
        f"heads of {table_advice.files_examined:,} files read"
    )
    print_table(
        ("column", "index", "declared", "files", "files without", "bytes", "largest"),
        (
            (
                index.column,
                index.index,
                "yes" if index.declared else "no",
                f"{index.files:,}",
                f"{index.files_without:,}",
                f"{index.bytes:,}",
                f"{index.largest_bytes:,}",
            )
            for index in table_advice.indexes
        ),
    )
    for advice in table_advice.advice:
        saved = advice.bytes_saved
        effect = (
            ""
            if saved is None
            else f" (saves {saved:,} bytes)"
            if saved >= 0
            else f" (takes {-saved:,} bytes)"
        )
        print_line(f"{advice.subject}: {advice.detail}{effect}")
    if table_advice.command:
        print_line("together:")
        for statement in table_advice.statements:
            print_line(f"  {statement};")
        print_line(f"  {table_advice.command}")
    if not table_advice.advice:
        print_line("nothing to advise")
    print_warnings(table_advice.warnings)


def _advise_file(data: Path, schema: Path | None, columns: list[str] | None, *, as_json: bool) -> None:
    file = DataFile.open(data)
    types = column_types(file, read_schema(schema), columns)
    with progress("counting", len(file.schema.names)) as advance:
        advice = advise_columns(file, types, advance)
    options = table_options(advice)
    if as_json:
        print_json(_document(file, advice, options))
    else:
        _print_file_advice(file, advice, options)


def _document(file: DataFile, advice: tuple[ColumnAdvice, ...], options: Mapping[str, str]) -> dict[str, Any]:
    return {
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
        "options": dict(options),
    }


def _print_file_advice(file: DataFile, advice: tuple[ColumnAdvice, ...], options: Mapping[str, str]) -> None:
    print_table(
        ("column", "type", "values", "nulls", "index", "bytes", "why"),
        (
            (
                column.column,
                column.data_type,
                None if column.distinct is None else f"{column.distinct:,}",
                None if column.null_count is None else f"{column.null_count:,}",
                column.index.kind if column.index else None,
                f"{column.size_bytes:,}" if column.index else None,
                column.reason,
            )
            for column in advice
        ),
    )
    size_bytes = sum(column.size_bytes for column in advice)
    print_line(
        f"indexes: {size_bytes:,} bytes beside the {file.size_bytes:,} bytes of the file "
        f"({size_bytes / file.size_bytes:.1%})"
    )
    print_warnings(filter(None, (size_warning(file, advice), *(column.warning for column in advice))))
    if options:
        print_line("table options:")
    for name, value in options.items():
        print_line(f"  {_quoted(name)} = {_quoted(value)},")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@grouped
def what_if(  # noqa: PLR0913 - one parameter per option
    table: TableArgument,
    *,
    index: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN=KIND[,option=value...]",
            help="An index to try, such as user_id=bloom-filter,items=10000; repeatable.",
        ),
    ],
    filters: Annotated[
        list[str],
        typer.Option("--filter", help="Spark SQL as after WHERE; repeatable."),
    ],
    files: Annotated[int, typer.Option(help="Data files tried for each filter.")] = DEFAULT_FILES,
    most_bytes: Annotated[
        int, typer.Option("--bytes", help="Of data files that are read at most, but for the first.")
    ] = DEFAULT_BYTES,
    seed: Annotated[int, typer.Option(help="Chooses files.")] = 0,
    version: VersionOptions,
    time_zone: TimeZoneOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try indexes on some data files: how many files would they leave out?"""
    opened = version.open()
    request = WhatIfRequest.read(
        {
            "indexes": [_index(text) for text in index],
            "filters": [parse_filter(text) for text in filters],
            "files": files,
            "bytes": most_bytes,
            "seed": seed,
            **version.members,
            "time_zone": opened.time_zone(time_zone),
        }
    )
    service, settings = opened.service, opened.settings
    resolved = service.resolve(opened.table(table), request.selector)
    zone = service.zone(request.time_zone)
    with missing_file_means_expired(resolved):
        answer = try_indexes(resolved, request, settings.limits, zone)
    print_answer(answer, _print_trial, as_json=as_json)


def _index(text: str) -> dict[str, object]:
    named, *options = text.split(",")
    column, _, kind = named.rpartition("=")
    pairs = [option.partition("=") for option in options]
    if not column or not kind or not all(sign for _, sign, _ in pairs):
        raise RequestError(
            f"--index takes COLUMN=KIND, such as user_id=bloom-filter,items=10000, not {text!r}"
        )
    return {"column": column, "index": kind, "options": {name: value for name, _, value in pairs}}


def _print_trial(answer: WhatIf) -> None:
    print_line(f"snapshot {answer.snapshot_id}: {answer.files_read} files read, {answer.bytes_read:,} bytes")
    for index in answer.indexes:
        print_line(f"{index.index} of {index.column!r}: {index.index_bytes:,} bytes for all files")
    print_table(
        ("filter", "kept today", "tried", "index", "left out", "bytes"),
        (
            (
                trial.filter,
                trial.files_kept,
                trial.files_tried,
                "all" if effect.column is None else f"{effect.index} of {effect.column}",
                effect.files,
                f"{effect.bytes:,}",
            )
            for trial in answer.filters
            for effect in trial.effects
        ),
    )
    print_warnings(answer.warnings)
