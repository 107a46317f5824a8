"""Reads and writes many binary rows, field by field; :mod:`app.types.binary_row.row` has the layout.

Written rows of one length form a matrix. Without strings over 7 bytes all rows have one length. Otherwise
there is a matrix per length, a multiple of 8. Reading checks all rows before it decodes any. It reports the
first broken row, or marks the broken ones. pypaimon up to 1.4.2 breaks DECIMAL of more than 18 digits and
timestamps of more than three: it writes them into their slots, like shorter ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.errors import CorruptMetadataError
from app.types.binary_row.row import (
    ARITY_BYTES,
    DECIMAL_BYTES,
    INLINE_BYTES,
    INLINE_MARK,
    LONG_BYTES,
    SLOT_BYTES,
    SLOT_CODES,
    WRITTEN_BY_PYTHON,
    null_bit,
    shortest_twos_complement,
    slot_start,
)
from app.types.bytes_column import NULL_LENGTH, BytesColumn
from app.types.civil_time import NANOS_PER_MILLI
from app.types.data_types import (
    BINARY_ROOTS,
    FLOATING_ROOTS,
    NESTED_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)
from app.types.values import INT64, Value, Values

_OFFSET_BITS: Final = 32
_SLOT: Final = np.dtype("<u8")
_LONG: Final = np.dtype("<i8")
# Types at the start of a slot, signed and unsigned; others have 64 bits.
_STORED: Final = {
    root: (np.dtype(f"<{code}"), np.dtype(f"<u{np.dtype(code).itemsize}"))
    for root, code in SLOT_CODES.items()
}

# Bytes of a slot that belong to a string of each length.
_INLINE_MASKS: Final = np.array([(1 << 8 * length) - 1 for length in range(INLINE_BYTES + 1)], _SLOT)

Bytes: TypeAlias = NDArray[np.uint8]
_Mask: TypeAlias = NDArray[np.bool_]
# Arguments: masks of the values that are not null and of those as expected, the expectation in words, and the
# numbers found. Returns the mask of the values to read.
_Check: TypeAlias = Callable[[_Mask, _Mask, str, NDArray[np.int64]], _Mask]

_SIGN_BIT: Final = 0x80
# Type at the start of a slot.
_SLOT_DTYPES: Final = {root: np.dtype(f"<{code}") for root, code in SLOT_CODES.items()} | {
    TypeRoot.DECIMAL: np.dtype("<q")
}


@dataclass(frozen=True, slots=True, eq=False)
class FieldValues:
    """One field of n rows.

    ``values``, shape (n,), are in the form of :mod:`app.types.values`, or narrower integers and floats, in
    the type's range. They are undefined where ``is_null``, shape (n,).
    """

    type: DataType
    values: Values
    is_null: NDArray[np.bool_]

    @classmethod
    def of(cls, values: Sequence[Value | None], data_type: DataType) -> Self:
        """Convert single values."""
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
        """Return the single values."""
        nulls = self.is_null.tolist()
        return [None if null else value for value, null in zip(self.values.tolist(), nulls, strict=True)]


def fields_of(rows: Sequence[Sequence[Value | None]], types: Sequence[DataType]) -> tuple[FieldValues, ...]:
    """Transpose rows of one value per type into fields."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(types)
    return tuple(FieldValues.of(values, data_type) for values, data_type in zip(columns, types, strict=True))


class RowGroup(NamedTuple):
    """Rows of one length.

    ``positions``: int64, shape (m,): their positions, ascending. ``rows``: uint8, shape (m, length),
    contiguous.
    """

    positions: NDArray[np.int64]
    rows: NDArray[np.uint8]


class _Pieces(NamedTuple):
    """Variable part of one field: content, and bytes that it takes, padding included."""

    content: BytesColumn
    room: NDArray[np.int64]


