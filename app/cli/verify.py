"""``verify``: an index file against the rows of its data file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from app.building import CheckedEntry, DataFile, Verification, read_columns
from app.building import verify as verify_index
from app.cli.data_files import (
    DataOption,
    IndexOption,
    SchemaOption,
    TypesOption,
    column_types,
    progress,
    read_file,
    read_schema,
)
from app.cli.output import print_json, print_line, print_table
from app.errors import CorruptIndexError
from app.file_index.container import FileIndex
from app.file_index.keys.key_column import KeyColumn
from app.file_index.table_options import indexed_type


def verify(
    data: DataOption,
    *,
    index: IndexOption = None,
    schema: SchemaOption = None,
    columns: TypesOption = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, help="Look up at most this many values of each index. Default: all."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Prove an index file against its data: no row that matches is left out."""
    path = index or data.with_name(f"{data.name}.index")
    content = read_file(path)
    file = DataFile.open(data)
    types = column_types(file, read_schema(schema), columns)

    def column_of(name: str) -> KeyColumn:
        data_type = indexed_type(name, types)
        return KeyColumn.of(read_columns(file, [name])[name], data_type, name)

    try:
        entries = sum(map(len, FileIndex.read(content).entries.values()))
        with progress("verifying", entries) as advance:
            verification = verify_index(content, column_of, file.row_count, sample=sample, advance=advance)
    except CorruptIndexError as error:
        raise error.at(str(path)) from error
    if as_json:
        print_json(_document(path, file, verification))
    else:
        _print(path, verification)
    if not verification.passed:
        for entry in verification.entries:
            if entry.problem:
                where = f"{path}: {entry.kind} index of column {entry.column!r}"
                typer.echo(f"error: {where}: {entry.problem.detail}", err=True)
        raise typer.Exit(1)


def _document(path: Path, file: DataFile, verification: Verification) -> dict[str, Any]:
    return {
        "data": str(file.path),
        "index": str(path),
        "passed": verification.passed,
        "rows": verification.row_count,
        "bytes": verification.size_bytes,
        "unused_bytes": verification.unused_bytes,
        "indexes": [_entry_document(entry) for entry in verification.entries],
    }


def _entry_document(entry: CheckedEntry) -> dict[str, Any]:
    document: dict[str, Any] = {
        "column": entry.column,
        "type": entry.kind,
        "bytes": entry.size_bytes,
        "distinct_values": entry.distinct,
        "checked_values": entry.checked,
        "problem": None,
    }
    if entry.problem:
        document["problem"] = {
            "detail": entry.problem.detail,
            "row": entry.problem.row,
            "value": entry.problem.value,
            "lost": entry.problem.lost,
        }
    if entry.bloom:
        document["bloom_filter"] = {
            "hash_functions": entry.bloom.hash_functions,
            "bits": entry.bloom.size_bits,
            "false_positive_rate": entry.bloom.false_positive_rate,
            "expected_false_positive_rate": entry.bloom.expected_rate,
            "wasted_bytes": entry.bloom.wasted_bytes,
        }
    return document


def _print(path: Path, verification: Verification) -> None:
    print_table(
        ("column", "index", "bytes", "values", "checked", "result", "false positives", "expected", "wasted"),
        (
            (
                entry.column,
                entry.kind,
                f"{entry.size_bytes:,}",
                None if entry.distinct is None else f"{entry.distinct:,}",
                f"{entry.checked:,}",
                _result(entry),
                *_bloom_cells(entry),
            )
            for entry in verification.entries
        ),
    )
    print_line(f"{path}: {verification.size_bytes:,} bytes for {verification.row_count:,} rows")
    if verification.unused_bytes:
        print_line(f"{verification.unused_bytes:,} bytes of it belong to no index")


def _result(entry: CheckedEntry) -> str:
    if entry.problem is None:
        return "right"
    return "loses rows" if entry.problem.lost else "wrong"


def _bloom_cells(entry: CheckedEntry) -> tuple[str | None, ...]:
    if entry.bloom is None:
        return None, None, None
    rate = entry.bloom.false_positive_rate
    return (
        None if rate is None else f"{rate:.2%}",
        f"{entry.bloom.expected_rate:.2%}",
        f"{entry.bloom.wasted_bytes:,}",
    )
