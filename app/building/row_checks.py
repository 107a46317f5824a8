"""Checks that bitmap, range-bitmap and bsi find exactly the right rows, and that bloom filters lose none.

Keys are looked up as in the planner. Bit slices are decoded once and compared instead, since each look-up
would walk all slices. Some comparisons and ranges are evaluated as in plans. The rate of absent values that a
bloom filter admits is estimated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.file_index import KeyColumn
from app.file_index.answers import Answer, Condition, Points, Rows, Span, never_out_of_time, select
from app.file_index.bitmap import BitmapIndex
from app.file_index.bloom_filter import BloomFilter, hash_keys, places
from app.file_index.bsi import BitSlicedIntegers
from app.file_index.keys import ArrowKeys, Key, after
from app.file_index.kind import FileStack
from app.file_index.range_bitmap import RangeBitmap
from app.file_index.shared.bit_slices import BitSlices
from app.types import BytesColumn, Json, to_json
from app.types.roaring import bitmap_of

_ASKED_BOUNDS = 4
_LARGEST = np.uint64(np.iinfo(np.int64).max)

ExactIndex: TypeAlias = BitmapIndex | RangeBitmap | BitSlicedIntegers

_Numbers: TypeAlias = "tuple[NDArray[np.uint32], NDArray[np.int64]]"

_ABSENT_KEYS: Final = 50_000
_ABSENT_BYTES: Final = 16
_ASKED_KEYS: Final = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class ActualValues:
    """Rows grouped by the key of their value."""

    column: KeyColumn
    keys: ArrowKeys  # Distinct, ascending; n of them.
    ranks: NDArray[np.int64]  # Shape (rows,): place of each row's key in ``keys``, -1 for none.
    grouped: NDArray[np.uint32]  # Rows with a value, by the rank of their key, then ascending.
    starts: NDArray[np.int64]  # Shape (n + 1,): start of each key's rows in ``grouped``.

    @classmethod
    def of(cls, column: KeyColumn) -> Self:
        """Group the rows of a column by their keys."""
        distinct = column.distinct()
        ranks = np.full(column.row_count, -1, np.int64)
        ranks[column.value_rows] = distinct.codes
        grouped = column.value_rows[np.argsort(distinct.codes, kind="stable")]
        counts = np.bincount(distinct.codes, minlength=len(distinct.keys))
        return cls(column, distinct.keys, ranks, grouped, np.concatenate([[0], np.cumsum(counts)]))

    def key(self, rank: int) -> Key:
        """Return one of the keys."""
        if not isinstance(self.keys, BytesColumn):
            return int(self.keys[rank])
        view = self.keys.view(rank)
        return b"" if view is None else bytes(view)

    def rows_of(self, rank: int) -> BitMap:
        """Return the rows with one key."""
        return bitmap_of(self.grouped[self.starts[rank] : self.starts[rank + 1]])

    def rows_where(self, chosen: NDArray[np.bool_]) -> BitMap:
        """Return the rows whose key has a true flag in ``chosen``, shape (n,)."""
        # Rows without a key have rank -1, which takes the flag appended last.
        return bitmap_of(np.flatnonzero(np.append(chosen, False)[self.ranks]).astype(np.uint32))

    def null_rows(self) -> BitMap:
        """Return the rows without a value."""
        return bitmap_of(self.column.null_rows)

    def value(self, rank: int) -> Json:
        """Return a value that has one of the keys."""
        return to_json(self.column.space.value(self.key(rank)), self.column.data_type)

    def shown(self, rank: int) -> str:
        """Return :meth:`value` as text for messages, cut if it is long."""
        return f"{json.dumps(self.value(rank), ensure_ascii=False):.100}"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A row about which an index errs."""

    row: int
    lost: bool  # True if the index skips this matching row, False if it wrongly names the row.
    question: str  # The condition as the end of an SQL expression, such as ``= 5``.