def write_rows(fields: Sequence[FieldValues], count: int) -> Iterator[RowGroup]:
    """Write ``count`` rows without their number of fields, byte for byte as ``write_row`` does."""
    width = slot_start(len(fields), len(fields))
    fixed = np.zeros((count, width), np.uint8)
    ends = np.full(count, width, np.int64)
    pieces: list[tuple[NDArray[np.int64], _Pieces]] = []
    for index, column in enumerate(fields):
        byte, mask = null_bit(index)
        fixed[:, byte] |= column.is_null * np.uint8(mask)
        slots, piece = _encode(column)
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
    # A slot of padding after the last string allows reading each as a whole slot.
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
    total = int(content.lengths.sum())
    # Start of each string if all of them were concatenated.
    first = np.cumsum(content.lengths) - content.lengths
    within = np.arange(total) - np.repeat(first, content.lengths)
    starts = np.arange(len(rows)) * rows.shape[1] + offsets
    rows.reshape(-1)[np.repeat(starts, content.lengths) + within] = content.data[
        np.repeat(content.starts, content.lengths) + within
    ]


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """Serialized rows with the same fields.

    ``rows`` include the number of fields, shape (n,). ``name_of`` names a row in messages by its position.
    """

    rows: BytesColumn
    fields: int
    name_of: Callable[[int], str] = "row {}".format
    # Bytes before the first slot.
    _heads: Bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Every row must have this number of fields, and a slot for each, before any slot is read.
        lengths, needed = self.rows.lengths, self._slot_at(self.fields)
        cut = bool((lengths < needed).any())
        if cut:
            self._require(lengths >= ARITY_BYTES, "4 bytes for the number of fields", lengths, 0)
        heads = self.rows.gather(0, ARITY_BYTES if cut else self._slot_at(0))
        arities = heads.view(">i4")[:, 0]
        self._require(arities == self.fields, f"a row of {self.fields} fields", arities, 0)
        self._require(lengths >= needed, f"at least {needed} bytes of row", lengths, ARITY_BYTES)
        object.__setattr__(self, "_heads", heads)

    def read(self, index: int, data_type: DataType, unreadable: _Mask | None = None) -> tuple[Values, _Mask]:
        """Read one field, whose type is ``data_type`` in every row.

        Return values in the form of :mod:`app.types.values`, and a mask of the usable ones, shape (n,). Null
        and unreadable values are not usable, nor are those of types without values here. ``unreadable``,
        shape (n,), collects values that are invalid or outside their row. Without it, such values raise
        CorruptMetadataError.
        """
        root, slot_at = data_type.root, self._slot_at(index)
        if root in NESTED_ROOTS:
            return np.zeros(len(self.rows), np.int64), np.zeros(len(self.rows), np.bool_)
        byte, mask = null_bit(index)
        valid = self._heads[:, ARITY_BYTES + byte] & mask == 0
        slots = self.rows.gather(slot_at, SLOT_BYTES)
        check = partial(self._keep, slot_at, unreadable)
        if root in STRING_ROOTS | BINARY_ROOTS:
            return self._strings(slots, valid, slot_at, check)
        if root in TIMESTAMP_ROOTS and not data_type.is_compact_timestamp:
            return self._timestamps(slots, valid, check)
        if root is TypeRoot.DECIMAL and not data_type.is_compact_decimal:
            return self._wide_decimals(slots, valid, check)
        if root in TIMESTAMP_ROOTS:
            return _nanoseconds(np.where(valid, slots.view("<i8")[:, 0], 0), np.int64(0)), valid
        stored = slots.view(_SLOT_DTYPES[root])[:, 0]
        if root is TypeRoot.BOOLEAN:
            return stored != 0, valid
        if root in FLOATING_ROOTS:
            with np.errstate(invalid="ignore"):  # of signalling NaN
                return stored.astype(np.float64), valid
        return stored.astype(np.int64), valid

    def _strings(
        self, slots: Bytes, valid: _Mask, slot_at: int, check: _Check
    ) -> tuple[pa.LargeBinaryArray, _Mask]:
        marks = slots[:, INLINE_BYTES]
        inside = marks & INLINE_MARK != 0
        short = (marks & ~np.uint8(INLINE_MARK)).astype(np.int64)
        fits = ~inside | (short <= INLINE_BYTES)
        valid = check(valid, fits, f"at most {INLINE_BYTES} bytes inside a slot", short)
        starts, lengths = self.rows.starts + slot_at, short
        outside = valid & ~inside
        if outside.any():
            sizes, offsets = _pieces(slots)
            within = self._lie_within(sizes, offsets, outside, check)
            valid &= inside | within
            pieces = self.rows.starts + ARITY_BYTES + offsets
            starts, lengths = np.where(within, pieces, starts), np.where(within, sizes, lengths)
        column = BytesColumn(
            self.rows.data, np.where(valid, starts, 0), np.where(valid, lengths, NULL_LENGTH)
        )
        return column.to_arrow(), valid

    def _timestamps(self, slots: Bytes, valid: _Mask, check: _Check) -> tuple[NDArray[Any], _Mask]:
        nanos, offsets = _pieces(slots)
        is_part = (nanos >= 0) & (nanos < NANOS_PER_MILLI)
        valid = check(valid, is_part, "0 to 999999 nanoseconds of a millisecond", nanos)
        valid = self._lie_within(np.full(len(nanos), LONG_BYTES), offsets, valid, check)
        starts = np.where(valid, ARITY_BYTES + offsets, 0)
        millis = self.rows.gather(starts, LONG_BYTES).view("<i8")[:, 0]
        return _nanoseconds(np.where(valid, millis, 0), np.where(valid, nanos, 0)), valid

    def _wide_decimals(self, slots: Bytes, valid: _Mask, check: _Check) -> tuple[NDArray[Any], _Mask]:
        lengths, offsets = _pieces(slots)
        fits = (lengths >= 1) & (lengths <= DECIMAL_BYTES)
        valid = check(valid, fits, f"a number of 1 to {DECIMAL_BYTES} bytes", lengths)
        valid = self._lie_within(lengths, offsets, valid, check)
        lengths, starts = np.where(valid, lengths, 1), np.where(valid, ARITY_BYTES + offsets, 0)
        sign = np.where(self.rows.gather(starts, 1)[:, 0] & _SIGN_BIT, -1, 0).astype(np.int64)
        upper, lower = sign, sign
        for at in range(int(lengths.max(initial=0))):
            more = at < lengths
            byte = self.rows.gather(np.where(more, starts + at, 0), 1)[:, 0]
            upper = np.where(more, upper << 8 | (lower >> 56 & 0xFF), upper)
            lower = np.where(more, lower << 8 | byte, lower)
        if np.array_equal(upper[valid], lower[valid] >> 63):
            return lower, valid
        boxed: NDArray[np.object_] = (upper.astype(object) << 64) + lower.view(np.uint64).astype(object)
        return boxed, valid

    def _slot_at(self, index: int) -> int:
        return ARITY_BYTES + slot_start(self.fields, index)

    def _lie_within(
        self, lengths: NDArray[np.int64], offsets: NDArray[np.int64], valid: _Mask, check: _Check
    ) -> _Mask:
        """Mask valid values that are in the variable part of their row."""
        room, first = self.rows.lengths - ARITY_BYTES, slot_start(self.fields, self.fields)
        within = (offsets >= first) & (lengths >= 0) & (offsets + lengths <= room)
        return check(valid, within, "a value after the slots, inside its row", offsets)

    def _keep(
        self,
        slot_at: int,
        unreadable: _Mask | None,
        valid: _Mask,
        holds: _Mask,
        expected: str,
        values: NDArray[np.int64],
    ) -> _Mask:
        if unreadable is None:
            self._require(~valid | holds, expected, values, slot_at, WRITTEN_BY_PYTHON)
            return valid
        unreadable |= valid & ~holds
        return valid & holds

    def _require(
        self, holds: _Mask, expected: str, values: NDArray[np.int64], offset: int, hint: str = ""
    ) -> None:
        if not holds.all():
            row = int(np.argmin(holds))
            raise CorruptMetadataError(
                f"{self.name_of(row)}: expected {expected}, found {values[row]}{hint}", offset=offset
            )


def _pieces(slots: Bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    numbers = slots.view("<i4")
    return numbers[:, 0].astype(np.int64), numbers[:, 1].astype(np.int64)


def _nanoseconds(millis: NDArray[np.int64], nanos: NDArray[np.int64] | np.int64) -> NDArray[Any]:
    limit = INT64.max // NANOS_PER_MILLI
    if ((millis >= -limit) & (millis < limit)).all():
        return millis * NANOS_PER_MILLI + nanos
    return millis.astype(object) * NANOS_PER_MILLI + nanos
