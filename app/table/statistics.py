"""Statistics of a data file in the columns of the schema that a plan is made with.

A file's statistics are about the columns of *its* schema, under the names and types they had then. Columns
are matched by id; bounds are carried over to a changed type only where that keeps every value and their
order, otherwise they are unknown. A bound need not be a value of the file: bounds of strings are cut after
some characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from app.errors import CorruptMetadataError
from app.table.bounds_cast import bounds_cast
from app.types.binary_row import read_row
from app.types.data_types import DataField, DataType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.table.manifest_entry import DataFileMeta
    from app.table.row_statistics import RowStatistics
    from app.table.schema import TableSchema
    from app.types import Value

KeyRange: TypeAlias = "tuple[tuple[Value | None, ...], tuple[Value | None, ...]]"

# Columns that the engine adds where rows are tracked; they may be in files but are in no schema.
_ROW_TRACKING = {
    name: DataField(-1, name, DataType(TypeRoot.BIGINT)) for name in ("_ROW_ID", "_SEQUENCE_NUMBER")
}


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of one column of one file.

    Attributes:
        min: no value is smaller; None if unknown, or if every value is null.
        max: no value is larger; None likewise.
        null_count: nulls; None if unknown.
        row_count: rows of the file.
    """

    min: Value | None
    max: Value | None
    null_count: int | None
    row_count: int

    @property
    def all_null(self) -> bool:
        """Whether every row is known to hold null."""
        return self.null_count == self.row_count


def value_statistics(
    file: DataFileMeta, file_schema: TableSchema, schema: TableSchema
) -> dict[int, ColumnStatistics]:
    """Statistics of every column of ``schema``, by column id.

    A column that came into the table after the file was written is known to be all null.

    Args:
        file: the data file.
        file_schema: the schema with the id ``file.schema_id``.
        schema: the schema that the answer is about.

    Raises:
        CorruptMetadataError: the stored statistics do not have the columns they should have.
    """
    columns = _value_columns(file, file_schema)
    known = _decode(file.value_statistics, columns, schema, file.row_count)
    for column in schema.fields:
        if column.id not in known:
            absent = column.id not in file_schema.by_id
            known[column.id] = ColumnStatistics(
                None, None, file.row_count if absent else None, file.row_count
            )
    return known


def key_statistics(
    file: DataFileMeta, file_schema: TableSchema, schema: TableSchema
) -> dict[int, ColumnStatistics]:
    """Statistics of the trimmed primary key's columns, by column id; arguments as above.

    Raises:
        CorruptMetadataError: the stored statistics do not have the key's columns.
    """
    return _decode(file.key_statistics, file_schema.trimmed_primary_keys, schema, file.row_count)


def key_range(file: DataFileMeta, file_schema: TableSchema) -> KeyRange:
    """The file's smallest and largest key, in the columns of the trimmed primary key of its schema.

    Raises:
        CorruptMetadataError: the keys do not have these columns.
    """
    types = [column.type for column in file_schema.trimmed_primary_keys]
    return read_row(file.min_key, types), read_row(file.max_key, types)


def _value_columns(file: DataFileMeta, file_schema: TableSchema) -> Sequence[DataField]:
    """The columns that the value statistics have a slot for."""
    names = file.value_statistics_columns
    if names is None:
        names = file.write_columns
    if names is None:
        return file_schema.fields
    return [_column(name, file, file_schema) for name in names]


def _column(name: str, file: DataFileMeta, file_schema: TableSchema) -> DataField:
    column = file_schema.by_name.get(name) or _ROW_TRACKING.get(name)
    if column is None:
        schema_id = file_schema.id
        raise CorruptMetadataError(
            f"{file.file_name} has column {name!r:.100}, but its schema {schema_id} does not"
        )
    return column


def _decode(
    stored: RowStatistics, columns: Sequence[DataField], schema: TableSchema, row_count: int
) -> dict[int, ColumnStatistics]:
    decoded = {}
    bounds = stored.decode([column.type for column in columns])
    for column, (low, high, null_count) in zip(columns, bounds, strict=True):
        present = schema.by_id.get(column.id)
        if present is None:
            continue
        cast = bounds_cast(column.type, present.type)
        if cast is None:
            # A reader may make nulls of values that the new type cannot hold; of nulls it makes nothing else.
            decoded[column.id] = ColumnStatistics(
                None, None, row_count if null_count == row_count else None, row_count
            )
            continue
        decoded[column.id] = ColumnStatistics(
            None if low is None else cast(low),
            None if high is None else cast(high),
            null_count if null_count is not None and 0 <= null_count <= row_count else None,
            row_count,
        )
    return decoded
