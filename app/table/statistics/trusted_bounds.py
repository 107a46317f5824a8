"""How far the statistics of data files are to be trusted: what their formats' writers do with some values.

To SQL NaN is the largest value. The engine's Parquet writer gives a column that holds NaN no bounds. ORC and
Avro leave NaN out of them, so NaN may stand above the maximum. ORC moreover compares with the first value
that it met: where that is NaN, both bounds are NaN for ever, whatever else the column holds. Writers in Rust
and Python leave NaN out of the bounds of Parquet files, too; whether there may be such files is known of the
warehouse, not of a file (:class:`app.planning.version.file_bounds.FileBounds`).

The greatest timestamp of a file may be cut, by the ORC writer of releases 0.4 and 0.5 to milliseconds, by
pypaimon to microseconds. No file tells who wrote it, so a maximum of whole milliseconds or microseconds
stands for every value of its milli- or microsecond. (The minimum is cut as well, downwards, and stays below
all values.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.predicates.column_bounds import ColumnBounds
from app.types import DataType
from app.types.bytes_column import BytesColumn
from app.types.data_types import FLOATING_ROOTS, TIMESTAMP_ROOTS
from app.types.time_units import NANOS_PER_MICRO, NANOS_PER_MILLI
from app.types.value_arrays import INT64, Values

_COUNTS_NAN: Final = b".parquet"
_MAY_CUT_TIMES: Final = b".orc"
_MICRO_DIGITS: Final = 6


def trusted_bounds(stated: ColumnBounds, data_type: DataType, file_names: BytesColumn) -> ColumnBounds:
    """What may be concluded from the statistics of a column.

    Args:
        stated: the statistics, in the type of the plan, shape (n,).
        data_type: that type.
        file_names: names of the data files, whose endings tell their formats, shape (n,).
    """
    if data_type.root in TIMESTAMP_ROOTS and not data_type.is_compact_timestamp:
        may_be_cut = stated.has_high & file_names.ends_with(_MAY_CUT_TIMES)
        to_millis = replace(stated, high=_up_to_next(NANOS_PER_MILLI, stated.high, may_be_cut))
        return with_cut_micros(to_millis, data_type)
    if data_type.root not in FLOATING_ROOTS:
        return stated
    poisoned = stated.has_low & np.isnan(stated.low) | stated.has_high & np.isnan(stated.high)
    return replace(
        stated,
        has_low=stated.has_low & ~poisoned,
        has_high=stated.has_high & ~poisoned,
        may_hold_nan=~file_names.ends_with(_COUNTS_NAN),
    )


def with_cut_micros(stated: ColumnBounds, data_type: DataType) -> ColumnBounds:
    """Bounds whose maximum may be cut to microseconds, where the type has more digits."""
    if data_type.root not in TIMESTAMP_ROOTS or data_type.precision <= _MICRO_DIGITS:
        return stated
    return replace(stated, high=_up_to_next(NANOS_PER_MICRO, stated.high, stated.has_high))


def _up_to_next(unit: int, high: Values, may_be_cut: NDArray[np.bool_]) -> Values:
    """Nanoseconds; for each of whole units that may be cut the last one of its unit."""
    cut = may_be_cut & (high % unit == 0)
    if high.dtype == np.int64 and (high[cut] > INT64.max - unit).any():
        high = high.astype(object)
    return np.where(cut, high + (unit - 1), high)
