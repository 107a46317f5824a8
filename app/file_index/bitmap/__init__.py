"""The kind ``bitmap``: layout, reader, writer. Other packages use :mod:`.kind`."""

from app.file_index.bitmap.bitmap import BitmapIndex
from app.file_index.bitmap.kind import BITMAP
from app.file_index.bitmap.stack import BitmapHeads

__all__ = [
    # The kind.
    "BITMAP",
    # Heads of m payloads, before their keys.
    "BitmapHeads",
    # Rows by value of one payload.
    "BitmapIndex",
]
