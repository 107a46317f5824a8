"""Columns to be indexed: the key of each row that has a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.errors import IndexWriteError
from app.file_index.keys.arrow_keys import ArrowKeys, accepts, read_keys
from app.file_index.keys.keys import Key, KeySpace, key_space
from app.types import BytesColumn, DataType

_ScalarT = TypeVar("_ScalarT", bound=np.generic)

_ROWS_AT_ONCE = 1 << 16


class DistinctKeys(NamedTuple):
    """The n distinct ``keys`` of a column, ascending. ``codes``: uint32, the rank of each value's key."""

    keys: ArrowKeys
    codes: NDArray[np.uint32]

    def key(self, code: int) -> Key:
        """Return the key of one rank."""
        if isinstance(self.keys, BytesColumn):
            return self.keys[code] or b""
        return int(self.keys[code])


@dataclass(frozen=True, slots=True, eq=False)
class KeyColumn:
    """Keys of the rows with a value. ``is_null``: flags of rows without one, or None if there are none."""

    name: str
    data_type: DataType
    space: KeySpace
    row_count: int
    keys: ArrowKeys
    is_null: NDArray[np.bool_] | None

    @classmethod
    def of(cls, array: pa.Array | pa.ChunkedArray, data_type: DataType, name: str) -> Self:
        """Read the keys of an Arrow array with one value a row, without copying where possible.

        Raises IndexWriteError if no index holds values of this type, or the array has another type.
        """
        space = key_space(data_type)
        if space is None:
            raise IndexWriteError(f"no index holds values of type {data_type}", column=name)
        if not accepts(array.type, data_type):
            raise IndexWriteError(
                f"expected values of type {data_type}, found Arrow's {array.type}", column=name
            )
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        is_null = np.asarray(array.is_null()) if array.null_count else None

        def refuse(index: int, expected: str) -> NoReturn:
            row = index if is_null is None else int(np.flatnonzero(~is_null)[index])
            raise IndexWriteError(
                f"expected {expected} for type {data_type}, found {array[row].cast(pa.string())}",
                column=name,
                row=row,
            )

        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        return cls(name, data_type, space, len(array), read_keys(chunks, data_type, space, refuse), is_null)

    @property
    def value_rows(self) -> NDArray[np.uint32]:
        """Rows with a value, ascending."""
        rows = np.arange(self.row_count, dtype=np.uint32)
        return rows if self.is_null is None else rows[~self.is_null]

    @property
    def null_rows(self) -> NDArray[np.uint32]:
        """Rows without a value, ascending."""
        return np.flatnonzero(() if self.is_null is None else self.is_null).astype(np.uint32)

    def with_rows(self, values: NDArray[_ScalarT]) -> Iterator[tuple[NDArray[np.uint32], NDArray[_ScalarT]]]:
        """Yield the rows with a value, together with their ``values``, in blocks."""
        begin = 0
        for start in range(0, self.row_count, _ROWS_AT_ONCE):
            rows = np.arange(start, min(start + _ROWS_AT_ONCE, self.row_count), dtype=np.uint32)
            if self.is_null is not None:
                rows = rows[~self.is_null[start : start + _ROWS_AT_ONCE]]
            yield rows, values[begin : begin + len(rows)]
            begin += len(rows)

    def distinct(self) -> DistinctKeys:
        """Compute the distinct keys. The result is not cached."""
        if isinstance(self.keys, BytesColumn):
            return DistinctKeys(*self.keys.distinct())
        ascending = np.sort(self.keys)
        opens = np.ones(len(ascending), np.bool_)
        np.not_equal(ascending[1:], ascending[:-1], out=opens[1:])
        keys = ascending[opens]
        codes = np.empty(len(self.keys), np.uint32)
        for start in range(0, len(codes), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            codes[part] = keys.searchsorted(self.keys[part])
        return DistinctKeys(keys, codes)
