"""How far the statistics of data files are to be trusted: what their formats' writers do with NaN.

To SQL NaN is the largest value. The engine's Parquet writer gives a column that holds NaN no bounds. ORC and
Avro leave NaN out of them, so NaN may stand above the maximum. ORC moreover compares with the first value
that it met: where that is NaN, both bounds are NaN for ever, whatever else the column holds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from app.types.data_types import FLOATING_ROOTS

if TYPE_CHECKING:
    from app.predicates.column_bounds import ColumnBounds
    from app.types import DataType
    from app.types.bytes_column import BytesColumn

_COUNTS_NAN: Final = b".parquet"


def trusted_bounds(stated: ColumnBounds, data_type: DataType, file_names: BytesColumn) -> ColumnBounds:
    """What may be concluded from the statistics of a column.

    Args:
        stated: the statistics, in the type of the plan, shape (n,).
        data_type: that type.
        file_names: names of the data files, whose endings tell their formats, shape (n,).
    """
    if data_type.root not in FLOATING_ROOTS:
        return stated
    poisoned = stated.has_low & np.isnan(stated.low) | stated.has_high & np.isnan(stated.high)
    return replace(
        stated,
        has_low=stated.has_low & ~poisoned,
        has_high=stated.has_high & ~poisoned,
        may_hold_nan=~file_names.ends_with(_COUNTS_NAN),
    )
