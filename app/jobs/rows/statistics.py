"""Statistics of a new data file, collected while its rows are written.

Bounds of strings are cut to the table's number of characters: a lower bound is a prefix, an upper one a
prefix whose last character is replaced by the next one. Columns with NaN and binary columns have no bounds,
and nested columns have no statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from app.options import ALL, DataFileOptions, StatisticsMode
from app.table.manifests import RowStatistics
from app.types import BINARY_ROOTS, FLOATING_ROOTS, NESTED_ROOTS, DataField, Value
from app.types.arrow_fields import field_values
from app.types.binary_row import serialize_row

_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)


@dataclass(slots=True)
class ColumnStatistics:
    """Statistics of one column. ``bounds`` holds smallest and largest values in one-element arrays."""

    column: DataField
    mode: StatisticsMode
    nulls: int = 0
    bounds: list[pa.Array] = field(default_factory=list)
    is_bounded: bool = True

    def add(self, array: pa.Array) -> None:
        """Add values."""
        self.nulls += array.null_count
        root = self.column.type.root
        if self.mode.characters is None or root in BINARY_ROOTS or not self.is_bounded:
            return
        if root in FLOATING_ROOTS and pc.any(pc.is_nan(array)).as_py():
            self.is_bounded = False
            return
        if array.null_count < len(array):
            bounds = pc.min_max(array)
            self.bounds += [_single(bounds[which]) for which in ("min", "max")]

    def lower(self) -> Value | None:
        """Return the lower bound. Return None if it is unknown."""
        value = self._bound("min")
        if isinstance(value, float) and value == 0:
            # SQL holds the zeros equal, so bounds cover both.
            return -0.0
        if isinstance(value, bytes) and self._cuts(value):
            return value.decode()[: self.mode.characters].encode()
        return value

    def upper(self) -> Value | None:
        """Return the upper bound. Return None if it is unknown."""
        value = self._bound("max")
        if isinstance(value, float) and value == 0:
            return 0.0
        if isinstance(value, bytes) and self._cuts(value):
            return _next_prefix(value.decode()[: self.mode.characters])
        return value

    def _cuts(self, value: bytes) -> bool:
        return self.mode.characters not in (None, ALL) and len(value.decode()) > (self.mode.characters or 0)

    def _bound(self, which: str) -> Value | None:
        if not self.bounds or not self.is_bounded:
            return None
        bound = pc.min_max(pa.concat_arrays(self.bounds))[which]
        (value,) = field_values(_single(bound), self.column.type).tolist()
        return None if isinstance(value, float) and math.isnan(value) else value


def collectors(columns: Sequence[DataField], options: DataFileOptions) -> list[ColumnStatistics]:
    """Return empty statistics of the columns that have statistics."""
    modes = [options.mode(column.name, at) for at, column in enumerate(columns)]
    return [
        ColumnStatistics(column, mode)
        for column, mode in zip(columns, modes, strict=True)
        if mode.nulls and column.type.root not in NESTED_ROOTS
    ]


def row_statistics(collected: Sequence[ColumnStatistics], columns: Sequence[DataField]) -> RowStatistics:
    """Return statistics with a slot for each of ``columns``, unknown where none were collected."""
    by_id = {statistics.column.id: statistics for statistics in collected}
    of_columns = [by_id.get(column.id) for column in columns]
    types = [column.type for column in columns]
    return RowStatistics(
        serialize_row(
            [None if statistics is None else statistics.lower() for statistics in of_columns], types
        ),
        serialize_row(
            [None if statistics is None else statistics.upper() for statistics in of_columns], types
        ),
        tuple(None if statistics is None else statistics.nulls for statistics in of_columns),
    )


def _single(scalar: pa.Scalar) -> pa.Array:
    return pa.repeat(scalar, 1)


def _next_prefix(prefix: str) -> bytes | None:
    """Return the smallest string above all strings with a prefix. Return None if there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at]) + 1
        if code > _LAST_CHARACTER:
            continue
        if _SURROGATES[0] <= code <= _SURROGATES[1]:
            code = _SURROGATES[1] + 1
        return (prefix[:at] + chr(code)).encode()
    return None
