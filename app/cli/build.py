"""``build`` and ``verify``: commands that build the index file of a data file, or check it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.building import CheckedEntry, DataFile, Verification, read_columns, write_file
from app.building import build as build_index
from app.building import verify as verify_index
from app.cli.data_files import (
    DataOption,
    IndexOption,
    OutOption,
    SchemaOption,
    TypesOption,
    column_types,
    progress,
    read_file,
    read_schema,
)
from app.cli.options import parse_pairs
from app.cli.output import InWords, print_answer, print_line, print_members
from app.errors import CorruptIndexError, RequestError, StorageError
from app.file_index import FileIndex, FileIndexOptions, KeyColumn, indexed_type

_FORM: Final = "NAME=VALUE, such as file-index.bitmap.columns=city (columns of one type with commas)"


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
    requested = FileIndexOptions.parse(
        written | parse_pairs("--option", options, _FORM), column_types(file, table, columns)
    )
    with progress("reading", file.row_count) as advance:
        read = read_columns(file, {index.column for index in requested.indexes}, advance)
    with progress("indexing", len(requested.indexes)) as advance:
        built = build_index(read, requested, advance)
    try:
        write_file(target, built.content, replace=force)
    except StorageError as error:
        raise StorageError(f"{error}: choose another place with --out", path=error.path) from error
    answer = {
        "data": str(file.path),
        "index": str(target),
        "rows": file.row_count,
        "bytes": len(built.content),
        "in_manifest": built.in_manifest,
        "indexes": [
            {"column": entry.column, "type": entry.kind, "bytes": entry.size_bytes} for entry in built.entries
        ],
    }
    print_answer(InWords(answer, _print_built), as_json=as_json)


def _print_built(answer: dict[str, Any]) -> None:
    print_members(answer)
    if answer["in_manifest"]:
        print_line(
            "the engine puts an index of this size into the manifest (file-index.in-manifest-threshold)"
        )


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
    """Verify an index file against its data file: it prunes no matching row and lists no other."""
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
    answer = _verified_document(path, file, verification)
    print_answer(InWords(answer, _print_verified), as_json=as_json)
    if not verification.passed:
        for entry in verification.entries:
            if entry.problem:
                where = f"{path}: {entry.kind} index of column {entry.column!r}"
                typer.echo(f"error: {where}: {entry.problem.detail}", err=True)
        raise typer.Exit(1)


def _verified_document(path: Path, file: DataFile, verification: Verification) -> dict[str, Any]:
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


def _print_verified(answer: dict[str, Any]) -> None:
    print_members(answer | {"indexes": list(map(_shown, answer["indexes"]))})


def _shown(entry: dict[str, Any]) -> dict[str, Any]:
    problem, bloom = entry["problem"], entry.get("bloom_filter", {})
    result = "right" if problem is None else "loses rows" if problem["lost"] else "wrong"
    return {**entry, **bloom, "bloom_filter": None, "problem": None, "result": result}
