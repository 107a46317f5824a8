"""Sets of row positions as JSON or as bytes: a roaring bitmap, ranges, or positions.

A bitmap is sent in the portable roaring form: 32-bit, or 64-bit if the file has more than 2^31-1 rows. Work
and memory follow the size of the answer, never the number of rows that a few bytes may stand for: ranges are
found by set algebra, and lists of positions have a limit.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field
from pyroaring import BitMap, BitMap64

from app.errors import LimitExceededError
from app.planning.request import SelectionForm
from app.types.roaring import Positions

_LAST_ROW_OF_32_BITS = (1 << 31) - 1

_ONE_BUCKET = struct.Struct("<QI")

_PACKED = np.dtype("<u8")

MOST_POSITIONS = 10_000_000
"""Maximum number of positions in one list; ranges and bitmaps have no such limit."""

Array: TypeAlias = NDArray[np.uint64 | np.uint32]

Selection = Annotated[
    str | list[list[int]] | list[int] | None,
    pa.binary(),
    Field(
        description="Row positions in the requested form: base64 of a portable RoaringBitmap, ranges "
        "with exclusive ends, or positions. Null: every row of the file."
    ),
]
SelectionFormat = Annotated[
    Literal["roaring32", "roaring64"] | None,
    pa.string(),
    Field(description="Which roaring form a bitmap has."),
]
DeletedRows = Annotated[
    str | list[list[int]] | list[int] | None,
    pa.binary(),
    Field(description="With `deletions` only: positions of deleted rows in that form. Null: no row."),
]


def in_form(positions: Positions, form: SelectionForm, limit: int) -> bytes | Array | None:
    """Encode the set in the requested form. Return None if the form has no positions.

    Return the portable form of a bitmap, an array of shape (ranges, 2) with ends exclusive, or positions.
    Raises LimitExceededError if a list of more than ``limit`` positions is requested.
    """
    match form:
        case SelectionForm.NONE | SelectionForm.COUNT:
            return None
        case SelectionForm.BITMAP:
            return positions.serialize()
        case SelectionForm.RANGES:
            return _ranges(positions)
        case SelectionForm.POSITIONS:
            return _listed(positions, limit)


def encode_positions(positions: Positions, form: SelectionForm, limit: int) -> str | Array | None:
    """Encode the set in the requested form for JSON."""
    return as_json(in_form(positions, form, limit))


def as_json(encoded: bytes | Array | None) -> str | Array | None:
    """Convert an encoded set for JSON: a bitmap becomes base64."""
    return base64.b64encode(encoded).decode() if isinstance(encoded, bytes) else encoded


def as_bytes(encoded: bytes | Array | None) -> bytes | None:
    """Convert an encoded set for Arrow: numbers become 64 bits in little-endian order."""
    return encoded.astype(_PACKED).tobytes() if isinstance(encoded, np.ndarray) else encoded


def sized_for(positions: Positions, row_count: int) -> Positions:
    """Convert the set to 32 bits, or to 64 for a file of more than 2^31-1 rows."""
    wide = row_count > _LAST_ROW_OF_32_BITS
    if wide == isinstance(positions, BitMap64):
        return positions
    # The 64-bit form is a list of 32-bit ones: going through it costs bytes, not rows.
    if wide:
        return BitMap64.deserialize(_ONE_BUCKET.pack(1, 0) + positions.serialize())
    if not positions:
        return BitMap()
    return (
        positions if positions.max() >> 32 else BitMap.deserialize(positions.serialize()[_ONE_BUCKET.size :])
    )


def bitmap_format(positions: Positions, form: SelectionForm) -> str | None:
    """Return the roaring form of a bitmap, ``roaring32`` or ``roaring64``. None for other forms."""
    if form is not SelectionForm.BITMAP:
        return None
    return "roaring64" if isinstance(positions, BitMap64) else "roaring32"


def _listed(positions: Positions, limit: int) -> Array:
    if len(positions) > limit:
        raise LimitExceededError(
            f"{len(positions)} positions do not fit a list of {limit}: ask for ranges or a bitmap",
            limit=limit,
        )
    return _array(positions)


def _ranges(positions: Positions) -> Array:
    # A position begins a run when its left neighbour is missing, and ends one when its right neighbour is.
    first = _array(positions.difference(positions.shift(1)))  # type: ignore[arg-type] # one width, not a mix
    # The end of the last range may be 2^32.
    is_full = len(first) and positions.max() == np.iinfo(first.dtype).max
    ranges = np.empty((len(first), 2), np.uint64 if is_full else first.dtype)
    ranges[:, 0] = first
    # Freed now, so that the next array reuses the memory: allocating takes longer than filling.
    del first
    last = _array(positions.difference(positions.shift(-1)))  # type: ignore[arg-type] # one width, not a mix
    np.add(last, 1, out=ranges[:, 1], dtype=ranges.dtype)
    return ranges


def _array(positions: Positions) -> Array:
    return np.asarray(positions.to_array())


@dataclass(frozen=True, slots=True)
class SelectionEncoding:
    """Forms in which sets of positions are written."""

    selection: SelectionForm
    positions: int = MOST_POSITIONS
    deletions: SelectionForm = SelectionForm.NONE

    def encode(
        self, positions: Positions | None, row_count: int, form: SelectionForm
    ) -> tuple[bytes | Array | None, str | None]:
        """Encode rows of a file of ``row_count`` in a form. Return them with the bitmap's roaring form."""
        if positions is None:
            return None, None
        sized = sized_for(positions, row_count)
        return in_form(sized, form, self.positions), bitmap_format(sized, form)

    def members(self, positions: Positions | None, row_count: int) -> dict[str, str | Array | None]:
        """Build ``selection`` and ``selection_format`` for JSON. None stands for every row."""
        encoded, bitmap = self.encode(positions, row_count, self.selection)
        return {"selection": as_json(encoded), "selection_format": bitmap}
