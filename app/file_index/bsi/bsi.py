"""``bsi``: rows by the bits of their values. Negative values have a part of their own, by absolute value.

All integers are big endian, bitmaps are portable roaring, back to back and without stored lengths.

=====  ======  ==================================================
width  type    meaning
=====  ======  ==================================================
1      i8      version, 1
4      i32     row count
1      i8      1 if there are values >= 0; then their part follows
1      i8      1 if there are values < 0; then their part follows
=====  ======  ==================================================

A part, of the absolute values:

=====  ===========  ============================================================
width  type         meaning
=====  ===========  ============================================================
1      i8           version, 1
8      i64          min; the engine always writes 0
8      i64          max
       roaring      existence bitmap
4      i32          number of slices: as many as max - min has bits
       roaring ...  slices of value - min, least significant bit first
=====  ===========  ============================================================

Neither -9223372036854775808 nor decimals beyond 64 bits can be written. This reader accepts both as literals.
The engine up to 1.4.2 loses rows for the former and fails for the latter.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.errors import IndexWriteError
from app.file_index.answers import all_rows
from app.file_index.keys.arrow_keys import Integers
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import Key
from app.file_index.payloads import join_parts
from app.file_index.shared.bit_slices import MAX_SLICES, BitSlices, CodeSpan, Extent, slice_codes
from app.types import BytesColumn
from app.types.roaring import Buffer, bitmap_size

VERSION = 1
LARGEST_ABSOLUTE = (1 << 63) - 1

_HEAD = struct.Struct(">bi")
_PART_HEAD = struct.Struct(">bqq")
_SLICES = struct.Struct(">i")
_ABSENT, _PRESENT = b"\0", b"\1"


@dataclass(frozen=True, slots=True)
class SignPart:
    """Rows of one sign by absolute value minus ``low``. ``high`` is the largest absolute value."""

    low: int
    high: int
    slices: BitSlices

    def ends(self) -> list[int]:
        """Return the smallest and the largest absolute value of a row, empty if there are no rows."""
        codes = (self.slices.extreme(largest=False), self.slices.extreme(largest=True))
        return [self.low + code for code in codes if code is not None]

    def rows_in(self, spans: Iterable[CodeSpan]) -> BitMap:
        """Return rows whose absolute value is in one of ``spans``, which ascend."""
        # A range that ends beyond the largest value needs no end, and then reads fewer slices.
        return self.slices.select(
            (first - self.low, behind - self.low if behind <= self.high else 1 << MAX_SLICES)
            for first, behind in spans
            if first <= self.high
        )


@dataclass(frozen=True, slots=True)
class BitSlicedIntegers:
    """Rows by value: those with values >= 0 and those with values < 0. None for a sign without rows."""

    row_count: int
    positive: SignPart | None
    negative: SignPart | None

    @classmethod
    def of(cls, buffer: Buffer) -> Self:
        """Make the index of a payload that a stack has checked."""
        _, row_count = _HEAD.unpack_from(buffer)
        positive, behind = _part(buffer, _HEAD.size, row_count)
        return cls(row_count, positive, _part(buffer, behind, row_count)[0])

    def null_rows(self) -> BitMap:
        """Return rows without a value."""
        return all_rows(self.row_count) - self.value_rows()

    def value_rows(self) -> BitMap:
        """Return rows with a value."""
        return BitMap.union(
            BitMap(), *(part.slices.existing_rows() for part in (self.positive, self.negative) if part)
        )

    def rows_with(self, keys: Sequence[Key]) -> BitMap:
        """Return rows that have one of ``keys``, which ascend."""
        return self._rows_in([(int(key), int(key) + 1) for key in keys])

    def rows_between(self, start: Key | None, stop: Key | None) -> BitMap:
        """Return rows with a key in [start, stop). None means unbounded."""
        first = -LARGEST_ABSOLUTE if start is None else int(start)
        behind = LARGEST_ABSOLUTE + 1 if stop is None else int(stop)
        return self._rows_in([(first, behind)])

    def key_counts(self, rows: BitMap | None) -> Iterator[tuple[Key, int]]:
        """Yield the values of ``rows`` (None: of all rows), ascending, with the number of rows of each."""
        if self.negative:
            counts = list(self.negative.slices.code_counts(rows))
            yield from ((-(self.negative.low + code), count) for code, count in reversed(counts))
        if self.positive:
            low = self.positive.low
            yield from ((low + code, count) for code, count in self.positive.slices.code_counts(rows))

    def bounds(self) -> tuple[int, int] | None:
        """Return the smallest and the largest value. Return None if no row has one."""
        ends = []
        if self.negative:
            ends += [-end for end in self.negative.ends()]
        if self.positive:
            ends += self.positive.ends()
        return (min(ends), max(ends)) if ends else None

    def _rows_in(self, spans: Sequence[CodeSpan]) -> BitMap:
        rows = BitMap()
        if self.positive:
            rows |= self.positive.rows_in((max(first, 0), behind) for first, behind in spans)
        if self.negative:
            rows |= self.negative.rows_in(
                (1 - min(behind, 0), 1 - first) for first, behind in reversed(spans) if first < 0
            )
        return rows


def _part(buffer: Buffer, at: int, row_count: int) -> tuple[SignPart | None, int]:
    """Read the part after the flag at ``at``. Return it with the offset of its end."""
    if not buffer[at]:
        return None, at + 1
    _, low, high = _PART_HEAD.unpack_from(buffer, at + 1)
    existing = _extent(buffer, at + 1 + _PART_HEAD.size)
    (count,) = _SLICES.unpack_from(buffer, existing.end)
    slices: list[Extent] = []
    end = existing.end + _SLICES.size
    for _ in range(count):
        slices.append(_extent(buffer, end))
        end = slices[-1].end
    return SignPart(low, high, BitSlices(buffer, existing, tuple(slices), row_count, is_measured=True)), end


def _extent(buffer: Buffer, at: int) -> Extent:
    return Extent(at, bitmap_size(buffer, at))


def write(column: KeyColumn) -> bytes:
    """Write the index of a column. Raises IndexWriteError if an absolute value takes more than 63 bits."""
    keys = column.keys
    if isinstance(keys, BytesColumn):
        raise TypeError("bsi holds numbers")
    low, high = (int(keys.min()), int(keys.max())) if len(keys) else (0, -1)
    if low < -LARGEST_ABSOLUTE:
        raise IndexWriteError(
            f"bsi holds absolute values up to {LARGEST_ABSOLUTE}, found {low}",
            column=column.name,
            row=int(column.value_rows[keys.argmin()]),
        )
    parts: deque[Buffer] = deque([_HEAD.pack(VERSION, column.row_count)])
    parts += _write_part(column.with_rows(keys), high, negative=False) if high >= 0 else [_ABSENT]
    parts += _write_part(column.with_rows(keys), -low, negative=True) if low < 0 else [_ABSENT]
    return join_parts(parts)


def _write_part(
    rows: Iterable[tuple[NDArray[np.uint32], Integers]], high: int, *, negative: bool
) -> list[bytes]:
    existing, *slices = slice_codes(_absolute(rows, negative=negative), high.bit_length())
    return [_PRESENT, _PART_HEAD.pack(VERSION, 0, high), existing, _SLICES.pack(len(slices)), *slices]


def _absolute(
    rows: Iterable[tuple[NDArray[np.uint32], Integers]], *, negative: bool
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.uint64]]]:
    for positions, values in rows:
        chosen = (values < 0) == negative
        yield positions[chosen], np.abs(values[chosen].astype(np.int64)).view(np.uint64)
