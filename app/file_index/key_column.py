"""A column to be indexed: the key of each row that has a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Self

import numpy as np
import pyarrow as pa

from app.errors import IndexWriteError
from app.file_index.arrow_keys import accepts, read_keys
from app.file_index.keys import key_space
from app.file_index.stacked.byte_order import rank
from app.types.bytes_column import BytesColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.file_index.arrow_keys import Keys
    from app.file_index.keys import KeySpace
    from app.types import DataType

_KEYS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class DistinctKeys:
    """The keys of a column without repetition.

    Attributes:
        keys: ascending, as the index orders them; n of them.
        codes: uint32: for each row with a value the rank of its key, from 0 to n - 1.
    """

    keys: Keys
    codes: NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class KeyColumn:
    """Keys by row.

    Attributes:
        name: of the column, or ``column[key]``; for errors.
        data_type: of its values.
        space: what the keys are.
        row_count: number of rows, those without a value included.
        keys: of the rows that have a value, in their order.
        value_rows: uint32, ascending: these rows.
    """

    name: str
    data_type: DataType
    space: KeySpace
    row_count: int
    keys: Keys
    value_rows: NDArray[np.uint32]

    @classmethod
    def of(cls, array: pa.Array | pa.ChunkedArray, data_type: DataType, name: str) -> Self:
        """The keys of an Arrow array.

        Args:
            array: one value a row, of an Arrow type that can hold values of ``data_type``; its memory is
                shared where the form allows it.
            data_type: the column's type.
            name: the column, or ``column[key]``.

        Raises:
            IndexWriteError: no index takes values of this type, the array holds others, or one of them does
                not fit it.
        """
        space = key_space(data_type)
        if space is None:
            raise IndexWriteError(f"no index holds values of type {data_type}", column=name)
        if not accepts(array.type, data_type):
            raise IndexWriteError(
                f"expected values of type {data_type}, found Arrow's {array.type}", column=name
            )
        value_rows = np.flatnonzero(np.asarray(array.is_valid())).astype(np.uint32)

        def refuse(index: int, expected: str) -> NoReturn:
            row = int(value_rows[index])
            raise IndexWriteError(
                f"expected {expected} for type {data_type}, found {array[row]}", column=name, row=row
            )

        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        keys = read_keys(chunks, data_type, space, refuse)
        return cls(name, data_type, space, len(array), keys, value_rows)

    @property
    def null_rows(self) -> NDArray[np.uint32]:
        """The rows without a value, ascending."""
        without = np.ones(self.row_count, np.bool_)
        without[self.value_rows] = False
        return np.flatnonzero(without).astype(np.uint32)

    def distinct(self) -> DistinctKeys:
        """The keys without repetition; worked out anew by each call."""
        if isinstance(self.keys, BytesColumn):
            return _distinct_strings(self.keys)
        ascending = np.sort(self.keys)
        begins = np.ones(len(ascending), np.bool_)
        np.not_equal(ascending[1:], ascending[:-1], out=begins[1:])
        keys = ascending[begins]
        codes = np.empty(len(ascending), np.uint32)
        for start in range(0, len(codes), _KEYS_AT_ONCE):
            part = slice(start, start + _KEYS_AT_ONCE)
            codes[part] = np.searchsorted(keys, self.keys[part])
        return DistinctKeys(keys, codes)


def _distinct_strings(strings: BytesColumn) -> DistinctKeys:
    order, codes = rank(strings.data, strings.starts, strings.lengths)
    ascending = codes[order]
    begins = np.ones(len(order), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=begins[1:])
    return DistinctKeys(strings.take(order[begins]), codes.astype(np.uint32))
