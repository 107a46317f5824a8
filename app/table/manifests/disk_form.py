"""Stores manifests, and values derived from them, as columns on disk, to map them instead of decoding.

A mapped manifest takes a column from its entry on first use: unused ones, such as statistics of columns
without a filter, take no memory. A damaged column is taken from the original, which is decoded again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from app.predicates import ColumnBounds
from app.storage import Columns, DamagedEntryError, TierEntry
from app.table.manifests.manifest import COLUMNS, Manifest
from app.table.manifests.manifest_entry import StatisticsColumns
from app.table.records.columns import NameLists, OptionalIntegers
from app.types import BytesColumn

_WHOLE: Final = "whole"
# An object of these is stored as a struct within one whose only member has the name of its class.
_CLASSES: Final[dict[str, type]] = {
    of_arrays.__name__: of_arrays
    for of_arrays in (BytesColumn, StatisticsColumns, OptionalIntegers, NameLists, ColumnBounds)
}


class _NoColumnError(Exception):
    """A value has Python objects, which no array of numbers holds."""


def load_value(entry: TierEntry) -> Any:
    """Load the value of a disk entry. Return None if there is none, or if it is damaged."""
    columns = entry.get()
    return None if columns is None else read_value(columns, entry)


def read_value(columns: Columns, entry: TierEntry) -> Any:
    """Decode a value from columns of an entry. Damage drops the entry and returns None."""
    try:
        return _value(columns, columns[_WHOLE])
    except DamagedEntryError:
        entry.drop()
        return None


def store_value(entry: TierEntry, value: object) -> None:
    """Store a value on disk, unless it has arrays of Python objects."""
    with suppress(_NoColumnError):
        entry.put(value_columns(value))


def value_columns(value: object) -> dict[str, pa.Array]:
    """Encode a value as columns. It must have no arrays of Python objects."""
    return {_WHOLE: _column(value)}


def _column(value: object) -> pa.Array:
    """Encode a value as an array of one item: a struct of members, or a list."""
    match value:
        case None:
            return pa.nulls(1)
        case np.ndarray():
            if value.dtype.hasobject:
                raise _NoColumnError
            values = np.ascontiguousarray(value)
            is_truth = values.dtype == np.bool_
            return _long(pa.Bool8Array.from_numpy(values) if is_truth else pa.array(values))
        case pa.LargeBinaryArray():
            return _long(value)
        case tuple():
            return pa.array([value])
        case dict():
            return pa.StructArray.from_arrays(list(map(_column, value.values())), names=list(value))
        case _:
            members = {member.name: getattr(value, member.name) for member in fields(cast("Any", value))}
            return pa.StructArray.from_arrays([_column(members)], names=[type(value).__name__])


def _long(values: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def _value(columns: Columns, column: pa.Array) -> Any:
    match column:
        case pa.NullArray():
            return None
        case pa.StructArray():
            names = tuple(column.type.names)
            members = [_value(columns, column.field(at)) for at in range(len(names))]
            of_arrays = _CLASSES.get(names[0]) if len(names) == 1 else None
            return dict(zip(names, members, strict=True)) if of_arrays is None else of_arrays(**members[0])
        case pa.LargeListArray():
            values = column.values
            return values if isinstance(values, pa.LargeBinaryArray) else columns.view(values)
        case _:
            return _tuple(column[0].as_py())


def _tuple(items: list[Any]) -> tuple[Any, ...]:
    return tuple(_tuple(item) if isinstance(item, list) else item for item in items)


# Objects of a manifest, without its columns; measured.
_MEMORY: Final = 6_000


def manifest_columns(manifest: Manifest) -> dict[str, pa.Array]:
    """Return the columns that store a manifest."""
    return {name: _column(getattr(manifest, name)) for name in COLUMNS}


def open_manifest(columns: Columns, entry: TierEntry | None, read: Callable[[], Manifest]) -> Manifest:
    """Open a manifest over columns of an entry. ``read`` decodes the original if a column is damaged."""

    def column(name: str) -> Any:
        try:
            return _value(columns, columns[name])
        except DamagedEntryError:
            if entry is not None:
                entry.drop()
            return getattr(read(), name)

    return Manifest(column, columns.length("kinds"), _MEMORY + columns.held)
