"""Between what the values of files lie that leave an aggregate open, by the bounds in their statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.aggregates.answers import Function
from app.aggregates.read_values import high_end, low_end
from app.predicates.column_bounds import ColumnBounds
from app.types import DataType, TypeRoot, Value
from app.types.data_types import INTEGER_BITS
from app.types.value_arrays import Values
from app.types.values import sql_key

SUMMED: Final = frozenset({*INTEGER_BITS, TypeRoot.DECIMAL})
"""Types whose sums are exact."""


def _as_it_is(value: Value) -> Value:
    return value


@dataclass(frozen=True, slots=True)
class Ends:
    """Between what the values of open files lie; None where that is not known.

    Attributes:
        low: not above any value.
        high: not below any value.
        least_sum: not above the sum of the values of any of their rows.
        greatest_sum: not below it.
        key: under which values compare as SQL compares them.
    """

    low: Value | None = None
    high: Value | None = None
    least_sum: int | None = None
    greatest_sum: int | None = None
    key: Callable[[Value], Any] = _as_it_is

    @classmethod
    def of(cls, bounds: ColumnBounds | None, data_type: DataType, rows: NDArray[np.int64]) -> Ends:
        """The ends of the values of files of which so many rows may count."""
        if bounds is None:
            return cls()
        matter = rows > 0
        # A file whose values are all NULL has no bounds, and none are needed.
        matter &= bounds.null_count != bounds.row_count
        if not matter.any():
            return cls(least_sum=0, greatest_sum=0)
        has_low, has_high = bool(bounds.has_low[matter].all()), bool(bounds.has_high[matter].all())
        lows = _taken(bounds.low, matter) if has_low else []
        highs = _taken(bounds.high, matter) if has_high and not bounds.may_hold_nan[matter].any() else []
        lows = [low_end(each, data_type) for each in lows]
        read_highs = [high_end(each, data_type) for each in highs]
        highs = [each for each in read_highs if each is not None]
        if len(highs) < len(read_highs):
            highs = []
        key = sql_key(data_type)
        least = greatest = None
        if data_type.root in SUMMED and lows and highs:
            counts = rows[matter].tolist()
            least = sum(min(0, int(low)) * count for low, count in zip(lows, counts, strict=True))
            greatest = sum(max(0, int(high)) * count for high, count in zip(highs, counts, strict=True))
        return cls(min(lows, key=key, default=None), max(highs, key=key, default=None), least, greatest, key)

    def around(self, function: Function, settled: Value | None) -> tuple[Value | None, Value | None]:
        """Between what an aggregate lies that is ``settled`` without open files."""
        match function:
            case Function.MIN:
                low = (
                    self.low if settled is None or self.low is None else min(self.low, settled, key=self.key)
                )
                return low, self.high if settled is None else settled
            case Function.MAX:
                high = (
                    self.high
                    if settled is None or self.high is None
                    else max(self.high, settled, key=self.key)
                )
                return self.low if settled is None else settled, high
            case _:
                total = int(settled or 0)
                least = None if self.least_sum is None else total + self.least_sum
                return least, None if self.greatest_sum is None else total + self.greatest_sum


UNKNOWN: Final = Ends()


def _taken(values: Values, matter: NDArray[np.bool_]) -> list[Value]:
    found: list[Value]
    if isinstance(values, np.ndarray):
        found = values[matter].tolist()
    else:
        found = values.filter(pa.array(matter)).to_pylist()
    return found
