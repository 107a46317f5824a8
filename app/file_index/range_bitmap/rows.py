"""The rows of many files by their range-bitmaps.

Codes of keys are found in all dictionaries side by side, and all bitmaps are measured side by side. Which
slices a file needs depends on the rows that the slices before have left, so they are decoded file by file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.errors import CorruptIndexError
from app.file_index.answers.conditions import NullTest, Points, Span
from app.file_index.answers.row_index import all_rows
from app.file_index.payloads.bitmaps import StoredBitmaps
from app.file_index.payloads.cursors import Cursors, integers, runs_of
from app.file_index.range_bitmap.bit_slice_index import ENTRY
from app.file_index.range_bitmap.dictionaries import read_values
from app.file_index.shared.bit_slices import MAX_SLICES, rows_in_spans
from app.file_index.shared.directory import read_integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyroaring import BitMap

    from app.file_index.answers.conditions import Condition
    from app.file_index.keys.keys import Key
    from app.file_index.range_bitmap.ordered_keys import OrderedKeys
    from app.file_index.range_bitmap.stack import RangeBitmapStack
    from app.file_index.shared.bit_slices import CodeSpan

_ROW_COUNT_AT = 5
_CARDINALITY_AT = 9
_BOUNDS_AT = 13
_LENGTH_BYTES = 4
_NO_LENGTH = -2
_MOST_KEYS = 16
"""Longer lists are looked up file by file."""


def select_rows(
    stack: RangeBitmapStack, condition: Condition, files: NDArray[np.int64]
) -> list[BitMap | None]:
    """The rows of files that meet a condition.

    Args:
        stack: their indexes.
        condition: what is asked.
        files: shape (k,): positions of files whose indexes are there and not broken.

    Returns:
        A set for each file; None where the file's own reader has to be asked: something is wrong, keys vary
        in width, or there are many of them.
    """
    match condition:
        case NullTest(null):
            slices = _Slices(stack, files, np.zeros(len(files), np.int64))
            return [slices.null_rows(at) if null else slices.existing(at) for at in range(len(files))]
        case Points(keys) if stack.space.width is None or len(keys) > _MOST_KEYS:
            return [None] * len(files)
        case Span() if stack.space.width is None:
            return [None] * len(files)
        case Points(keys, negated=negated):
            dictionaries, sound = _dictionaries(stack, files, stack.space.width)
            spans = _spans_of_keys(dictionaries, keys)
        case Span(start, stop):
            negated = False
            dictionaries, sound = _dictionaries(stack, files, stack.space.width)
            spans = _spans_between(dictionaries, start, stop)
    wanted = np.fromiter((bool(each) or negated for each in spans), bool, len(files))
    slices = _Slices(stack, files, np.where(wanted, stack.slices.take(files), 0))
    found: list[BitMap | None] = []
    for at, (spans_of_file, is_sound) in enumerate(zip(spans, sound.tolist(), strict=True)):
        found.append(slices.select(at, spans_of_file, negated=negated) if is_sound else None)
    return found


def _dictionaries(
    stack: RangeBitmapStack, files: NDArray[np.int64], width: int | None
) -> tuple[OrderedKeys, NDArray[np.bool_]]:
    """The keys of files, of a width; and which dictionaries agree with the bounds that stand before them."""
    assert width is not None  # noqa: S101 - texts were left to the readers of single files
    payloads, data = stack.payloads.take(files), stack.payloads.data
    cardinalities = integers(data, payloads.starts + _CARDINALITY_AT, ">i4")
    bounds_at = payloads.starts + _BOUNDS_AT
    lengths_at = bounds_at + np.where(cardinalities > 0, 2 * width, 0)
    starts = lengths_at + _LENGTH_BYTES
    ends = starts + integers(data, lengths_at, ">i4")
    cursors = Cursors(data, starts, ends, np.ones(len(files), bool))
    keys = read_values(cursors, stack.space, cardinalities, width)
    sound = cursors.sound.copy()
    valued = np.flatnonzero(sound & (keys.distinct > 0))
    behind = np.cumsum(keys.distinct)
    for at, places in ((0, (behind - keys.distinct)[valued]), (width, behind[valued] - 1)):
        stated = read_integers(data, bounds_at[valued] + at, stack.space)
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
    last = np.where(behind < distinct, behind, np.int64(1) << (MAX_SLICES - 2))
    return [
        [(low, high)] if is_open else []
        for low, high, is_open in zip(first.tolist(), last.tolist(), (first < last).tolist(), strict=True)
    ]


class _Slices:
    """The bit slices of files, measured.

    Args:
        stack: the indexes.
        files: shape (k,): positions of the files.
        slices: shape (k,): how many slices of each are going to be asked for: all or none.
    """

    def __init__(self, stack: RangeBitmapStack, files: NDArray[np.int64], slices: NDArray[np.int64]) -> None:
        existing, payloads, data = stack.existing.take(files), stack.payloads.take(files), stack.payloads.data
        bodies = existing.starts + existing.lengths
        tables = existing.starts - slices * ENTRY.size
        owners, places = runs_of(tables, slices, ENTRY.size)
        row_counts, ends = stack.row_counts.take(files), payloads.starts + payloads.lengths
        lengths = integers(data, places + ENTRY.size // 2, ">i4")
        # Slices never overlap: with more bytes than there are, none of the file is read here.
        too_many = np.bincount(owners, np.maximum(lengths, 0), len(files)) > ends - bodies
        lengths[too_many.take(owners)] = _NO_LENGTH
        self._bitmaps = StoredBitmaps.measure(
            data,
            np.concatenate([existing.starts, bodies.take(owners) + integers(data, places, ">i4")]),
            np.concatenate([ends, ends.take(owners)]),
            np.concatenate([existing.lengths, lengths]),
            np.concatenate([row_counts, row_counts.take(owners)]),
        )
        self._counts = slices.tolist()
        self._firsts = (len(files) + np.cumsum(slices) - slices).tolist()
        self._row_counts = row_counts.tolist()

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
