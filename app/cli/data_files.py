"""Options of ``build``, ``verify`` and ``advise``: the data file, the types of its columns, progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from app.building import Advance, ColumnTypes, DataFile
from app.cli.options import parse_columns
from app.errors import FileMissingError, RequestError, StorageError
from app.storage.stores import local_files
from app.suggestions import hint
from app.table import TableSchema
from app.types import parse_type

DataOption = Annotated[Path, typer.Option("--data", metavar="FILE", help="Data file: Parquet, ORC or Avro.")]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--schema", metavar="FILE", help="The table's schema file, schema/schema-0: types and options."
    ),
]
TypesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME=TYPE",
        help="Column type in the table, if the file does not contain it; repeatable.",
    ),
]
IndexOption = Annotated[
    Path | None,
    typer.Option(
        "--index", metavar="FILE", help="Index file. Default: the data file's name followed by .index."
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Output file. Default: the data file's name followed by .index."
    ),
]


def read_file(path: Path) -> bytes:
    """Read a local file."""
    try:
        return local_files.content(path)
    except FileNotFoundError as error:
        raise FileMissingError(f"{path}: there is no such file", path=str(path)) from error
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", path=str(path)) from error


def read_schema(path: Path | None) -> TableSchema | None:
    """Read the schema file of an option."""
    return None if path is None else TableSchema.read(read_file(path))


def column_types(file: DataFile, schema: TableSchema | None, columns: Sequence[str] | None) -> ColumnTypes:
    """Return types from ``--column``, else the schema, else the file.

    Raises RequestError if an option is wrong.
    """
    declared = {} if schema is None else {name: field.type for name, field in schema.by_name.items()}
    for name, text in parse_columns(columns).items():
        if name not in file.schema.names:
            suggestion = hint(name, file.schema.names, plural="columns")
            raise RequestError(f"--column {name}: {file.path} has no such column{suggestion}")
        try:
            declared[name] = parse_type(text)
        except RequestError as error:
            raise RequestError(f"--column {name}: {error}") from error
    return ColumnTypes(file, declared)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Advance]:
    """Show a progress bar on standard error if that is a terminal."""
    parts = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    is_watched = sys.stderr.isatty()
    with Progress(*parts, console=Console(stderr=True), transient=True, disable=not is_watched) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.advance(task, done)
