"""Sets of row positions in a data file, in the form of the answer."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from pyroaring import BitMap, BitMap64

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

Form: TypeAlias = Literal["bitmap", "ranges", "positions"]


@dataclass(frozen=True)
class Selection:
    """Row positions in one data file, 0-based.

    ``form``: encoding of ``content``. A ``bitmap`` has the portable roaring form, ``ranges`` are pairs of
    start and exclusive end, and ``positions`` are single positions. Both are little-endian unsigned 64-bit
    numbers. ``bits``: 32 or 64, the width of a bitmap's positions.
    """

    form: Form
    content: bytes
    bits: int = 32

    @classmethod
    def of_json(cls, form: Form, written: Any, roaring: str | None) -> Selection:
        """Convert a selection in JSON: base64 of a bitmap, pairs, or numbers."""
        if isinstance(written, str):
            return cls("bitmap", base64.b64decode(written), 64 if roaring == "roaring64" else 32)
        numbers: Iterable[int] = chain.from_iterable(written) if form == "ranges" else written
        return cls(form, b"".join(number.to_bytes(8, "little") for number in numbers))

    @cached_property
    def bitmap(self) -> BitMap | BitMap64:
        """The positions as a roaring bitmap, built once. Do not modify it."""
        kind = BitMap64 if self.bits == 64 else BitMap  # noqa: PLR2004 - the width's name
        if self.form == "bitmap":
            return kind.deserialize(self.content)
        numbers = memoryview(self.content).cast("Q").tolist()
        highest = max(numbers, default=0)
        # An exclusive end of 2^32 still fits 32-bit positions.
        made: BitMap | BitMap64 = BitMap64() if highest > 1 << 32 else BitMap()
        if self.form == "positions":
            made.update(numbers)
        else:
            for start, end in zip(numbers[::2], numbers[1::2], strict=True):
                made.add_range(start, end)
        return made

    def positions(self) -> NDArray[np.int64]:
        """Return ascending positions, shape (rows,)."""
        if self.form == "positions":
            return np.frombuffer(self.content, "<u8").astype(np.int64)
        return np.asarray(self.bitmap.to_array()).astype(np.int64)

    def __len__(self) -> int:
        return len(self.bitmap)

    def __repr__(self) -> str:
        return f"Selection({self.form}, {len(self)} rows)"
