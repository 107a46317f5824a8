"""Many binary rows at once, written field by field; see :mod:`app.types.binary_row.layout`.

Rows of one length form a matrix, one row of bytes after the other. Without strings over 7 bytes all rows are
of one length; with them there are as many matrices as lengths, which are multiples of 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.types.binary_row.layout import (
    DECIMAL_BYTES,
    INLINE_BYTES,
    INLINE_MARK,
    LONG_BYTES,
    SLOT_BYTES,
    SLOT_CODES,
    null_bit,
    slot_start,
)
from app.types.binary_row.row import shortest_twos_complement
from app.types.bytes_column import BytesColumn
from app.types.data_types import (
    BINARY_ROOTS,
    FLOATING_ROOTS,
    NESTED_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)
from app.types.time_units import NANOS_PER_MILLI
from app.types.value_arrays import Values
from app.types.values import Value

_OFFSET_BITS: Final = 32
_SLOT: Final = np.dtype("<u8")
_LONG: Final = np.dtype("<i8")
_STORED: Final = {
    root: (np.dtype(f"<{code}"), np.dtype(f"<u{np.dtype(code).itemsize}"))
    for root, code in SLOT_CODES.items()
}
"""What stands at the beginning of a slot, and the same bits without a sign; other types: 64 bits."""

_INLINE_MASKS: Final = np.array([(1 << 8 * length) - 1 for length in range(INLINE_BYTES + 1)], _SLOT)
"""The bytes of a slot that belong to a string of each length."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldValues:
    """One field of n rows.

    Attributes:
        type: its type.
        values: shape (n,), as :mod:`app.types.value_arrays` holds values of the type; integers and floats may
            be narrower arrays too. Each is in the range of the type; where it is null, it is not looked at.
        is_null: shape (n,).
    """

    type: DataType
    values: Values
    is_null: NDArray[np.bool_]

    @classmethod
    def of(cls, values: Sequence[Value | None], data_type: DataType) -> Self:
        """The field from single values."""
        is_null = np.fromiter((value is None for value in values), np.bool_, len(values))
        if data_type.root in STRING_ROOTS | BINARY_ROOTS:
            return cls(data_type, pa.array(values, pa.large_binary()), is_null)
        filled = [0 if value is None else value for value in values]
        if data_type.root in FLOATING_ROOTS:
            return cls(data_type, np.array(filled, np.float64), is_null)
        try:
            return cls(data_type, np.array(filled, np.int64), is_null)
        except OverflowError:
            return cls(data_type, np.array(filled, np.object_), is_null)

    def tolist(self) -> list[Value | None]:
        """The single values."""
        nulls = self.is_null.tolist()
        return [None if null else value for value, null in zip(self.values.tolist(), nulls, strict=True)]


