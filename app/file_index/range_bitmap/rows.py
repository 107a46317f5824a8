"""The rows of many files by their range-bitmaps.

Codes of keys are found in all dictionaries side by side. Slices that are stored as bits are combined side by
side (:mod:`app.file_index.shared.dense_rows`). Others are measured side by side and decoded file by file,
since which of them a file needs depends on the rows that those before have left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from app.errors import CorruptIndexError
from app.file_index.answers.conditions import NullTest, Points, Span
from app.file_index.answers.row_index import all_rows
from app.file_index.answers.row_stack import SelectingRows
from app.file_index.payloads.bitmaps import StoredBitmaps
from app.file_index.payloads.cursors import Cursors, integers
from app.file_index.range_bitmap.dictionaries import read_values
from app.file_index.range_bitmap.stack import RangeBitmapStack
from app.file_index.range_bitmap.stored_rows import StoredParts, StoredRows
from app.file_index.shared.bit_slices import MAX_SLICES, rows_in_spans
from app.file_index.shared.dense_bitmaps import DenseBitmaps
from app.file_index.shared.dense_rows import MOST_ROWS, select_dense
from app.file_index.shared.directory import read_integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyroaring import BitMap

    from app.file_index.answers.conditions import Condition
    from app.file_index.keys.keys import Key, KeySpace
    from app.file_index.range_bitmap.ordered_keys import OrderedKeys
    from app.file_index.shared.bit_slices import CodeSpan

_CARDINALITY_AT = 9
_BOUNDS_AT = 13
_LENGTH_BYTES = 4
_MOST_BITS = MAX_SLICES - 2
"""A code has fewer, and the end of a span that has none is of so many."""
_MOST_KEYS = 16
"""Longer lists are looked up file by file."""


class SelectingRangeBitmapStack(RangeBitmapStack, SelectingRows):
    """A stack that selects rows."""

    __slots__ = ()

    @classmethod
    def rows(
        cls, parts: Sequence[tuple[Self, NDArray[np.int64]]], condition: Condition
    ) -> list[BitMap | None]:
        """As :meth:`SelectingRows.rows`."""
        if not _can_select(condition, parts[0][0].space):
            return [None] * sum(len(files) for _, files in parts)
        return select_rows(StoredRows.of_parts(parts), condition)


def _can_select(condition: Condition, space: KeySpace) -> bool:
    """Whether keys are looked up here; texts and long lists are left to the files' own readers."""
    if isinstance(condition, Points) and len(condition.keys) > _MOST_KEYS:
        return False
    return isinstance(condition, NullTest) or space.width is not None


def select_rows(stored: StoredRows, condition: Condition) -> list[BitMap | None]:
    """The rows of files that meet a condition.

    Args:
        stored: their indexes.
        condition: what is asked, of null rows or of integers.

    Returns:
        A set for each file; None where the file's own reader has to be asked, since something is wrong.
    """
    match condition:
        case NullTest(null):
            slices = _Slices(stored, np.zeros(len(stored), np.int64))
            return [slices.null_rows(at) if null else slices.existing(at) for at in range(len(stored))]
        case Points(keys, negated=negated):
            dictionaries, sound = _dictionaries(stored, stored.space.width)
            spans = _spans_of_keys(dictionaries, keys)
        case Span(start, stop):
            negated = False
            dictionaries, sound = _dictionaries(stored, stored.space.width)
            spans = _spans_between(dictionaries, start, stop)
    spans = [each if is_sound else [] for each, is_sound in zip(spans, sound.tolist(), strict=True)]
    found = _select_dense(stored, spans, negated=negated)
    left = np.fromiter((each is None for each in found), bool, len(found)) & sound
    if not left.any():
        return found
    wanted = left & np.fromiter((bool(each) for each in spans), bool, len(spans))
    slices = _Slices(stored, np.where(wanted, stored.slices, 0))
    for at in np.flatnonzero(left).tolist():
        found[at] = slices.select(at, spans[at], negated=negated)
    return found


def _select_dense(
    stored: StoredRows, spans: Sequence[Sequence[CodeSpan]], *, negated: bool
) -> list[BitMap | None]:
    """The rows of those files that have one span, and slices that can be combined as they are stored."""
    row_counts = stored.row_counts
    found: list[BitMap | None] = [None] * len(stored)
    is_dense = (row_counts > 0) & (row_counts <= MOST_ROWS)
    at = np.flatnonzero(is_dense & np.fromiter((len(each) == 1 for each in spans), bool, len(spans)))
    counts = stored.slices.take(at)
    parts = StoredParts.read(stored.take(at), counts)
    bitmaps = DenseBitmaps.read(stored.payloads.data, parts.starts, parts.lengths, parts.limits)
    usable = np.bincount(parts.owners, ~bitmaps.usable, len(at)) == 0
    low, high = (np.array([spans[place][0][end] for place in at.tolist()], np.int64) for end in (0, 1))
    # The end of a span may lie above all codes, and so may its start.
    high = np.minimum(high, np.int64(1) << np.minimum(counts, _MOST_BITS)) - 1
    usable &= low <= high
    existing = np.flatnonzero(usable)
    at, counts, low, high = at[usable], counts[usable], low[usable], high[usable]
    selected = select_dense(
        bitmaps, existing, (parts.firsts[usable], counts), (low, high), row_counts[at], negated=negated
    )
    for place, rows in zip(at.tolist(), selected, strict=True):
        found[place] = rows
    return found