def find_mismatch(
    index: ExactIndex, actual: ActualValues, checked: NDArray[np.int64], random: np.random.Generator
) -> Mismatch | None:
    """Return the first row that an index skips, else one that it names wrongly. Return None if all are right.

    ``checked``: ranks of the keys to look up, ascending. Raises CorruptIndexError if the index cannot be
    decoded.
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
                indexed, expected = index.rows_with((actual.key(rank),)), actual.rows_of(rank)
                if indexed != expected:
                    yield from _compare(indexed, expected, f"= {actual.shown(rank)}")
        case RangeBitmap():
            codes = [(rank, index.code(actual.key(rank))) for rank in checked.tolist()]
            numbered = np.array([(rank, code) for rank, code in codes if code is not None], np.int64)
            yield from _wrong_numbers([_codes(index.slices)], numbered.reshape(-1, 2), actual, checked)
        case BitSlicedIntegers():
            numbered = np.stack([checked, np.asarray(actual.keys, np.int64)[checked]], axis=1)
            yield from _wrong_numbers(list(_values(index)), numbered, actual, checked)
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
    for part, sign in ((index.positive, 1), (index.negative, -1)):
        if part is None:
            continue
        rows, codes = part.slices.codes()
        # The planner clips at the largest value, so it finds rows with codes above it under that value.
        values = np.minimum(codes, np.uint64(part.high - part.low)).astype(np.int64) + part.low
        # The planner looks for 0 among the positive values only.
        counts = (values != 0) | (sign > 0)
        yield rows[counts], sign * values[counts]


def _wrong_numbers(
    parts: list[_Numbers], numbered: NDArray[np.int64], actual: ActualValues, checked: NDArray[np.int64]
) -> Iterator[Mismatch]:
    """Yield a skipped row and wrongly named ones, if any: rows whose number is not that of their key.

    ``parts``: rows with the numbers that the index gives them. ``numbered``: keys of the index, shape (n, 2):
    rank and number of each.
    """
    # One more place than keys: rows without a key have rank -1.
    number_of, has_number, is_checked = (
        np.zeros(len(actual.keys) + 1, kind) for kind in (np.int64, bool, bool)
    )
    number_of[numbered[:, 0]], has_number[numbered[:, 0]], is_checked[checked] = numbered[:, 1], True, True
    is_right = np.zeros(actual.column.row_count, np.bool_)
    for rows, numbers in parts:
        own_ranks = actual.ranks[rows]
        is_right[rows] |= has_number[own_ranks] & (number_of[own_ranks] == numbers)
    lost = np.flatnonzero(is_checked[actual.ranks] & ~is_right)
    if len(lost):
        row = int(lost[0])
        yield Mismatch(row, lost=True, question=f"= {actual.shown(int(actual.ranks[row]))}")
    by_number = numbered[np.argsort(numbered[:, 1], kind="stable")]
    for rows, numbers in parts:
        places = np.searchsorted(by_number[:, 1], numbers)
        candidates = np.flatnonzero(places < len(by_number))
        ranks, numbered_as = by_number[places[candidates]].T
        wrong = np.flatnonzero(
            (numbered_as == numbers[candidates]) & (ranks != actual.ranks[rows[candidates]])
        )
        if len(wrong):
            question = f"= {actual.shown(int(ranks[wrong[0]]))}"
            yield Mismatch(int(rows[candidates[wrong[0]]]), lost=False, question=question)


def _conditions(
    actual: ActualValues, checked: NDArray[np.int64], random: np.random.Generator
) -> Iterator[tuple[Condition, NDArray[np.bool_], str]]:
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


def _compare(indexed: BitMap, expected: BitMap, question: str) -> Iterator[Mismatch]:
    for wrong, lost in ((expected - indexed, True), (indexed - expected, False)):
        if wrong:
            yield Mismatch(wrong.min(), lost, question)


@dataclass(frozen=True, slots=True)
class BloomFindings:
    """Measured quality of a bloom filter."""

    hash_functions: int
    size_bits: int
    # Measured share of absent values that pass. None if every value of the type is present.
    false_positive_rate: float | None
    expected_rate: float  # Computed from its size and the number of distinct values.
    wasted_bytes: int  # Bytes that its hash functions do not need for these distinct values.


def find_refused(
    stack: FileStack[object], actual: ActualValues, checked: NDArray[np.int64], random: np.random.Generator
) -> Mismatch | None:
    """Return the first row whose value the index of a stack of one file refuses.

    Return None if there is none.

    ``random``: chooses keys to look up one by one in a bloom filter, as plans do, after all keys have been
    looked up together.
    """
    index, refused, single = stack.of_file(0), checked[:0], checked
    if isinstance(index, BloomFilter):
        refused = checked[~_admitted(index, actual.keys.take(checked))]
        single = random.choice(checked, min(_ASKED_KEYS, len(checked)), replace=False)
    file = np.zeros(1, np.int64)
    alone = [
        rank
        for rank in single.tolist()
        if stack.answers(Points((actual.key(rank),)), file, never_out_of_time)[0] == Answer.SKIP
    ]
    ranks = np.concatenate([refused, np.array(alone, np.int64)])
    if not len(ranks):
        return None
    # The rows of a key ascend, so its first one is the smallest.
    row = int(actual.grouped[actual.starts[ranks]].min())
    return Mismatch(row, lost=True, question=f"= {actual.shown(int(actual.ranks[row]))}")


def measure(bloom: BloomFilter, actual: ActualValues, random: np.random.Generator) -> BloomFindings:
    """Measure the rate of absent values that a filter admits, and compute the expected one."""
    size_bits, distinct = 8 * len(bloom.bits), len(actual.keys)
    absent = _absent_keys(actual, random)
    rate = float(_admitted(bloom, absent).mean()) if len(absent) else None
    expected = (1 - math.exp(-bloom.hash_functions * distinct / size_bits)) ** bloom.hash_functions
    needed_bytes = math.ceil(distinct * bloom.hash_functions / math.log(2) / 8)
    wasted_bytes = max(0, len(bloom.bits) - max(1, needed_bytes))
    return BloomFindings(bloom.hash_functions, size_bits, rate, expected, wasted_bytes)


def _admitted(bloom: BloomFilter, keys: ArrowKeys) -> NDArray[np.bool_]:
    bits = np.frombuffer(bloom.bits, np.uint8)
    parts = [np.zeros(0, np.bool_)]
    for hashes in hash_keys(keys, bloom.space):
        admitted = np.ones(len(hashes), np.bool_)
        for place in places(hashes, bloom.hash_functions, 8 * len(bits)):
            admitted &= bits[place >> 3] >> (place & 7) & 1 != 0
        parts.append(admitted)
    return np.concatenate(parts)


def _absent_keys(actual: ActualValues, random: np.random.Generator) -> ArrowKeys:
    if isinstance(actual.keys, BytesColumn):
        # Random strings of this length do not occur in data.
        drawn = random.bytes(_ABSENT_KEYS * _ABSENT_BYTES)
        starts = np.arange(_ABSENT_KEYS, dtype=np.int64) * _ABSENT_BYTES
        return BytesColumn(np.frombuffer(drawn, np.uint8), starts, np.full(_ABSENT_KEYS, _ABSENT_BYTES))
    span = np.iinfo(actual.keys.dtype)
    drawn_keys = random.integers(span.min, span.max, _ABSENT_KEYS, actual.keys.dtype, endpoint=True)
    return drawn_keys[~np.isin(drawn_keys, actual.keys)]
