"""Stored values as Spark reads them: what groups and ends are of.

Spark pads CHAR(n) to n characters and cuts timestamps to microseconds. Writers pad or not, and keep up to
nine digits, so that values which differ where they are stored may be one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.aggregates.answers import Function
from app.planning.plan.state import PlanState
from app.planning.version.version import Version
from app.predicates.verdicts import ColumnBounds
from app.types import DataType, TypeRoot, Value
from app.types.civil_time import NANOS_PER_MICRO
from app.types.data_types import TIMESTAMP_ROOTS
from app.types.value_arrays import Values, group_rows
from app.types.values import sql_key

_BLANK: Final = b" "
_CONTINUATION: Final = bytes(range(0x80, 0xC0))
"""Bytes that go on with a character of UTF-8."""


def partition_counts(
    version: Version, state: PlanState, place: int, files: NDArray[np.int64]
) -> list[tuple[Value | None, int]]:
    """Values of the partition column at ``place``, and how many rows are left of files of each."""
    column, codes = version.schema.partition_fields[place], state.files.columns.partition_codes[files]
    counts = []
    for members in group_rows(codes):
        partition = state.files.columns.partitions[int(codes[members[0]])]
        stored = version.partitions.values(partition)[place]
        value = None if stored is None else _as_read(stored, column.type)
        counts.append((value, int(state.rows_left[files[members]].sum())))
    return counts


@dataclass(frozen=True, slots=True)
class Ends:
    """Between what the values of open files lie; None where that is not known."""

    low: Value | None = None
    high: Value | None = None
    key: Callable[[Value], Any] = int

    @classmethod
    def of(cls, bounds: ColumnBounds | None, data_type: DataType, rows: NDArray[np.int64]) -> Ends:
        """The ends of the values of files of which so many rows may count, int64, shape (n,)."""
        if bounds is None:
            return cls()
        # A file whose values are all NULL has no bounds, and none are needed.
        matter = (rows > 0) & (bounds.null_count != bounds.row_count)
        has_low, has_high = bool(bounds.has_low[matter].all()), bool(bounds.has_high[matter].all())
        lows = _taken(bounds.low, matter) if has_low else []
        highs = _taken(bounds.high, matter) if has_high and not bounds.may_hold_nan[matter].any() else []
        read_highs = [high for each in highs if (high := _high_end(each, data_type)) is not None]
        key = sql_key(data_type)
        return cls(
            min((_low_end(each, data_type) for each in lows), key=key, default=None),
            max(read_highs, key=key) if highs and len(read_highs) == len(highs) else None,
            key,
        )

    def around(self, function: Function, settled: Value | None) -> tuple[Value | None, Value | None]:
        """Between what MIN or MAX lies that is ``settled`` without open files."""
        if settled is None:
            return self.low, self.high
        if function is Function.MIN:
            return None if self.low is None else min(self.low, settled, key=self.key), settled
        return settled, None if self.high is None else max(self.high, settled, key=self.key)


def _as_read(value: Value, data_type: DataType) -> Value:
    """A stored value as Spark reads it; of all but CHAR and long timestamps the value itself."""
    if isinstance(value, bytes) and data_type.root is TypeRoot.CHAR:
        characters = len(value.translate(None, _CONTINUATION))
        return value + _BLANK * (data_type.precision - characters)
    if isinstance(value, int) and data_type.root in TIMESTAMP_ROOTS:
        return value - value % NANOS_PER_MICRO
    return value


def _low_end(stored: Value, data_type: DataType) -> Value:
    """What no value is below, stored or read, of those that are stored from here on."""
    return min(stored, _as_read(stored, data_type))


def _high_end(stored: Value, data_type: DataType) -> Value | None:
    """What no value is above, stored or read, of those that are stored up to here; None if nothing tells.

    A beginning of it that goes on below a blank is above it when padded.
    """
    if data_type.root is TypeRoot.CHAR and isinstance(stored, bytes):
        return None if any(byte < _BLANK[0] for byte in stored) else _as_read(stored, data_type)
    return max(stored, _as_read(stored, data_type))


def _taken(values: Values, matter: NDArray[np.bool_]) -> list[Value]:
    taken: list[Value]
    if isinstance(values, np.ndarray):
        taken = values[matter].tolist()
    else:
        taken = values.filter(pa.array(matter)).to_pylist()
    return taken