def _dictionaries(stored: StoredRows, width: int | None) -> tuple[OrderedKeys, NDArray[np.bool_]]:
    """The keys of files, of a width; and which dictionaries agree with the bounds that stand before them."""
    assert width is not None  # noqa: S101 - texts were left to the readers of single files
    payloads, data = stored.payloads, stored.payloads.data
    cardinalities = integers(data, payloads.starts + _CARDINALITY_AT, ">i4")
    bounds_at = payloads.starts + _BOUNDS_AT
    lengths_at = bounds_at + np.where(cardinalities > 0, 2 * width, 0)
    if stored.ordered is None:
        starts = lengths_at + _LENGTH_BYTES
        ends = starts + integers(data, lengths_at, ">i4")
        cursors = Cursors(data, starts, ends, np.ones(len(stored), bool))
        keys = read_values(cursors, stored.space, cardinalities, width)
        sound = cursors.sound.copy()
    else:
        keys, sound = stored.ordered, np.ones(len(stored), bool)
    valued = np.flatnonzero(sound & (keys.distinct > 0))
    behind = np.cumsum(keys.distinct)
    for at, places in ((0, (behind - keys.distinct)[valued]), (width, behind[valued] - 1)):
        stated = read_integers(data, bounds_at[valued] + at, stored.space)
        sound[valued] &= stated == keys.values[places]
    return keys, sound


def _spans_of_keys(dictionaries: OrderedKeys, keys: Sequence[Key]) -> list[list[CodeSpan]]:
    spans: list[list[CodeSpan]] = [[] for _ in range(len(dictionaries.distinct))]
    for key in keys:
        codes, found = dictionaries.codes(key)
        for at in np.flatnonzero(found).tolist():
            code = int(codes[at])
            spans[at].append((code, code + 1))
    return spans


def _spans_between(dictionaries: OrderedKeys, start: Key | None, stop: Key | None) -> list[list[CodeSpan]]:
    distinct = dictionaries.distinct
    first = np.zeros(len(distinct), np.int64) if start is None else dictionaries.codes(start)[0]
    behind = distinct if stop is None else dictionaries.codes(stop)[0]
    # No row has a code above the last one; a span to the end of all codes spares the walk along its edge.
    last = np.where(behind < distinct, behind, np.int64(1) << _MOST_BITS)
    return [
        [(low, high)] if is_open else []
        for low, high, is_open in zip(first.tolist(), last.tolist(), (first < last).tolist(), strict=True)
    ]


class _Slices:
    """The bit slices of files, measured.

    Args:
        stored: their indexes.
        slices: shape (k,): how many slices of each are going to be asked for: all or none.
    """

    def __init__(self, stored: StoredRows, slices: NDArray[np.int64]) -> None:
        parts = StoredParts.read(stored, slices)
        self._bitmaps = StoredBitmaps.measure(
            stored.payloads.data, parts.starts, parts.limits, parts.lengths, parts.row_counts
        )
        self._counts = slices.tolist()
        self._firsts = parts.firsts.tolist()
        self._row_counts = stored.row_counts.tolist()

    def existing(self, at: int) -> BitMap | None:
        """Rows of a file that have a value."""
        return self._bitmaps.decode(at)

    def null_rows(self, at: int) -> BitMap | None:
        """Rows of a file without a value."""
        existing = self.existing(at)
        return None if existing is None else all_rows(self._row_counts[at]) - existing

    def select(self, at: int, spans: Sequence[CodeSpan], *, negated: bool) -> BitMap | None:
        """Rows of a file whose code stands in one of ``spans``; with ``negated`` those with another code."""
        try:
            found = rows_in_spans(
                lambda: self._whole(at),
                spans,
                self._counts[at],
                lambda level: self._whole(self._firsts[at] + level),
            )
            return self._whole(at) - found if negated else found
        except CorruptIndexError:
            return None

    def _whole(self, number: int) -> BitMap:
        found = self._bitmaps.decode(number)
        if found is None:
            raise CorruptIndexError("expected a bitmap, found none")
        return found
