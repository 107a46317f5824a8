"""What a column really holds: the referee of the index on it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.file_index.keys.arrow_keys import Keys
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import Key
from app.types import Json, to_json
from app.types.bytes_column import BytesColumn
from app.types.roaring import bitmap_of


@dataclass(frozen=True, slots=True, eq=False)
class ActualValues:
    """Rows by the key of their value.

    Attributes:
        column: the column.
        keys: distinct, ascending; n of them.
        ranks: int64, shape (rows,): of each row the place of its key among ``keys``, -1 where it has none.
        grouped: uint32: the rows that have a value, by the rank of their key, then ascending.
        starts: int64, shape (n + 1,): where the rows of each key start in ``grouped``.
    """

    column: KeyColumn
    keys: Keys
    ranks: NDArray[np.int64]
    grouped: NDArray[np.uint32]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, column: KeyColumn) -> Self:
        """Orders the rows of a column by their keys."""
        distinct = column.distinct()
        ranks = np.full(column.row_count, -1, np.int64)
        ranks[column.value_rows] = distinct.codes
        grouped = column.value_rows[np.argsort(distinct.codes, kind="stable")]
        counts = np.bincount(distinct.codes, minlength=len(distinct.keys))
        return cls(column, distinct.keys, ranks, grouped, np.concatenate([[0], np.cumsum(counts)]))

    def key(self, rank: int) -> Key:
        """One of the keys."""
        if not isinstance(self.keys, BytesColumn):
            return int(self.keys[rank])
        view = self.keys.view(rank)
        return b"" if view is None else bytes(view)

    def rows_of(self, rank: int) -> BitMap:
        """The rows that have one key."""
        return bitmap_of(self.grouped[self.starts[rank] : self.starts[rank + 1]])

    def rows_where(self, chosen: NDArray[np.bool_]) -> BitMap:
        """The rows whose key is chosen, given for every key whether it is."""
        # The last place is that of the rows without a key.
        return bitmap_of(np.flatnonzero(np.append(chosen, False)[self.ranks]).astype(np.uint32))

    def null_rows(self) -> BitMap:
        """The rows without a value."""
        return bitmap_of(self.column.null_rows)

    def value(self, rank: int) -> Json:
        """A value that has one of the keys."""
        return to_json(self.column.space.value(self.key(rank)), self.column.data_type)

    def shown(self, rank: int) -> str:
        """The same for people, cut where it is long."""
        return f"{json.dumps(self.value(rank), ensure_ascii=False):.100}"
