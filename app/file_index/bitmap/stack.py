"""The bitmap indexes of one column of many files: which files have which value.

To tell files, only the key of an entry is taken in, so that an entry without rows, which the engine never
writes, counts as a value of the file here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from app.file_index.answers.file_answers import Answer, where
from app.file_index.answers.row_stack import AnsweringRows
from app.file_index.bitmap.bitmap import VERSION_2
from app.file_index.bitmap.stored_entries import StoredEntries
from app.file_index.shared.directory import Directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from app.file_index.answers.file_answers import Answers
    from app.file_index.keys.keys import Key, KeySpace
    from app.types.bytes_column import BytesColumn


@dataclass(frozen=True, slots=True, eq=False)
class BitmapStack(AnsweringRows):
    """Values of m files.

    Attributes:
        directory: the files of each value.
        row_counts: int64, shape (m,): rows of each file.
        with_nulls: bool, shape (m,): which files have null rows.
        broken: bool, shape (m,): which indexes cannot be read; what is said of these files means nothing.
    """

    directory: Directory
    row_counts: NDArray[np.int64]
    with_nulls: NDArray[np.bool_]
    broken: NDArray[np.bool_]

    @classmethod
    def read(cls, payloads: BytesColumn, space: KeySpace) -> Self:
        """Reads all heads and entries. A null is a file without such an index."""
        found = StoredEntries.read(payloads, space)
        directory, wrong = Directory.build(payloads.data, found.keys, space, found.versions == VERSION_2)
        broken = ~payloads.is_null & (~found.sound | wrong)
        return cls(directory, found.row_counts, found.flags == 1, broken)

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the shared buffer."""
        arrays = (self.row_counts, self.with_nulls, self.broken)
        return self.directory.nbytes + sum(each.nbytes for each in arrays)

    def null_rows(self) -> Answers:
        """Whether rows have no value."""
        return where(self.with_nulls, Answer.ROWS)

    def value_rows(self) -> Answers:
        """Whether rows have a value."""
        return where(self.directory.distinct > 0, Answer.ROWS)

    def rows_with(self, keys: Sequence[Key]) -> Answers:
        """Whether rows have one of ``keys``."""
        return where(self.directory.having(keys), Answer.ROWS)

    def rows_without(self, keys: Sequence[Key]) -> Answers:
        """Whether rows have a value, but none of ``keys``."""
        return where(self.directory.having_others(keys), Answer.ROWS)

    def rows_between(self, start: Key | None, stop: Key | None) -> Answers:
        """Whether rows have a key from ``start`` up to, but without, ``stop``; None leaves a side open."""
        return where(self.directory.having_between(start, stop), Answer.ROWS)
