"""``build``: the index file of a data file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from app.building import BuiltIndex, DataFile, read_columns, write_file
from app.building import build as build_index
from app.cli.data_files import (
    DataOption,
    OutOption,
    SchemaOption,
    TypesOption,
    column_types,
    progress,
    read_schema,
)
from app.cli.output import print_json, print_line, print_table
from app.errors import RequestError
from app.file_index.table_options import FileIndexOptions


def build(
    data: DataOption,
    *,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="Table option, for example file-index.bitmap.columns=city; repeatable.",
        ),
    ] = None,
    schema: SchemaOption = None,
    columns: TypesOption = None,
    out: OutOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Build the index file of one data file."""
    target = out or data.with_name(f"{data.name}.index")
    if target.resolve() == data.resolve():
        raise RequestError(f"{target} is the data file: choose another name with --out")
    if target.exists() and not force:
        raise RequestError(f"{target} exists: choose another name with --out, or replace it with --force")
    table = read_schema(schema)
    written = dict(table.options.values) if table else {}
    file = DataFile.open(data)
    requested = FileIndexOptions.parse(written | _parse_options(options), column_types(file, table, columns))
    with progress("reading", file.row_count) as advance:
        read = read_columns(file, {index.column for index in requested.indexes}, advance)
    with progress("indexing", len(requested.indexes)) as advance:
        built = build_index(read, requested, advance)
    write_file(target, built.content, replace=force)
    if as_json:
        print_json(_document(target, file, built))
    else:
        _print(target, file, built, requested.in_manifest_threshold_bytes)


def _parse_options(options: Sequence[str] | None) -> dict[str, str]:
    pairs = [option.partition("=") for option in options or ()]
    for at, (name, sign, _) in enumerate(pairs):
        if not name or not sign:
            raise RequestError("--option takes NAME=VALUE, such as file-index.bitmap.columns=city")
        if name in [earlier for earlier, _, _ in pairs[:at]]:
            raise RequestError(f"--option {name} is given twice; columns of one type are listed with commas")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _document(target: Path, file: DataFile, built: BuiltIndex) -> dict[str, Any]:
    return {
        "data": str(file.path),
        "index": str(target),
        "rows": file.row_count,
        "bytes": len(built.content),
        "in_manifest": built.in_manifest,
        "indexes": [
            {"column": entry.column, "type": entry.kind, "bytes": entry.size_bytes} for entry in built.entries
        ],
    }


def _print(target: Path, file: DataFile, built: BuiltIndex, threshold_bytes: int) -> None:
    print_table(
        ("column", "index", "bytes"),
        ((entry.column, entry.kind, f"{entry.size_bytes:,}") for entry in built.entries),
    )
    print_line(f"{target}: {len(built.content):,} bytes for {file.row_count:,} rows")
    if built.in_manifest:
        print_line(
            f"file-index.in-manifest-threshold is {threshold_bytes:,} bytes: the engine puts so few into the "
            "manifest"
        )
