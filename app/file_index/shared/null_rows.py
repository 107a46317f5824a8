"""Whether many files have rows without a value, told by the bitmaps of the rows that have one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.answers.file_answers import Answer, Answers
from app.file_index.payloads.cursors import Cursors
from app.file_index.payloads.roaring_sizes import BitmapHeads
from app.types.bytes_column import BytesColumn
from app.types.roaring import COOKIE_WITH_RUNS, read_bitmap


def null_rows(bitmaps: Sequence[BytesColumn], row_counts: NDArray[np.int64]) -> Answers:
    """Whether some row stands in none of a file's bitmaps.

    The head of a bitmap tells how many values there are. Where that leaves rows over, they are taken to be
    there; that there are none is believed only of a bitmap that was looked at as a whole, since the head
    is nothing that a decoder relies on.

    Args:
        bitmaps: columns of m serialized bitmaps of rows; a file may lack one or all of them.
        row_counts: shape (m,).

    Returns:
        Shape (m,): ROWS or SKIP; DOUBT where a bitmap cannot be read.
    """
    valued = np.zeros(len(row_counts), np.int64)
    covered = row_counts == 0
    for column in bitmaps:
        cursors = Cursors.of(column)
        owners, values = BitmapHeads.read(cursors).cardinalities(column.data, cursors.sound)
        valued += np.bincount(owners, values, len(row_counts)).astype(np.int64)
        covered |= _is_one_run_of_all(column, row_counts)
    answers = np.where(covered, np.int8(Answer.SKIP), np.int8(Answer.ROWS))
    for file in np.flatnonzero(~covered & (valued >= row_counts)).tolist():
        answers[file] = _decoded(bitmaps, file, int(row_counts[file]))
    return answers


def _is_one_run_of_all(column: BytesColumn, row_counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a bitmap is, byte for byte, the run of all rows of a file of at most 65536."""
    cursors = Cursors.of(column)
    last = row_counts - 1
    cursors.expect(cursors.u32_le() == COOKIE_WITH_RUNS)
    cursors.expect(cursors.i8() == 1)
    for expected in (0, last, 1, 0, last):  # key, cardinality, runs, start and length of the run
        cursors.expect(cursors.u16_le() == expected)
    cursors.expect(cursors.at == cursors.ends)
    return cursors.sound


def _decoded(bitmaps: Sequence[BytesColumn], file: int, row_count: int) -> np.int8:
    try:
        found = [
            read_bitmap(view, 0, len(view), row_count=row_count)[0]
            for view in (column.view(file) for column in bitmaps)
            if view is not None
        ]
    except CorruptIndexError:
        return Answer.DOUBT
    return Answer.ROWS if len(BitMap.union(BitMap(), *found)) < row_count else Answer.SKIP
