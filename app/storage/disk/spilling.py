"""Spills columns that memory has no room for to temporary files, which the system removes with their mapping.

``TMPDIR`` names the directory. Without it, ``/tmp`` or ``/var/tmp`` is used, the first that is on a disk. A
file system in memory is not used: its pages count against the limit of the process, and cannot be reclaimed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from tempfile import TemporaryFile
from typing import Final

import pyarrow as pa

from app.storage.disk.column_entry import Columns, write_columns
from app.work import MappedBytes
from app.work.memory import is_in_memory

_KEY: Final = b"spilled"
# Spilled bytes that weigh as one byte of memory: so a cache bounds its spilled files.
_BYTES_A_BYTE: Final = 16
_DIRECTORIES: Final = ("/tmp", "/var/tmp")  # noqa: S108 - files have no name in it


def spill(columns: Mapping[str, pa.Array]) -> Columns:
    """Write columns, of one item each, to a temporary file, and map it. Raise OSError if none takes it."""
    # A directory is always given: without one, the standard library may take the current directory.
    with TemporaryFile(dir=temporary_directory(os.environ.get("TMPDIR"))) as file:
        file.writelines(write_columns(_KEY, columns))
        file.flush()
        data = MappedBytes.map(file.fileno())
    return Columns.read(_KEY, data, held=len(data) // _BYTES_A_BYTE)


@lru_cache(1)
def temporary_directory(named: str | None) -> str:
    """Return the directory for temporary files. Raise OSError with the reason why there is none.

    ``named``: the value of ``TMPDIR``.
    """
    reasons = []
    for directory in (named,) if named else _DIRECTORIES:
        try:
            with TemporaryFile(dir=directory):
                pass
        except OSError as error:
            reasons.append(f"{directory} cannot be written to: {error.strerror or error}")
        else:
            if not is_in_memory(directory):
                return directory
            reasons.append(f"{directory} is in memory")
    raise OSError("; ".join(reasons))
