"""The kind ``bsi``: layout, reader, writer. Other packages use :mod:`.kind`."""

from app.file_index.bsi.bsi import BitSlicedIntegers
from app.file_index.bsi.kind import BSI

__all__ = [
    # The kind.
    "BSI",
    # The layout: a bitmap for each bit of the values.
    "BitSlicedIntegers",
]
