"""Which indexes the columns of a data file are worth, judged by the values that it has.

============================================================  =========================================
column                                                        proposal
============================================================  =========================================
without values, or with one value in every row                none: statistics tell as much
BOOLEAN, or at most 500 values with 4 rows each on average    bitmap
numbers, dates, times and timestamps of up to 6 digits        range-bitmap
strings, binaries and timestamps of more digits               bloom-filter, made for so many values
DECIMAL of more than 18 digits                                bsi
maps                                                          none: only single keys can have one
other types                                                   none
============================================================  =========================================

Sizes are measured: each proposed index is built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from app.building.columns import ignore_progress, read_columns
from app.errors import IndexWriteError, RequestError
from app.file_index.bloom_filter import DEFAULT_FPP, DEFAULT_ITEMS, payload_bytes
from app.file_index.index_kinds import IndexKind, takes
from app.file_index.index_options import (
    BitmapOptions,
    BloomFilterOptions,
    BsiOptions,
    RangeBitmapOptions,
)
from app.file_index.index_writer import write_index
from app.file_index.key_column import KeyColumn
from app.file_index.table_options import IndexDefinition
from app.options.map_keys import split_map_key
from app.types import TypeRoot
from app.types.data_types import STRING_ROOTS

if TYPE_CHECKING:
    from app.building.column_types import ColumnTypes
    from app.building.columns import Advance
    from app.building.data_files import DataFile
    from app.file_index.index_options import IndexOptions
    from app.types import DataType

_FEW_VALUES: Final = 500
_ROWS_PER_VALUE: Final = 4
_LARGE_PART: Final = 0.2
_KILOBYTE: Final = 1000
_ENGINE_COLUMNS: Final = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND"})
_ENGINE_PREFIX: Final = "_KEY_"
_REASONS: Final = {
    IndexKind.BITMAP: "few values",
    IndexKind.RANGE_BITMAP: "many values that have an order",
    IndexKind.BLOOM_FILTER: "many values, of which single ones are asked for",
    IndexKind.BSI: "many values, too wide for other indexes",
}


@dataclass(frozen=True, slots=True)
class ColumnAdvice:
    """What a column is worth.

    Attributes:
        column: its name.
        reason: why it should have this index, or none.
        data_type: its type; None if nobody tells it.
        distinct: number of distinct values; None where no index could hold them.
        null_count: number of rows without a value; None likewise.
        index: the proposed index, if there is one.
        size_bytes: of the index.
        warning: what it would cost without its options, or what to consider instead.
    """

    column: str
    reason: str
    data_type: DataType | None = None
    distinct: int | None = None
    null_count: int | None = None
    index: IndexDefinition | None = None
    size_bytes: int = 0
    warning: str | None = None


def advise(
    file: DataFile, types: ColumnTypes, advance: Advance = ignore_progress
) -> tuple[ColumnAdvice, ...]:
    """Judges every column of a data file that belongs to its table, one after the other.

    Args:
        file: the data file.
        types: of its columns.
        advance: told of columns.

    Raises:
        CorruptFileError: the file is damaged.
        StorageError: it cannot be read.
    """
    judged = []
    for column in file.schema.names:
        if column not in _ENGINE_COLUMNS and not column.startswith(_ENGINE_PREFIX):
            judged.append(_advise_column(file, types, column))
        advance(1)
    return tuple(judged)


def table_options(advice: tuple[ColumnAdvice, ...]) -> dict[str, str]:
    """The table options that ask for the proposed indexes."""
    indexes = [each.index for each in advice if each.index]
    options = {
        f"file-index.{kind}.columns": ",".join(index.column for index in indexes if index.kind is kind)
        for kind in IndexKind
        if any(index.kind is kind for index in indexes)
    }
    for index in indexes:
        if isinstance(index.options, BloomFilterOptions):
            options[f"file-index.{index.kind}.{index.column}.items"] = str(index.options.items)
    return options


def _advise_column(file: DataFile, types: ColumnTypes, column: str) -> ColumnAdvice:
    try:
        data_type = types[column]
    except RequestError as error:
        return ColumnAdvice(column, str(error))
    if data_type.root is TypeRoot.MAP:
        return ColumnAdvice(column, f"list single keys of the map, as {column}[key]", data_type)
    if not _suited(data_type):
        return ColumnAdvice(column, "no index takes this type", data_type)
    try:
        keys = KeyColumn.of(read_columns(file, [column])[column], data_type, column)
        return _propose(file, keys)
    except IndexWriteError as error:
        return ColumnAdvice(column, f"an index cannot hold it: {error}", data_type)


def _propose(file: DataFile, keys: KeyColumn) -> ColumnAdvice:
    column, data_type = keys.name, keys.data_type
    distinct, null_count = len(keys.distinct().keys), keys.row_count - len(keys.value_rows)
    kind = _kind(data_type, distinct, len(keys.value_rows))
    if distinct == 0:
        reason = "no row has a value, as statistics tell"
    elif distinct == 1 and null_count == 0:
        reason = "every row has the same value, as statistics tell"
    else:
        reason = _obstacle(column, kind) or ""
    if reason:
        return ColumnAdvice(column, reason, data_type, distinct, null_count)
    options = _options(kind, distinct)
    size_bytes = len(write_index(kind, keys, options))
    return ColumnAdvice(
        column,
        _REASONS[kind],
        data_type,
        distinct,
        null_count,
        IndexDefinition(column, kind, data_type, options),
        size_bytes,
        _warning(file, column, kind, size_bytes, distinct),
    )


def _suited(data_type: DataType) -> list[IndexKind]:
    return [kind for kind in IndexKind if takes(kind, data_type)]


def _kind(data_type: DataType, distinct: int, values: int) -> IndexKind:
    suited = _suited(data_type)
    few = distinct <= _FEW_VALUES and distinct * _ROWS_PER_VALUE <= values
    if IndexKind.BITMAP in suited and (few or data_type.root is TypeRoot.BOOLEAN):
        return IndexKind.BITMAP
    if IndexKind.RANGE_BITMAP in suited and data_type.root not in STRING_ROOTS:
        return IndexKind.RANGE_BITMAP
    return IndexKind.BLOOM_FILTER if IndexKind.BLOOM_FILTER in suited else IndexKind.BSI


def _options(kind: IndexKind, distinct: int) -> IndexOptions:
    match kind:
        case IndexKind.BLOOM_FILTER:
            return BloomFilterOptions(_items(distinct))
        case IndexKind.BITMAP:
            return BitmapOptions()
        case IndexKind.RANGE_BITMAP:
            return RangeBitmapOptions()
        case IndexKind.BSI:
            return BsiOptions()
        case _:
            assert_never(kind)


def _items(distinct: int) -> int:
    """The number of values rounded up to two digits, which holds for files that have a few more."""
    unit: int = 10 ** max(0, len(str(distinct)) - 2)
    return -(-distinct // unit) * unit


def _warning(file: DataFile, column: str, kind: IndexKind, size_bytes: int, distinct: int) -> str | None:
    if kind is IndexKind.BLOOM_FILTER:
        wasted_bytes = payload_bytes(DEFAULT_ITEMS, DEFAULT_FPP) - size_bytes
        return (
            f"without items, the {kind} of {column!r} would be made for {DEFAULT_ITEMS:,} values and waste "
            f"{wasted_bytes / _KILOBYTE:,.0f} KB beside the {file.row_count:,} rows of this file"
            if wasted_bytes > 0
            else None
        )
    if kind is IndexKind.RANGE_BITMAP and size_bytes > file.size_bytes * _LARGE_PART:
        items = _items(distinct)
        return (
            f"the {kind} of {column!r} takes {size_bytes / file.size_bytes:.0%} of the file's size: if only "
            f"single values are asked for, a {IndexKind.BLOOM_FILTER} of {items:,} items takes "
            f"{payload_bytes(items, DEFAULT_FPP) / _KILOBYTE:,.0f} KB"
        )
    return None


def _obstacle(column: str, kind: IndexKind) -> str | None:
    """Why options cannot ask for an index; None if they can."""
    if "," in column or column != column.strip() or not column or split_map_key(column)[1] is not None:
        return "options cannot list a column of this name"
    if kind is IndexKind.BLOOM_FILTER and "." in column:
        return "options cannot set the size of a bloom filter on a name with a dot"
    return None
