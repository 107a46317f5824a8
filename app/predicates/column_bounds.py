"""Bounds of one column over many files.

Bounds *enclose* the values of a file; they need not be values themselves (writers cut long strings).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from app.types import value_arrays
from app.types.value_arrays import Values

UNKNOWN_COUNT: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBounds:
    """What is known of a column's values in each of n files; every array has the shape (n,).

    Attributes:
        low: not above any value of the file, in a form of :mod:`app.types.value_arrays`; means nothing
            where ``has_low`` is False.
        high: not below any value, save NaN where ``may_hold_nan``; means nothing where ``has_high`` is False.
        has_low: whether the lower bound is known; it is not where every row is NULL.
        null_count: int64, rows with NULL; -1 where unknown.
        row_count: int64, all rows.
        may_hold_nan: there may be NaN, which ``high`` does not take into account.
    """

    low: Values
    high: Values
    has_low: NDArray[np.bool_]
    has_high: NDArray[np.bool_]
    null_count: NDArray[np.int64]
    row_count: NDArray[np.int64]
    may_hold_nan: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row_count)

    @property
    def nbytes(self) -> int:
        """About how much memory the arrays take; none of it that is mapped counts."""
        return sum(value_arrays.memory_bytes(getattr(self, each.name)) for each in fields(self))

    def take(self, files: NDArray[np.int64]) -> Self:
        """The bounds of the files at some positions, in that order."""
        return type(self)(*(getattr(self, each.name).take(files) for each in fields(self)))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The bounds of one column over the files of all parts, of which there is at least one."""
        if len(parts) == 1:
            return parts[0]
        names = [each.name for each in fields(cls)]
        return cls(*(value_arrays.concat([getattr(part, name) for part in parts]) for name in names))
