"""Whether bitmap, range-bitmap and bsi name the right rows, no more and no fewer.

Every key is looked up as the planner looks it up. A bitmap is asked for the rows of each; the two kinds of
bit slices would walk all slices for every question, so their rows are decoded once and compared with what
the look-up of each key says. Comparisons and ranges follow from these; some of them are asked nevertheless,
through the same code that plans ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.building.actual_values import ActualValues
from app.file_index.answers.conditions import Condition, Points, Span
from app.file_index.answers.result import Rows
from app.file_index.answers.row_index import select
from app.file_index.bitmap.bitmap import BitmapIndex
from app.file_index.bsi.bsi import BitSlicedIntegers
from app.file_index.keys.keys import after
from app.file_index.range_bitmap.range_bitmap import RangeBitmap
from app.file_index.shared.bit_slices import BitSlices
from app.types.roaring import bitmap_of

_ASKED_BOUNDS = 4
_LARGEST = np.uint64(np.iinfo(np.int64).max)

ExactIndex: TypeAlias = BitmapIndex | RangeBitmap | BitSlicedIntegers

_Numbers: TypeAlias = "tuple[NDArray[np.uint32], NDArray[np.int64]]"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A row about which an index errs.

    Attributes:
        row: the row.
        lost: whether the index leaves out a row that matches; else it names one that does not.
        question: what the index was asked, as the end of an SQL condition.
    """

    row: int
    lost: bool
    question: str


def find_mismatch(
    index: ExactIndex, actual: ActualValues, checked: NDArray[np.int64], random: np.random.Generator
) -> Mismatch | None:
    """The first row that an index leaves out, else one that it names wrongly; None if all are right.

    Args:
        index: of as many rows as the column has.
        actual: the column.
        checked: ranks of the keys to look up, ascending.
        random: chooses the bounds of ranges.

    Raises:
        CorruptIndexError: the index cannot be decoded.
    """
    first = None
    for wrong in _mismatches(index, actual, checked, random):
        if wrong.lost:
            return wrong
        first = first or wrong
    return first


def _mismatches(
    index: ExactIndex, actual: ActualValues, checked: NDArray[np.int64], random: np.random.Generator
) -> Iterator[Mismatch]:
    yield from _compare(index.null_rows(), actual.null_rows(), "IS NULL")
    yield from _compare(index.value_rows(), bitmap_of(actual.column.value_rows), "IS NOT NULL")
    match index:
        case BitmapIndex():
            for rank in checked.tolist():
                found, expected = index.rows_with((actual.key(rank),)), actual.rows_of(rank)
                if found != expected:
                    yield from _compare(found, expected, f"= {actual.shown(rank)}")
        case RangeBitmap():
            codes = [(rank, index.code(actual.key(rank))) for rank in checked.tolist()]
            held = np.array([(rank, code) for rank, code in codes if code is not None], np.int64)
            yield from _wrong_numbers([_codes(index.slices)], held.reshape(-1, 2), actual, checked)
        case BitSlicedIntegers():
            held = np.stack([checked, np.asarray(actual.keys, np.int64)[checked]], axis=1)
            yield from _wrong_numbers(list(_values(index)), held, actual, checked)
        case _:
            assert_never(index)
    for condition, chosen, question in _conditions(actual, checked, random):
        result = select(index, condition)
        positions = result.positions if isinstance(result, Rows) else BitMap()
        yield from _compare(positions, actual.rows_where(chosen), question)


def _codes(slices: BitSlices) -> _Numbers:
    rows, codes = slices.codes()
    return rows, np.minimum(codes, _LARGEST).astype(np.int64)


def _values(index: BitSlicedIntegers) -> Iterator[_Numbers]:
    """The rows of each sign with their values, as the index answers for them."""
    for part, sign in ((index.positive, 1), (index.negative, -1)):
        if part is None:
            continue
        rows, codes = part.slices.codes()
        # Whatever stands above the largest value is found under it.
        values = np.minimum(codes, np.uint64(part.high - part.low)).astype(np.int64) + part.low
        # Nobody looks for 0 among the negative values.
        counts = (values != 0) | (sign > 0)
        yield rows[counts], sign * values[counts]


def _wrong_numbers(
    parts: list[_Numbers], held: NDArray[np.int64], actual: ActualValues, checked: NDArray[np.int64]
) -> Iterator[Mismatch]:
    """Rows whose number is not that of their key: the first that is left out, and one that is named wrongly.

    Args:
        parts: rows, each with the number that the index gives it.
        held: the keys that the index has: shape (n, 2), the rank of each and its number.
        actual: the column.
        checked: ranks of the keys that it should have.
    """
    # The last place stands for rows without a key.
    number_of, has_number, is_checked = (
        np.zeros(len(actual.keys) + 1, kind) for kind in (np.int64, bool, bool)
    )
    number_of[held[:, 0]], has_number[held[:, 0]], is_checked[checked] = held[:, 1], True, True
    right = np.zeros(actual.column.row_count, np.bool_)
    for rows, numbers in parts:
        own = actual.ranks[rows]
        right[rows] |= has_number[own] & (number_of[own] == numbers)
    lost = np.flatnonzero(is_checked[actual.ranks] & ~right)
    if len(lost):
        row = int(lost[0])
        yield Mismatch(row, lost=True, question=f"= {actual.shown(int(actual.ranks[row]))}")
    by_number = held[np.argsort(held[:, 1], kind="stable")]
    for rows, numbers in parts:
        places = np.searchsorted(by_number[:, 1], numbers)
        candidates = np.flatnonzero(places < len(by_number))
        ranks, found = by_number[places[candidates]].T
        wrong = np.flatnonzero((found == numbers[candidates]) & (ranks != actual.ranks[rows[candidates]]))
        if len(wrong):
            question = f"= {actual.shown(int(ranks[wrong[0]]))}"
            yield Mismatch(int(rows[candidates[wrong[0]]]), lost=False, question=question)


def _conditions(
    actual: ActualValues, checked: NDArray[np.int64], random: np.random.Generator
) -> Iterator[tuple[Condition, NDArray[np.bool_], str]]:
    """Conditions, each with the keys that meet it and its text."""
    ranks = np.arange(len(actual.keys))
    yield Span(None, None), ranks >= 0, "IS NOT NULL"
    count = min(_ASKED_BOUNDS, len(checked))
    bounds = np.unique(np.concatenate([checked[:1], random.choice(checked, count), checked[-1:]])).tolist()
    for bound in bounds:
        key, value = actual.key(bound), actual.shown(bound)
        yield Points((key,)), ranks == bound, f"= {value}"
        yield Points((key,), negated=True), ranks != bound, f"<> {value}"
        yield Span(None, key), ranks < bound, f"< {value}"
        yield Span(None, after(key)), ranks <= bound, f"<= {value}"
        yield Span(key, None), ranks >= bound, f">= {value}"
        yield Span(after(key), None), ranks > bound, f"> {value}"
    for low, high in pairwise(bounds):
        question = f"BETWEEN {actual.shown(low)} AND {actual.shown(high)}"
        yield Span(actual.key(low), after(actual.key(high))), (ranks >= low) & (ranks <= high), question


def _compare(found: BitMap, expected: BitMap, question: str) -> Iterator[Mismatch]:
    for wrong, lost in ((expected - found, True), (found - expected, False)):
        if wrong:
            yield Mismatch(wrong.min(), lost, question)