def fields_of(rows: Sequence[Sequence[Value | None]], types: Sequence[DataType]) -> tuple[FieldValues, ...]:
    """The fields of single rows, each of one value per type."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(types)
    return tuple(FieldValues.of(values, each) for values, each in zip(columns, types, strict=True))


class RowGroup(NamedTuple):
    """Rows of one length.

    Attributes:
        positions: int64, shape (m,): which rows they are, ascending.
        rows: uint8, shape (m, length); contiguous.
    """

    positions: NDArray[np.int64]
    rows: NDArray[np.uint8]


class _Pieces(NamedTuple):
    """The variable part of one field: what is written, and how many bytes it takes, padding included."""

    content: BytesColumn
    room: NDArray[np.int64]


def write_rows(fields: Sequence[FieldValues], count: int) -> Iterator[RowGroup]:
    """The rows without their number of fields, byte for byte as ``write_row`` writes each.

    Args:
        fields: the fields, each of shape (count,).
        count: number of rows.
    """
    width = slot_start(len(fields), len(fields))
    fixed = np.zeros((count, width), np.uint8)
    ends = np.full(count, width, np.int64)
    pieces: list[tuple[NDArray[np.int64], _Pieces]] = []
    for index, field in enumerate(fields):
        byte, mask = null_bit(index)
        fixed[:, byte] |= field.is_null * np.uint8(mask)
        slots, piece = _encode(field)
        if piece is not None:
            slots |= np.where(piece.room > 0, ends, 0).astype(_SLOT) << np.uint64(_OFFSET_BITS)
            pieces.append((ends.copy(), piece))
            ends += piece.room
        at = slot_start(len(fields), index)
        fixed[:, at : at + SLOT_BYTES] = slots.view(np.uint8).reshape(count, SLOT_BYTES)
    if not pieces or not count:
        yield RowGroup(np.arange(count), fixed)
        return
    order = np.argsort(ends, kind="stable")
    lengths, starts = np.unique(ends[order], return_index=True)
    for length, positions in zip(lengths.tolist(), np.split(order, starts[1:]), strict=True):
        rows = np.zeros((len(positions), length), np.uint8)
        rows[:, :width] = fixed[positions]
        for offsets, piece in pieces:
            _place(rows, offsets[positions], piece.content.take(positions))
        yield RowGroup(positions, rows)


def _encode(field: FieldValues) -> tuple[NDArray[np.uint64], _Pieces | None]:
    """``(slots without offsets, variable part)``."""
    data_type, values, is_null = field.type, field.values, field.is_null
    if isinstance(values, pa.LargeBinaryArray):
        return _encode_bytes(BytesColumn.from_arrow(values), is_null)
    if data_type.root in TIMESTAMP_ROOTS:
        millis = np.where(is_null, 0, values // NANOS_PER_MILLI).astype(_LONG)
        if data_type.is_compact_timestamp:
            return millis.view(_SLOT), None
        nanos = np.where(is_null, 0, values % NANOS_PER_MILLI).astype(_SLOT)
        return nanos, _fixed_pieces(millis.view(np.uint8), LONG_BYTES)
    if data_type.root is TypeRoot.DECIMAL and not data_type.is_compact_decimal:
        return _encode_decimals(values, is_null)
    if data_type.root in NESTED_ROOTS:
        return np.zeros(len(is_null), _SLOT), None
    stored, bits = _STORED.get(data_type.root, (_LONG, _SLOT))
    slots = values.astype(stored).view(bits).astype(_SLOT)
    slots[is_null] = 0
    return slots, None


def _encode_bytes(
    column: BytesColumn, is_null: NDArray[np.bool_]
) -> tuple[NDArray[np.uint64], _Pieces | None]:
    lengths = np.where(is_null, 0, np.maximum(column.lengths, 0))
    is_long = lengths > INLINE_BYTES
    short = np.where(is_long, 0, lengths)
    # With a slot behind the last string, each has a whole slot to be read.
    data = np.append(column.data, np.zeros(SLOT_BYTES, np.uint8))
    windows = np.lib.stride_tricks.sliding_window_view(data, SLOT_BYTES)
    slots = windows[np.where(is_null, 0, column.starts)].view(_SLOT)[:, 0] & _INLINE_MASKS[short]
    slots |= (short + INLINE_MARK).astype(_SLOT) << np.uint64(8 * INLINE_BYTES)
    slots[is_null] = 0
    if not is_long.any():
        return slots, None
    slots[is_long] = lengths[is_long].astype(_SLOT)
    long_lengths = np.where(is_long, lengths, 0)
    room = long_lengths + -long_lengths % SLOT_BYTES
    return slots, _Pieces(BytesColumn(column.data, column.starts, long_lengths), room)


def _encode_decimals(values: NDArray[Any], is_null: NDArray[np.bool_]) -> tuple[NDArray[np.uint64], _Pieces]:
    unscaled = BytesColumn.of(
        b"" if null else shortest_twos_complement(value)
        for value, null in zip(values.tolist(), is_null.tolist(), strict=True)
    )
    room = np.full(len(is_null), DECIMAL_BYTES, np.int64)
    return unscaled.lengths.astype(_SLOT), _Pieces(unscaled, room)


def _fixed_pieces(content: NDArray[np.uint8], width: int) -> _Pieces:
    count = len(content) // width
    lengths = np.full(count, width, np.int64)
    return _Pieces(BytesColumn(content, np.arange(count) * width, lengths), lengths)


def _place(rows: NDArray[np.uint8], offsets: NDArray[np.int64], content: BytesColumn) -> None:
    """Copies each string into its row at an offset."""
    total = int(content.lengths.sum())
    # Where the bytes of all strings stand one behind the other, the first of each string stands here.
    first = np.cumsum(content.lengths) - content.lengths
    within = np.arange(total) - np.repeat(first, content.lengths)
    starts = np.arange(len(rows)) * rows.shape[1] + offsets
    rows.reshape(-1)[np.repeat(starts, content.lengths) + within] = content.data[
        np.repeat(content.starts, content.lengths) + within
    ]
