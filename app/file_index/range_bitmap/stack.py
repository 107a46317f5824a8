"""The range-bitmaps of one column of many files: which files have which value.

The dictionaries say it; the bit slices, which tell the rows, are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from app.file_index.answers.file_answers import Answer, Answers, where
from app.file_index.answers.row_stack import AnsweringRows
from app.file_index.keys.keys import Key, KeySpace
from app.file_index.payloads.cursors import Cursors
from app.file_index.range_bitmap import bit_slice_index, dictionaries, range_bitmap
from app.file_index.range_bitmap.ordered_keys import Dictionary, OrderedKeys
from app.file_index.shared.bit_slices import MAX_SLICES
from app.file_index.shared.directory import Directory
from app.file_index.shared.null_rows import null_rows
from app.types.bytes_column import NULL_LENGTH, BytesColumn


@dataclass(frozen=True, eq=False)
class RangeBitmapStack(AnsweringRows):
    """Values of m files.

    Attributes:
        dictionary: the files of each value.
        row_counts: int64, shape (m,): rows of each file.
        existing: the bitmap of the rows that have a value, of each file.
        broken: bool, shape (m,): which indexes cannot be read; what is said of these files means nothing.
    """

    dictionary: Dictionary
    row_counts: NDArray[np.int64]
    existing: BytesColumn
    broken: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, space: KeySpace) -> Self:
        """Reads all heads and dictionaries. A null is a file without such an index."""
        cursors = Cursors.of(payloads)
        head_lengths = cursors.count(each_bytes=1)
        heads_at = cursors.at
        cursors.expect(cursors.i8() == range_bitmap.VERSION)
        row_counts, cardinalities = cursors.count(), cursors.count()
        cursors.expect(cardinalities <= row_counts)
        valued = np.flatnonzero(cardinalities)
        bounded = cursors.take(valued)
        bounds = np.zeros((2, len(payloads)), np.int64)
        for ends in bounds:
            ends[valued] = bounded.at
            dictionaries.skip_keys(bounded, space)
        cursors.put(valued, bounded)
        lengths = cursors.count(each_bytes=1)
        cursors.expect(cursors.at == heads_at + head_lengths)
        ends = np.where(cursors.sound, cursors.at + lengths, 0)
        inner = Cursors(payloads.data, cursors.at, ends, cursors.sound)
        keys: OrderedKeys | Directory
        if space.width is None:
            stored = dictionaries.read_keys(inner, space, cardinalities)
            inner.expect(dictionaries.have_ends(stored, cursors, bounds))
            keys, wrong = Directory.build(payloads.data, stored, space, np.ones(len(payloads), bool))
        else:
            keys = dictionaries.read_values(inner, space, cardinalities, space.width)
            wrong = keys.unordered() | keys.differ(dictionaries.values_at(inner, space, bounds, space.width))
        cursors.skip(lengths)
        cursors.expect(inner.sound)
        existing = _existing_rows(cursors, cardinalities)
        broken = ~payloads.is_null & (~cursors.sound | wrong)
        return cls(Dictionary(keys), row_counts, existing, broken)

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the shared buffer."""
        arrays = (self.row_counts, self.broken, self.existing.starts, self.existing.lengths)
        return self.dictionary.nbytes + sum(each.nbytes for each in arrays)

    def null_rows(self) -> Answers:
        """Whether rows have no value."""
        return self._null_rows

    def value_rows(self) -> Answers:
        """Whether rows have a value."""
        return where(self.dictionary.distinct > 0, Answer.ROWS)

    def rows_with(self, keys: Sequence[Key]) -> Answers:
        """Whether rows have one of ``keys``."""
        return where(self.dictionary.for_searches(len(keys)).having(keys), Answer.ROWS)

    def rows_without(self, keys: Sequence[Key]) -> Answers:
        """Whether rows have a value, but none of ``keys``."""
        return where(self.dictionary.for_searches(len(keys)).having_others(keys), Answer.ROWS)

    def rows_between(self, start: Key | None, stop: Key | None) -> Answers:
        """Whether rows have a key from ``start`` up to, but without, ``stop``; None leaves a side open."""
        return where(self.dictionary.for_searches().having_between(start, stop), Answer.ROWS)

    @cached_property
    def _null_rows(self) -> Answers:
        return null_rows([self.existing], self.row_counts)


def _existing_rows(cursors: Cursors, cardinalities: NDArray[np.int64]) -> BytesColumn:
    """Reads the heads of the bit-slice indexes: bitmaps of the rows with a value."""
    head_lengths = cursors.count(each_bytes=1)
    cursors.expect(cursors.i8() == bit_slice_index.VERSION)
    slices = cursors.i8()
    lengths, table_lengths = cursors.count(each_bytes=1), cursors.count(each_bytes=1)
    cursors.expect((slices >= 0) & (slices <= MAX_SLICES))
    # There are never as many values as 31 slices can tell apart.
    cursors.expect(np.left_shift(1, np.clip(slices, 0, 31)) >= cardinalities)
    cursors.expect(table_lengths == slices * bit_slice_index.ENTRY.size)
    cursors.expect(head_lengths == bit_slice_index.HEAD_LENGTH_WITHOUT_TABLE + table_lengths)
    cursors.skip(table_lengths)
    return BytesColumn(
        cursors.data, np.where(cursors.sound, cursors.at, 0), np.where(cursors.sound, lengths, NULL_LENGTH)
    )
