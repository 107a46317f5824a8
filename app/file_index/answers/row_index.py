"""What bitmap, range-bitmap and bsi have in common: they know the rows of each key.

What each of them says of one file are the four sets of :class:`RowIndex`; of many files an answer for each
instead of a set of rows, as in :class:`RowStack`. How a condition is put together from these is the same for
all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.file_index.answers.conditions import SHORT_LIST, Condition, NullTest, OutOfTime, Points, Span
from app.file_index.answers.file_answers import Answer, Answers, everywhere
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

    def key_counts(self, rows: BitMap | None) -> Iterator[tuple[Key, int]]:
        """Keys, ascending, and how many of ``rows`` (None: of all) have each; keys of none are left out."""


def select(index: RowIndex, condition: Condition) -> Result:
    """Rows that meet the condition."""
    match condition:
        case NullTest(null=True):
            matching = index.null_rows()
        case NullTest():
            matching = index.value_rows()
        case Points(keys, negated=True):
            matching = index.value_rows() - index.rows_with(keys)
        case Points(keys):
            matching = index.rows_with(keys)
        case Span(start, stop):
            matching = index.rows_between(start, stop)
        case _:
            assert_never(condition)
    return rows(matching, exact=condition.exact)


def all_rows(row_count: int) -> BitMap:
    """Every position of a file."""
    return BitMap(range(row_count))


KnownRows = TypeVar("KnownRows", bound=RowIndex)


class RowStack(ABC, Generic[KnownRows]):
    """A :class:`app.file_index.kind.FileStack` of m files that answers any condition.

    Sets of answers have the shape (m,): SKIP, DOUBT or ROWS. Some are shared: nobody may change them.
    """

    __slots__ = ()

    @abstractmethod
    def of_file(self, file: int) -> KnownRows:
        """What one file's index says, which is there and not broken."""

    @abstractmethod
    def null_rows(self) -> Answers:
        """Whether rows have no value."""

    @abstractmethod
    def value_rows(self) -> Answers:
        """Whether rows have a value."""

    @abstractmethod
    def rows_with(self, keys: Sequence[Key]) -> Answers:
        """Whether rows have one of ``keys``, which ascend."""

    @abstractmethod
    def rows_without(self, keys: Sequence[Key]) -> Answers:
        """Whether rows have a value, but none of ``keys``, which ascend."""

    @abstractmethod
    def rows_between(self, start: Key | None, stop: Key | None) -> Answers:
        """Whether rows have a key from ``start`` up to, but without, ``stop``; None leaves a side open."""

    def answers(self, condition: Condition, files: NDArray[np.int64], out_of_time: OutOfTime) -> Answers:
        """Whether ``files`` can have rows that meet a condition, in the order of ``files``."""
        match condition:
            case Points(keys) if len(keys) > SHORT_LIST and out_of_time():
                return everywhere(Answer.UNASKED, len(files))
            case NullTest(null=True):
                rows_of_files = self.null_rows()
            case NullTest():
                rows_of_files = self.value_rows()
            case Points(keys, negated=True):
                rows_of_files = self.rows_without(keys)
            case Points(keys):
                rows_of_files = self.rows_with(keys)
            case Span(start, stop):
                rows_of_files = self.rows_between(start, stop)
            case _:
                assert_never(condition)
        return rows_of_files[files]
