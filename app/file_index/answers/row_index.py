"""What bitmap, range-bitmap and bsi have in common: they know the rows of each key.

Each of them offers the four sets of :class:`RowIndex`; how a condition is put together from these is the same
for all and stands here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, assert_never

from pyroaring import BitMap

from app.file_index.answers.conditions import Condition, NullTest, Points, Span
from app.file_index.answers.result import Result, rows
from app.file_index.keys.keys import Key


class RowIndex(Protocol):
    """Rows by key. Bitmaps that come out are the caller's own."""

    @property
    def row_count(self) -> int:
        """Rows of the data file."""

    def null_rows(self) -> BitMap:
        """Rows without a value."""

    def value_rows(self) -> BitMap:
        """Rows with a value."""

    def rows_with(self, keys: Sequence[Key]) -> BitMap:
        """Rows that have one of ``keys``, which ascend."""

    def rows_between(self, start: Key | None, stop: Key | None) -> BitMap:
        """Rows with a key from ``start`` up to, but without, ``stop``; None leaves a side open."""


def select(index: RowIndex, condition: Condition) -> Result:
    """Rows that meet the condition."""
    match condition:
        case NullTest(null=True):
            found = index.null_rows()
        case NullTest():
            found = index.value_rows()
        case Points(keys, negated=True):
            found = index.value_rows() - index.rows_with(keys)
        case Points(keys):
            found = index.rows_with(keys)
        case Span(start, stop):
            found = index.rows_between(start, stop)
        case _:
            assert_never(condition)
    return rows(found, exact=condition.exact)


def all_rows(row_count: int) -> BitMap:
    """Every position of a file."""
    return BitMap(range(row_count))
