"""Bounds of a CHAR column in the order of ORDER BY, which is that of padded values.

Statistics are of values as they are stored. Padding only makes a value greater, so the smallest stored one
bounds the padded ones too. Of the values up to the largest stored one only those are above it when padded
that are a beginning of it: blanks then meet what follows, and are above it if that is less than a blank.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from app.predicates.column_bounds import ColumnBounds

_BELOW_BLANK: Final = r"[\x00-\x1f]"
_CHARACTER: Final = r"[^\x80-\xbf]"
"""The first byte of a character in UTF-8."""
_ABOVE_BLANKS: Final = b"!"
"""The next byte after the blank: behind a value, it is above as many blanks as there may be."""


def padded_bounds(bounds: ColumnBounds, length: int) -> ColumnBounds:
    """Bounds of padded values.

    Args:
        bounds: of the values of a CHAR column as they are stored.
        length: n of its type.
    """
    assert isinstance(bounds.high, pa.LargeBinaryArray)  # noqa: S101 - the form of strings
    high = bounds.high.fill_null(b"")
    behind, nothing = (pa.scalar(each, pa.large_binary()) for each in (_ABOVE_BLANKS, b""))
    is_short = pc.less(pc.count_substring_regex(high, pattern=_CHARACTER), length)
    padded = pc.if_else(is_short, pc.binary_join_element_wise(high, behind, nothing), high)
    has_controls = np.asarray(pc.match_substring_regex(high, pattern=_BELOW_BLANK))
    return replace(bounds, high=padded, has_high=bounds.has_high & ~has_controls)
