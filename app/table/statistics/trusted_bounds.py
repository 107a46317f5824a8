"""How far the statistics of data files are to be trusted: what their formats' writers do with some values.

To SQL NaN is the largest value. The engine's Parquet writer gives a column that holds NaN no bounds. ORC and
Avro leave NaN out of them, so NaN may stand above the maximum. ORC moreover compares with the first value
that it met: where that is NaN, both bounds are NaN for ever, whatever else the column holds.

The ORC writer of releases 0.4 and 0.5 cuts the greatest timestamp of a file to milliseconds. No file tells by
which release it was written, so a maximum of whole milliseconds stands for every value of its millisecond.
(The minimum is cut as well, downwards, and stays below all values.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from app.types.data_types import FLOATING_ROOTS, TIMESTAMP_ROOTS
from app.types.value_arrays import INT64
from app.types.values import NANOS_PER_MILLI

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.predicates.column_bounds import ColumnBounds
    from app.types import DataType
    from app.types.bytes_column import BytesColumn
    from app.types.value_arrays import Values

_COUNTS_NAN: Final = b".parquet"
_MAY_CUT_TIMES: Final = b".orc"
_LAST_NANO: Final = NANOS_PER_MILLI - 1


def trusted_bounds(stated: ColumnBounds, data_type: DataType, file_names: BytesColumn) -> ColumnBounds:
    """What may be concluded from the statistics of a column.

    Args:
        stated: the statistics, in the type of the plan, shape (n,).
        data_type: that type.
        file_names: names of the data files, whose endings tell their formats, shape (n,).
    """
    if data_type.root in TIMESTAMP_ROOTS and not data_type.is_compact_timestamp:
        may_be_cut = stated.has_high & file_names.ends_with(_MAY_CUT_TIMES)
        return replace(stated, high=_up_to_next_millisecond(stated.high, may_be_cut))
    if data_type.root not in FLOATING_ROOTS:
        return stated
    poisoned = stated.has_low & np.isnan(stated.low) | stated.has_high & np.isnan(stated.high)
    return replace(
        stated,
        has_low=stated.has_low & ~poisoned,
        has_high=stated.has_high & ~poisoned,
        may_hold_nan=~file_names.ends_with(_COUNTS_NAN),
    )


def _up_to_next_millisecond(high: Values, may_be_cut: NDArray[np.bool_]) -> Values:
    """Nanoseconds; the last of its millisecond for each of whole milliseconds that may be cut."""
    cut = may_be_cut & (high % NANOS_PER_MILLI == 0)
    if high.dtype == np.int64 and (high[cut] > INT64.max - _LAST_NANO).any():
        high = high.astype(object)
    return np.where(cut, high + _LAST_NANO, high)
