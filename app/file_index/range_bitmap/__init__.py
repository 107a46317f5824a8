"""The kind ``range-bitmap``: layout, reader, writer. Other packages use :mod:`.kind`."""

from app.file_index.range_bitmap.kind import RANGE_BITMAP
from app.file_index.range_bitmap.range_bitmap import RangeBitmap

__all__ = [
    # The kind.
    "RANGE_BITMAP",
    # The layout: bit slices of ranks, with a dictionary.
    "RangeBitmap",
]
