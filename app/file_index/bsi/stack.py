"""The bit-sliced integers of one column of many files, compared by the heads of their parts.

The heads settle a condition that excludes all values of a file, or includes the largest absolute value of a
sign, which some row always has. Any other file stays in doubt until its rows are looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from app.file_index.answers import Answer, Answers, RowStack, everywhere, where
from app.file_index.bsi.bsi import LARGEST_ABSOLUTE, VERSION, BitSlicedIntegers
from app.file_index.keys.keys import Key
from app.file_index.payloads import Cursors, skip_bitmaps
from app.file_index.shared.bit_slices import MAX_SLICES, null_rows
from app.types import NULL_LENGTH, BytesColumn


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The values of one sign in m files. ``existing``: bitmaps of the rows with such a value."""

    present: NDArray[np.bool_]
    # Absolute values, int64, shape (m,): a lower bound, and the largest.
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    existing: BytesColumn

    def between(self, first: int, last: int) -> Answers:
        """Return files with an absolute value from ``first`` to ``last`` (below 2 ** 63)."""
        if first > last:
            return everywhere(Answer.SKIP, len(self.low))
        touched = where(self.present & (first <= self.high) & (self.low <= last), Answer.DOUBT)
        touched[(touched == Answer.DOUBT) & (self.high <= last)] = Answer.ROWS
        return touched

    def among(self, values: NDArray[np.int64]) -> Answers:
        answers = where(self.present & (self._count(values) > 0), Answer.DOUBT)
        answers[self._holds_high(values)] = Answer.ROWS
        return answers

    def without(self, values: NDArray[np.int64]) -> Answers:
        answers = where(self.present, Answer.ROWS)
        answers[self._holds_high(values)] = Answer.DOUBT
        answers[self.present & (self._count(values) > self.high - self.low)] = Answer.SKIP
        return answers

    def _count(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(values, self.high, "right") - np.searchsorted(values, self.low)

    def _holds_high(self, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self.present & np.isin(self.high, values)


@dataclass(frozen=True, eq=False)
class BsiStack(RowStack[BitSlicedIntegers]):
    """Values of m files, in a part for values >= 0 and one for values < 0."""

    payloads: BytesColumn
    row_counts: NDArray[np.int64]
    positive: _Part
    negative: _Part
    broken: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, *, strict: bool = False) -> Self:
        """Read many payloads. See :meth:`app.file_index.kind.Kind.stack`."""
        cursors = Cursors.of(payloads, strict=strict)
        cursors.version("bsi", VERSION)
        row_counts = cursors.count("row count")
        positive = _read_part(cursors, "values >= 0", least=0)
        negative = _read_part(cursors, "values < 0", least=1)
        return cls(payloads, row_counts, positive, negative, ~payloads.is_null & ~cursors.sound)

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the shared buffer."""
        parts = [
            column.nbytes
            for part in (self.positive, self.negative)
            for column in (part.present, part.low, part.high, part.existing.starts, part.existing.lengths)
        ]
        arrays = (self.payloads.starts, self.payloads.lengths, self.row_counts, self.broken)
        return sum(array.nbytes for array in arrays) + sum(parts)

    @override
    def of_file(self, file: int) -> BitSlicedIntegers:
        return BitSlicedIntegers.of(self.payloads.view(file) or b"")

    @override
    def null_rows(self) -> Answers:
        return self._null_rows

    @override
    def value_rows(self) -> Answers:
        return where(self.positive.present | self.negative.present, Answer.ROWS)

    @override
    def rows_with(self, keys: Sequence[Key]) -> Answers:
        values, absolutes = _by_sign(keys)
        return np.maximum(self.positive.among(values), self.negative.among(absolutes))

    @override
    def rows_without(self, keys: Sequence[Key]) -> Answers:
        values, absolutes = _by_sign(keys)
        return np.maximum(self.positive.without(values), self.negative.without(absolutes))

    @override
    def rows_between(self, start: Key | None, stop: Key | None) -> Answers:
        first = -LARGEST_ABSOLUTE if start is None else max(int(start), -LARGEST_ABSOLUTE)
        last = LARGEST_ABSOLUTE if stop is None else min(int(stop) - 1, LARGEST_ABSOLUTE)
        return np.maximum(
            self.positive.between(max(first, 0), last), self.negative.between(max(-last, 1), -first)
        )

    @cached_property
    def _null_rows(self) -> Answers:
        return null_rows([self.positive.existing, self.negative.existing], self.row_counts)


def _by_sign(keys: Sequence[Key]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return keys >= 0, and absolute values of negative keys. Both ascend and exclude more than 63 bits."""
    representable = [int(key) for key in keys if abs(int(key)) <= LARGEST_ABSOLUTE]
    return (
        np.array([key for key in representable if key >= 0], np.int64),
        np.array([-key for key in reversed(representable) if key < 0], np.int64),
    )


def _read_part(cursors: Cursors, label: str, *, least: int) -> _Part:
    flags = cursors.flag(f"flag of {label}")
    present = cursors.sound & (flags == 1)
    files = np.flatnonzero(present)
    parts = cursors.take(files)
    parts.version("part of a bsi", VERSION)
    lows, highs = parts.i64("smallest absolute value"), parts.i64("largest absolute value")
    parts.expect((lows >= 0) & (lows <= highs), "the smallest absolute value up to the largest", highs)
    existing_at = parts.at
    skip_bitmaps(parts)
    existing_lengths = parts.at - existing_at
    slices = parts.i32("number of slices")
    # The difference has at most 63 bits, so a shift by 63 gives 0.
    enough = (highs - lows) >> np.clip(slices, 0, 63) == 0
    parts.expect((slices >= 0) & (slices <= MAX_SLICES) & enough, f"slices for all {label}", slices)
    for number in range(int(slices.max(initial=0, where=parts.sound))):
        more = np.flatnonzero(parts.sound & (slices > number))
        measured = parts.take(more)
        skip_bitmaps(measured)
        parts.put(more, measured)
    cursors.put(files, parts)
    low, high, starts = (np.zeros(len(flags), np.int64) for _ in range(3))
    lengths = np.full(len(flags), NULL_LENGTH)
    low[files], high[files] = np.minimum(np.maximum(lows, least), highs), highs
    starts[files], lengths[files] = existing_at, existing_lengths
    return _Part(present, low, high, BytesColumn(cursors.data, starts, lengths))
