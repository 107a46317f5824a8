"""One field of many serialized rows, whose layout stands in :mod:`app.types.binary_row.layout`.

What lies at the same place in every row is one gather over all of them; what lies in the variable part is
another, at the offsets that the slots gave. Everything is checked for all rows before it is looked at; the
first row that is broken is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptMetadataError
from app.types.binary_row.layout import (
    ARITY_BYTES,
    DECIMAL_BYTES,
    INLINE_BYTES,
    INLINE_MARK,
    LONG_BYTES,
    SLOT_BYTES,
    SLOT_CODES,
    null_bit,
    slot_start,
)
from app.types.bytes_column import NULL_LENGTH, BytesColumn
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
from app.types.value_arrays import INT64, Values

if TYPE_CHECKING:
    import pyarrow as pa


Bytes: TypeAlias = NDArray[np.uint8]
Mask: TypeAlias = NDArray[np.bool_]

_SIGN_BIT: Final = 0x80
_STORED: Final = {root: np.dtype(f"<{code}") for root, code in SLOT_CODES.items()} | {
    TypeRoot.DECIMAL: np.dtype("<q")
}
"""What stands at the beginning of a slot."""


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """Serialized rows with the same fields.

    Attributes:
        rows: the rows, number of fields included, shape (n,).
        fields: how many fields each has.
        name_of: what a row is called in messages, by its position.
    """

    rows: BytesColumn
    fields: int
    name_of: Callable[[int], str] = "row {}".format
    _heads: Bytes = field(init=False, repr=False)
    """What stands before the first slot."""

    def __post_init__(self) -> None:
        """Checks the number of fields of every row, and that it has a slot for each.

        Raises:
            CorruptMetadataError: another number of fields, or bytes that end before the last slot.
        """
        lengths, needed = self.rows.lengths, self._slot_at(self.fields)
        cut = bool((lengths < needed).any())
        if cut:
            self._require(lengths >= ARITY_BYTES, "4 bytes for the number of fields", lengths, 0)
        heads = self.rows.gather(0, ARITY_BYTES if cut else self._slot_at(0))
        arities = heads.view(">i4")[:, 0]
        self._require(arities == self.fields, f"a row of {self.fields} fields", arities, 0)
        self._require(lengths >= needed, f"at least {needed} bytes of row", lengths, ARITY_BYTES)
        object.__setattr__(self, "_heads", heads)

    def read(self, index: int, data_type: DataType) -> tuple[Values, Mask]:
        """The values of one field.

        Args:
            index: which field, below ``fields``.
            data_type: its type in every row.

        Returns:
            The values in the form of :mod:`app.types.value_arrays`, and where they are known, shape (n,):
            not where the field is null, and nowhere if its type has no values.

        Raises:
            CorruptMetadataError: a value does not lie inside of its row, or is none of its type.
        """
        root, slot_at = data_type.root, self._slot_at(index)
        if root in NESTED_ROOTS:
            return np.zeros(len(self.rows), np.int64), np.zeros(len(self.rows), np.bool_)
        byte, mask = null_bit(index)
        known = self._heads[:, ARITY_BYTES + byte] & mask == 0
        slots = self.rows.gather(slot_at, SLOT_BYTES)
        if root in STRING_ROOTS | BINARY_ROOTS:
            return self._strings(slots, known, slot_at), known
        if root in TIMESTAMP_ROOTS:
            return self._timestamps(slots, known, slot_at, data_type), known
        if root is TypeRoot.DECIMAL and not data_type.is_compact_decimal:
            return self._wide_decimals(slots, known, slot_at), known
        stored = slots.view(_STORED[root])[:, 0]
        if root is TypeRoot.BOOLEAN:
            return stored != 0, known
        if root in FLOATING_ROOTS:
            with np.errstate(invalid="ignore"):  # of NaN that are to signal
                return stored.astype(np.float64), known
        return stored.astype(np.int64), known

    def _strings(self, slots: Bytes, known: Mask, slot_at: int) -> pa.LargeBinaryArray:
        marks = slots[:, INLINE_BYTES]
        inside = marks & INLINE_MARK != 0
        short = (marks & ~np.uint8(INLINE_MARK)).astype(np.int64)
        self._require(
            ~(known & inside) | (short <= INLINE_BYTES),
            f"at most {INLINE_BYTES} bytes inside of a slot",
            short,
            slot_at,
        )
        starts, lengths = self.rows.starts + slot_at, short
        outside = known & ~inside
        if outside.any():
            sizes, offsets = _pieces(slots)
            pieces = self.rows.starts + self._piece_starts(sizes, offsets, outside, slot_at)
            starts, lengths = np.where(outside, pieces, starts), np.where(outside, sizes, lengths)
        return BytesColumn(
            self.rows.data, np.where(known, starts, 0), np.where(known, lengths, NULL_LENGTH)
        ).to_arrow()

    def _timestamps(self, slots: Bytes, known: Mask, slot_at: int, data_type: DataType) -> NDArray[Any]:
        if data_type.is_compact_timestamp:
            return _nanoseconds(np.where(known, slots.view("<i8")[:, 0], 0), np.int64(0))
        nanos, offsets = _pieces(slots)
        nanos = np.where(known, nanos, 0)
        self._require(
            (nanos >= 0) & (nanos < NANOS_PER_MILLI),
            "0 to 999999 nanoseconds of a millisecond",
            nanos,
            slot_at,
        )
        starts = self._piece_starts(np.full(len(nanos), LONG_BYTES), offsets, known, slot_at)
        millis = self.rows.gather(starts, LONG_BYTES).view("<i8")[:, 0]
        return _nanoseconds(np.where(known, millis, 0), nanos)

    def _wide_decimals(self, slots: Bytes, known: Mask, slot_at: int) -> NDArray[Any]:
        lengths, offsets = _pieces(slots)
        lengths = np.where(known, lengths, 1)
        self._require(
            (lengths >= 1) & (lengths <= DECIMAL_BYTES),
            f"a number of 1 to {DECIMAL_BYTES} bytes",
            lengths,
            slot_at,
        )
        starts = self._piece_starts(lengths, offsets, known, slot_at)
        sign = np.where(self.rows.gather(starts, 1)[:, 0] & _SIGN_BIT, -1, 0).astype(np.int64)
        upper, lower = sign, sign
        for at in range(int(lengths.max(initial=0))):
            more = at < lengths
            byte = self.rows.gather(np.where(more, starts + at, 0), 1)[:, 0]
            upper = np.where(more, upper << 8 | (lower >> 56 & 0xFF), upper)
            lower = np.where(more, lower << 8 | byte, lower)
        if np.array_equal(upper[known], lower[known] >> 63):
            return lower
        boxed: NDArray[np.object_] = (upper.astype(object) << 64) + lower.view(np.uint64).astype(object)
        return boxed

    def _slot_at(self, index: int) -> int:
        """Where a slot lies in each serialized row."""
        return ARITY_BYTES + slot_start(self.fields, index)

    def _piece_starts(
        self, lengths: NDArray[np.int64], offsets: NDArray[np.int64], used: Mask, slot_at: int
    ) -> NDArray[np.int64]:
        """Where pieces of the variable part lie in their serialized rows; 0 where there is none."""
        room = self.rows.lengths - ARITY_BYTES
        within = (offsets >= 0) & (lengths >= 0) & (offsets + lengths <= room)
        self._require(~used | within, "a value inside of its row", offsets + lengths, slot_at)
        return np.where(used, ARITY_BYTES + offsets, 0)

    def _require(self, holds: Mask, expected: str, found: NDArray[np.int64], offset: int) -> None:
        """Reports the first row of which something does not hold."""
        if not holds.all():
            row = int(np.argmin(holds))
            raise CorruptMetadataError(
                f"{self.name_of(row)}: expected {expected}, found {found[row]}", offset=offset
            )


def _pieces(slots: Bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The two numbers in slots of what lies elsewhere."""
    numbers = slots.view("<i4")
    return numbers[:, 0].astype(np.int64), numbers[:, 1].astype(np.int64)


def _nanoseconds(millis: NDArray[np.int64], nanos: NDArray[np.int64] | np.int64) -> NDArray[Any]:
    """Milliseconds and nanoseconds of the millisecond as one number."""
    limit = INT64.max // NANOS_PER_MILLI
    if ((millis >= -limit) & (millis < limit)).all():
        return millis * NANOS_PER_MILLI + nanos
    return millis.astype(object) * NANOS_PER_MILLI + nanos
