"""``advise``: which indexes the columns of a data file are worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app.building import ColumnAdvice, DataFile, size_warning, table_options
from app.building import advise as advise_columns
from app.cli.data_files import DataOption, SchemaOption, TypesOption, column_types, progress, read_schema
from app.cli.output import print_json, print_line, print_table


def advise(
    data: DataOption,
    *,
    schema: SchemaOption = None,
    columns: TypesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Propose indexes, and sizes of bloom filters, from the values that a data file has."""
    file = DataFile.open(data)
    types = column_types(file, read_schema(schema), columns)
    with progress("counting", len(file.schema.names)) as advance:
        advice = advise_columns(file, types, advance)
    options = table_options(advice)
    if as_json:
        print_json(_document(file, advice, options))
    else:
        _print(file, advice, options)


def _document(file: DataFile, advice: tuple[ColumnAdvice, ...], options: Mapping[str, str]) -> dict[str, Any]:
    return {
        "data": str(file.path),
        "rows": file.row_count,
        "bytes": file.size_bytes,
        "columns": [
            {
                "column": each.column,
                "data_type": None if each.data_type is None else str(each.data_type),
                "distinct_values": each.distinct,
                "null_count": each.null_count,
                "index": each.index.kind if each.index else None,
                "index_bytes": each.size_bytes,
                "reason": each.reason,
                "warning": each.warning,
            }
            for each in advice
        ],
        "index_bytes": sum(each.size_bytes for each in advice),
        "warning": size_warning(file, advice),
        "options": dict(options),
    }


def _print(file: DataFile, advice: tuple[ColumnAdvice, ...], options: Mapping[str, str]) -> None:
    print_table(
        ("column", "type", "values", "nulls", "index", "bytes", "why"),
        (
            (
                each.column,
                each.data_type,
                None if each.distinct is None else f"{each.distinct:,}",
                None if each.null_count is None else f"{each.null_count:,}",
                each.index.kind if each.index else None,
                f"{each.size_bytes:,}" if each.index else None,
                each.reason,
            )
            for each in advice
        ),
    )
    size_bytes = sum(each.size_bytes for each in advice)
    print_line(
        f"indexes: {size_bytes:,} bytes beside the {file.size_bytes:,} bytes of the file "
        f"({size_bytes / file.size_bytes:.1%})"
    )
    for warning in (size_warning(file, advice), *(each.warning for each in advice)):
        if warning:
            print_line(f"warning: {warning}")
    if options:
        print_line("table options:")
    for name, value in options.items():
        print_line(f"  {_quoted(name)} = {_quoted(value)},")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
