"""Columns that have no room in memory: mapped from a temporary file that has no name, and ends with them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from app.storage.disk.column_entry import Columns, write_columns
from app.work.memory import MappedBytes

_KEY: Final = b"spilled"
_BYTES_A_BYTE: Final = 16
"""Bytes of a file that count as one of memory: so a cache bounds what is spilled for it."""


def spill(columns: Mapping[str, pa.Array]) -> Columns:
    """Writes columns, each of one item, to a temporary file, and maps it.

    Raises OSError: the temporary directory takes no such file.
    """
    with tempfile.TemporaryFile() as file:
        file.writelines(write_columns(_KEY, columns))
        file.flush()
        data = MappedBytes.map(file.fileno())
    return Columns.read(_KEY, data, held=len(data) // _BYTES_A_BYTE)
