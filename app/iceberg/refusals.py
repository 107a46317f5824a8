"""Refuses tables and plans that Iceberg's clients would misread, with the reason and a way out.

A table is refused for its schema, a plan for the files that it keeps.

============================================  ===================================================
refused                                       why
============================================  ===================================================
types without a counterpart                   :mod:`app.iceberg.schema`
timestamps in milliseconds                    :mod:`app.iceberg.schema`
``data-evolution.enabled``                    rows are in several files each
files that merge                              clients would read every version of a row; ``table$ro`` has none
32-bit deletion vectors                       Iceberg's blobs are the engine's 64-bit ones
deletion vectors, for PyIceberg               it reads whole Puffin files, which the engine's are not
files of ORC and Avro                         the engine writes no field ids of Iceberg's into them
files of another type than a column has now   the engine casts, or cuts, what clients do not
files without ids whose names are ambiguous   their columns are identified by their names
changes that are more than appended files     the new rows are not those of whole files
============================================  ===================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from app.errors import UnsupportedFormatError
from app.iceberg.schema import schema_json
from app.table import TableSchema
from app.types import INTEGER_BITS, DataField, DataType, TypeRoot

# Format of data files that clients read by field ids.
FORMAT: Final = "parquet"

_REWRITE: Final = "compact the table in full"
_ELSEWHERE: Final = "use the engine, or plans of this service, such as read_table in Spark"
_SOME: Final = "files that it may have"


def refusal(reason: str, remedy: str = "") -> UnsupportedFormatError:
    """Return the error for something that clients cannot read, with the way out."""
    way_out = f"{remedy}; or {_ELSEWHERE}" if remedy else _ELSEWHERE
    return UnsupportedFormatError(f"Iceberg's clients cannot read this: {reason}. To read it, {way_out}")


def check_table(schema: TableSchema, *, millis: bool) -> None:
    """Raise UnsupportedFormatError for a table that a client cannot read, whatever its files."""
    if schema.options.data_evolution:
        raise refusal("the table has data-evolution.enabled, and its rows lie in several files each")
    # Report what no client reads first, then what this client does not read.
    for accepted in (True, millis):
        try:
            schema_json(schema, millis=accepted)
        except ValueError as error:
            raise refusal(str(error)) from error


def reason_against(schema: TableSchema, name: str) -> str | None:
    """Explain why clients cannot read a table, or files it may have. Return None if they can."""
    return ". ".join(map(str, _reasons_against(schema, name))) or None


def _reasons_against(schema: TableSchema, name: str) -> Iterator[object]:
    if schema.options.refusal is not None:
        yield f"table {name} {schema.options.refusal}"
        return
    try:
        check_table(schema, millis=True)
    except UnsupportedFormatError as error:
        yield error
        return
    options = schema.options
    if options.values.get("file.format", FORMAT) != FORMAT:
        yield other_format("a data file")
    elif schema.primary_keys and not schema.keeps_one_version:
        yield merging(_SOME, None)
        yield "Until then, only plans of files that need no merging are answered"
    elif options.deletion_vectors and options.values.get("deletion-vectors.bitmap64", "false") != "true":
        yield narrow_vectors(_SOME)
        yield "Until then, only plans of files without deletion vectors are answered"
    try:
        check_table(schema, millis=False)
    except UnsupportedFormatError as error:
        yield error


def merging(files: str, level: int | None, *, vectors: bool = True) -> UnsupportedFormatError:
    """Return the error for files that merge. ``level`` is theirs if the plan has one level only."""
    older = "add $ro to its name, which gives what its last full compaction made of it, or "
    newer = ", or set deletion-vectors.enabled and deletion-vectors.bitmap64" if vectors else ""
    return refusal(
        f"versions of rows have to be merged in {files}",
        f"{older if level is None else ''}compact the table in full{newer}",
    )


def whole_puffin_files(count: int) -> UnsupportedFormatError:
    """Return the error for deletion vectors, for a client that reads only whole Puffin files."""
    return refusal(
        f"{count} of its files have deletion vectors, which PyIceberg reads from whole Puffin files, "
        f"and the engine stores without their frame",
        "compact the table in full (without a primary key with compaction.delete-ratio-threshold=0, so that "
        "large files with few deleted rows are rewritten, too)",
    )


def narrow_vectors(files: str) -> UnsupportedFormatError:
    """Return the error for deletion vectors of 32 bits."""
    return refusal(
        f"there are deletion vectors of 32 bits for {files}",
        "set deletion-vectors.bitmap64=true and compact the table in full",
    )


def other_format(name: str) -> UnsupportedFormatError:
    """Return the error for a file that is not Parquet."""
    return refusal(
        f"{name} is not Parquet, and has no field ids that they know",
        "set file.format=parquet and compact the table in full",
    )


def without_ids(name: str) -> UnsupportedFormatError:
    """Return the error for a file without field ids whose names are ambiguous."""
    return refusal(
        f"{name} has no field ids, and the name of one of its columns now belongs to another column",
        "compact the table in full with release 1.0 of the engine or newer",
    )


def compacted(count: int) -> UnsupportedFormatError:
    """Return the error for appended files that have been compacted."""
    return refusal(
        f"{count} of the files that were appended between the two snapshots have been compacted since",
        "ask for an earlier end, or for a whole snapshot",
    )


def check_file_schema(file: TableSchema, schema: TableSchema) -> None:
    """Refuse files of a schema whose columns clients would misread in another schema."""
    if file.id == schema.id:
        return
    for column in file.fields:
        if _holds_time(column.type):
            # Readers look at the type of every column in a file, dropped ones included.
            raise refusal(f"files of schema {file.id} hold column {column.name!r} of TIME", _REWRITE)
    for column in _cast(file.by_id, schema.fields):
        raise refusal(
            f"files of schema {file.id} hold column {column.name!r} as {file.by_id[column.id].type}, which "
            f"is {column.type} in schema {schema.id}",
            _REWRITE,
        )


def _holds_time(data_type: DataType) -> bool:
    inner = (*data_type.children, *(field.type for field in data_type.fields))
    return data_type.root is TypeRoot.TIME or any(map(_holds_time, inner))


def _cast(file: Mapping[int, DataField], fields: tuple[DataField, ...]) -> Iterator[DataField]:
    """Yield the columns whose stored values are not values of the present type."""
    return (field for field in fields if field.id in file and not _widens(file[field.id].type, field.type))


def _widens(stored: DataType, present: DataType) -> bool:
    """Return True if each stored value keeps its meaning in another type, to the engine and to Iceberg."""
    if stored.root in INTEGER_BITS and present.root in INTEGER_BITS:
        return INTEGER_BITS[stored.root] <= INTEGER_BITS[present.root]
    if (stored.root, present.root) == (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return True
    if stored.root is not present.root or len(stored.children) != len(present.children):
        return False
    match stored.root:
        case TypeRoot.DECIMAL:
            return stored.scale == present.scale and stored.precision <= present.precision
        case TypeRoot.VARCHAR | TypeRoot.VARBINARY:
            return stored.precision <= present.precision
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            # Stored in milliseconds or in microseconds.
            return stored.precision <= present.precision and (
                stored.is_compact_timestamp is present.is_compact_timestamp
            )
        case TypeRoot.CHAR | TypeRoot.BINARY:
            return stored.precision == present.precision
        case _:
            inner = zip(stored.children, present.children, strict=True)
            by_id = {field.id: field for field in stored.fields}
            return all(_widens(*pair) for pair in inner) and not any(_cast(by_id, present.fields))
