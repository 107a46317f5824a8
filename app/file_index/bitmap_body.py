"""The body of a bitmap index: the rows of each key, arranged as the engine arranges them.

The engine collects rows by key in a ``java.util.HashMap`` and writes them as that map iterates, which depends
on the Java hash codes of the keys and on the order in which the rows bring them up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from app.file_index.keys import FloatingKeys
from app.java_orders.hash_map import iteration_order
from app.types import TypeRoot
from app.types.bytes_column import BytesColumn
from app.types.murmur3 import hash_strings
from app.types.roaring import bitmap_of, serialize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.file_index.arrow_keys import Keys
    from app.file_index.key_column import DistinctKeys, KeyColumn

INLINE_LENGTH: Final = -1

_JAVA_TRUE, _JAVA_FALSE = 1231, 1237
_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class BitmapBody:
    """Where the rows of each key lie, and the bitmaps.

    Attributes:
        offsets: int32, by code: offset of the key's bitmap from the start of the body, or ``-1 - row`` for a
            single row, which has no bitmap.
        lengths: int32, by code: bytes of the bitmap, -1 for a single row.
        order: the codes as the engine's map iterates over their keys.
        bitmaps: in that order.
    """

    offsets: NDArray[np.int32]
    lengths: NDArray[np.int32]
    order: NDArray[np.intp]
    bitmaps: tuple[bytes, ...]

    @classmethod
    def of(cls, column: KeyColumn, distinct: DistinctKeys, start: int) -> Self:
        """The body of a column from ``start`` on, which is where that of the null rows ends."""
        rows, bounds = _by_code(column, distinct)
        begins, counts = bounds[:-1], np.diff(bounds)
        order = _engine_order(column, distinct, rows[begins])
        several = order[counts[order] > 1]
        bitmaps = tuple(
            serialize(bitmap_of(rows[begin : begin + count]))
            for begin, count in zip(begins[several].tolist(), counts[several].tolist(), strict=True)
        )
        sizes = np.fromiter(map(len, bitmaps), np.int64, len(bitmaps))
        offsets = -1 - rows[begins].astype(np.int64)
        offsets[several] = start + np.cumsum(sizes) - sizes
        lengths = np.full(len(counts), INLINE_LENGTH, np.int32)
        lengths[several] = sizes
        return cls(offsets.astype(np.int32), lengths, order, bitmaps)


def _by_code(column: KeyColumn, distinct: DistinctKeys) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
    """The rows key by key; and where those of each key begin, and those of the last one end."""
    rows_behind_codes = np.empty(len(distinct.codes), "<u8")
    at = 0
    for rows, codes in column.with_rows(distinct.codes):
        rows_behind_codes[at : at + len(rows)] = codes.astype(np.uint64) << _WORD_BITS | rows
        at += len(rows)
    rows_behind_codes.sort()
    codes_alone = np.arange(len(distinct.keys) + 1, dtype=np.uint64) << _WORD_BITS
    return rows_behind_codes.view("<u4")[::2], rows_behind_codes.searchsorted(codes_alone)


def _engine_order(
    column: KeyColumn, distinct: DistinctKeys, first_rows: NDArray[np.uint32]
) -> NDArray[np.intp]:
    """The codes in the order of the engine's map, given the first row of each."""
    codes = distinct.codes
    # Rows without a value do not reach the map.
    looked_up_last = len(codes) > 0 and bool(np.count_nonzero(codes == codes[-1]) > 1)
    met = np.argsort(first_rows)
    hash_codes = _hash_codes(distinct.keys, column)
    return met[iteration_order(hash_codes[met], met, looked_up_last=looked_up_last)]


def _hash_codes(keys: Keys, column: KeyColumn) -> NDArray[np.int32]:
    """What Java's ``hashCode`` gives for the engine's objects of these keys."""
    if isinstance(keys, BytesColumn):
        return hash_strings(keys)
    bits: NDArray[np.signedinteger[Any]] = keys
    if isinstance(column.space, FloatingKeys):
        bits = column.space.reorder(keys)
    if column.data_type.root is TypeRoot.BOOLEAN:
        return np.where(bits != 0, _JAVA_TRUE, _JAVA_FALSE).astype(np.int32)
    if bits.itemsize * 8 > _WORD_BITS:
        bits = bits ^ bits >> _WORD_BITS
    return bits.astype(np.int32)
