"""Proposes indexes for the columns of a data file, by their values.

============================================================  =========================================
column                                                        proposal
============================================================  =========================================
without values, or with one value in every row                none: statistics suffice
BOOLEAN, or at most 500 values with 4 rows each on average    bitmap
numbers, dates, times and timestamps of up to 6 digits        range-bitmap
strings, binaries and timestamps of more digits               bloom-filter, sized for the values
DECIMAL of more than 18 digits                                bsi
maps                                                          none: only single keys can have one
other types                                                   none
============================================================  =========================================

Sizes are measured: each proposed index is built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from app.building.columns import Advance, ColumnTypes, DataFile, ignore_progress, read_columns
from app.errors import IndexWriteError, RequestError
from app.file_index import KINDS, IndexDefinition, IndexKind, KeyColumn
from app.file_index.bloom_filter import BLOOM_FILTER, DEFAULT_FPP, DEFAULT_ITEMS, payload_bytes, rounded_items
from app.file_index.container import write_index
from app.file_index.kind import ColumnProfile, Proposal
from app.file_index.range_bitmap import RANGE_BITMAP
from app.options import split_map_key
from app.types import DataType, TypeRoot

_LARGE_PART: Final = 0.2
# A proposed index that takes a larger part of its data file gets a warning.
_LARGEST_PART: Final = 1 / 3
_KILOBYTE: Final = 1000
_ENGINE_COLUMNS: Final = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND"})
_ENGINE_PREFIX: Final = "_KEY_"


@dataclass(frozen=True, slots=True)
class ColumnAdvice:
    """Advice on one column."""

    column: str
    reason: str  # Reason for this index, or against any.
    data_type: DataType | None = None
    distinct: int | None = None  # Number of distinct values; None if no index could hold them.
    null_count: int | None = None
    index: IndexDefinition | None = None
    size_bytes: int = 0
    warning: str | None = None  # Cost of the index without the options, or an alternative.


def advise(
    file: DataFile, types: ColumnTypes, advance: Advance = ignore_progress
) -> tuple[ColumnAdvice, ...]:
    """Judge each of the table's columns in a data file, in order.

    Raises CorruptFileError for a damaged file, StorageError if it cannot be read.
    """
    judged = []
    for column in file.schema.names:
        if column not in _ENGINE_COLUMNS and not column.startswith(_ENGINE_PREFIX):
            judged.append(_advise_column(file, types, column))
        advance(1)
    return tuple(judged)


def table_options(advice: tuple[ColumnAdvice, ...]) -> dict[str, str]:
    """Return the table options that declare the proposed indexes."""
    indexes = [column.index for column in advice if column.index]
    options = {
        f"file-index.{kind}.columns": ",".join(index.column for index in indexes if index.kind == kind)
        for kind in KINDS
        if any(index.kind == kind for index in indexes)
    }
    for index in indexes:
        for name, text in index.kind.written_options(index.options).items():
            options[f"file-index.{index.kind}.{index.column}.{name}"] = text
    return options


def _advise_column(file: DataFile, types: ColumnTypes, column: str) -> ColumnAdvice:
    try:
        data_type = types[column]
    except RequestError as error:
        return ColumnAdvice(column, str(error))
    if data_type.root is TypeRoot.MAP:
        return ColumnAdvice(column, f"list single keys of the map, as {column}[key]", data_type)
    if not any(kind.takes(data_type) for kind in KINDS.values()):
        return ColumnAdvice(column, "no index takes this type", data_type)
    try:
        keys = KeyColumn.of(read_columns(file, [column])[column], data_type, column)
        return _propose(file, keys)
    except IndexWriteError as error:
        return ColumnAdvice(column, f"an index cannot hold it: {error}", data_type)


def _propose(file: DataFile, keys: KeyColumn) -> ColumnAdvice:
    column, data_type = keys.name, keys.data_type
    distinct, null_count = len(keys.distinct().keys), keys.row_count - len(keys.value_rows)
    proposals = _proposals(ColumnProfile(data_type, distinct, len(keys.value_rows)))
    if distinct == 0:
        reason = "no row has a value, as statistics show"
    elif distinct == 1 and null_count == 0:
        reason = "every row has the same value, as statistics show"
    elif not proposals:
        reason = "no index suits its values"
    else:
        reason = _obstacle(column, *proposals[0]) or ""
    if reason:
        return ColumnAdvice(column, reason, data_type, distinct, null_count)
    kind, proposal = proposals[0]
    size_bytes = len(write_index(kind, keys, proposal.options))
    return ColumnAdvice(
        column,
        proposal.reason,
        data_type,
        distinct,
        null_count,
        IndexDefinition(column, kind, data_type, proposal.options),
        size_bytes,
        _warning(file, column, kind, size_bytes, distinct),
    )


def _proposals(profile: ColumnProfile) -> list[tuple[IndexKind, Proposal[Any]]]:
    taken = [kind for kind in KINDS.values() if kind.takes(profile.data_type)]
    proposals = [(kind, made) for kind in taken if (made := kind.propose(profile)) is not None]
    return sorted(proposals, key=lambda item: item[1].rank, reverse=True)


def size_warning(file: DataFile, advice: tuple[ColumnAdvice, ...]) -> str | None:
    """Warn of the size of all proposed indexes together. Return None if they suit the data file."""
    size_bytes = sum(column.size_bytes for column in advice)
    if size_bytes <= file.size_bytes * _LARGEST_PART:
        return None
    return (
        f"together the proposed indexes take {size_bytes / file.size_bytes:.0%} of the data file's size: "
        "list only columns that filters name"
    )


def _warning(file: DataFile, column: str, kind: IndexKind, size_bytes: int, distinct: int) -> str | None:
    warning = _warning_of_kind(file, column, kind, size_bytes, distinct)
    if size_bytes <= file.size_bytes * _LARGEST_PART or kind == RANGE_BITMAP:
        return warning
    large = f"the {kind} of {column!r} takes {size_bytes / file.size_bytes:.0%} of the data file's size"
    return large if warning is None else f"{large}; {warning}"


def _warning_of_kind(
    file: DataFile, column: str, kind: IndexKind, size_bytes: int, distinct: int
) -> str | None:
    if kind == BLOOM_FILTER:
        wasted_bytes = payload_bytes(DEFAULT_ITEMS, DEFAULT_FPP) - size_bytes
        return (
            f"without items, the {kind} of {column!r} would be made for {DEFAULT_ITEMS:,} values and waste "
            f"{wasted_bytes / _KILOBYTE:,.0f} KB beside the {file.row_count:,} rows of this file"
            if wasted_bytes > 0
            else None
        )
    if kind == RANGE_BITMAP and size_bytes > file.size_bytes * _LARGE_PART:
        items = rounded_items(distinct)
        return (
            f"the {kind} of {column!r} takes {size_bytes / file.size_bytes:.0%} of the file's size: if only "
            f"single values are asked for, a {BLOOM_FILTER} of {items:,} items takes "
            f"{payload_bytes(items, DEFAULT_FPP) / _KILOBYTE:,.0f} KB"
        )
    return None


def _obstacle(column: str, kind: IndexKind, proposal: Proposal[Any]) -> str | None:
    if "," in column or column != column.strip() or not column or split_map_key(column)[1] is not None:
        return "options cannot list a column of this name"
    if kind.written_options(proposal.options) and "." in column:
        return f"options cannot set the size of a {kind} on a name with a dot"
    return None
