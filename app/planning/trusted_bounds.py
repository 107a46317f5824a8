"""How far the statistics of a data file are to be trusted: what its format's writer does with NaN.

To SQL NaN is the largest value. The engine's Parquet writer gives a column that holds NaN no bounds. ORC and
Avro leave NaN out of them, so NaN may stand above the maximum. ORC moreover compares with the first value
that it met: where that is NaN, both bounds are NaN for ever, whatever else the column holds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from app.predicates.bounds import ColumnBounds
from app.types.data_types import FLOATING_ROOTS

if TYPE_CHECKING:
    from app.table.statistics import ColumnStatistics
    from app.types import DataType, Value

_COUNTS_NAN = ".parquet"


def trusted_bounds(stated: ColumnStatistics, data_type: DataType, file_name: str) -> ColumnBounds:
    """What may be concluded from a column's statistics.

    Args:
        stated: the statistics, in the type of the plan.
        data_type: that type.
        file_name: the data file's name, whose ending tells its format.
    """
    if data_type.root not in FLOATING_ROOTS:
        return ColumnBounds(stated.min, stated.max, stated.null_count, stated.row_count)
    if _is_nan(stated.min) or _is_nan(stated.max):
        return ColumnBounds(None, None, stated.null_count, stated.row_count)
    return ColumnBounds(
        stated.min,
        stated.max,
        stated.null_count,
        stated.row_count,
        may_hold_nan=not file_name.endswith(_COUNTS_NAN),
    )


def _is_nan(bound: Value | None) -> bool:
    return isinstance(bound, float) and math.isnan(bound)
