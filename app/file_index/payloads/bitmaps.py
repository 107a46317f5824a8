"""Decoding many serialized bitmaps, whose extents are validated side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from pyroaring import BitMap

from app.file_index.payloads.cursors import Cursors
from app.file_index.payloads.roaring_sizes import skip_bitmaps

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNKNOWN_LENGTH = -1


@dataclass(frozen=True, slots=True)
class StoredBitmaps:
    """Bitmaps in one buffer, n of them.

    Attributes:
        data: the buffer.
        starts: where each starts.
        ends: where each ends; None where there is none, or one of another length than it is said to have.
        row_counts: what all positions of each must lie below.
    """

    data: memoryview
    starts: list[int]
    ends: list[int | None]
    row_counts: list[int]

    @classmethod
    def measure(
        cls,
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        limits: NDArray[np.int64],
        lengths: NDArray[np.int64],
        row_counts: NDArray[np.int64],
    ) -> Self:
        """Validates the extents of bitmaps, as :func:`app.types.roaring.bitmap_size` does of one.

        Args:
            data: the buffer.
            starts: shape (n,): where each starts; anything may stand there.
            limits: shape (n,): where what holds each ends, within the buffer.
            lengths: shape (n,): bytes that it must occupy; ``UNKNOWN_LENGTH`` where nothing says.
            row_counts: shape (n,): what all positions of each must lie below.
        """
        told = lengths != UNKNOWN_LENGTH
        # Bitmaps may overlap, and must not cost more than the bytes that they are said to have.
        ends = np.where(told, starts + lengths, limits)
        inside = (starts >= 0) & (starts <= ends) & (ends <= limits)
        cursors = Cursors(data, np.where(inside, starts, 0), ends, inside)
        skip_bitmaps(cursors)
        cursors.expect(~told | (cursors.at == ends))
        measured = [
            end if sound else None
            for end, sound in zip(cursors.at.tolist(), cursors.sound.tolist(), strict=True)
        ]
        return cls(np.ascontiguousarray(data).data, starts.tolist(), measured, row_counts.tolist())

    def size(self, number: int) -> int:
        """Bytes of one of the bitmaps; 0 where there is none."""
        end = self.ends[number]
        return 0 if end is None else end - self.starts[number]

    def decode(self, number: int) -> BitMap | None:
        """As :func:`app.types.roaring.read_bitmap` gives it; None where that is an error."""
        end = self.ends[number]
        if end is None:
            return None
        try:
            found = BitMap.deserialize(bytes(self.data[self.starts[number] : end]))
        except ValueError:
            return None
        return None if found and found.max() >= self.row_counts[number] else found
