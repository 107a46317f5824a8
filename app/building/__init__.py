"""Builds index files of data files, verifies them, and proposes indexes.

:func:`read_columns` reads a :class:`DataFile` by column, with the types of :class:`ColumnTypes`.
:func:`build` and :func:`verify` take columns and bytes, wherever they come from.
"""

from app.building.builder import BuiltIndex, IndexPayloads, build, write_file
from app.building.columns import Advance, ColumnTypes, DataFile, ignore_progress, read_columns, values_under
from app.building.proposals import advise, size_warning, table_options
from app.building.verification import CheckedEntry, Verification, verify

__all__ = [
    # Receives progress, in the caller's unit.
    "Advance",
    # A container and its entries.
    "BuiltIndex",
    # The verdict on one index of a container.
    "CheckedEntry",
    # Types by column.
    "ColumnTypes",
    # A data file.
    "DataFile",
    # Payloads by column and kind.
    "IndexPayloads",
    # The verdict on a container.
    "Verification",
    # Judges each of the table's columns in a data file.
    "advise",
    # Builds the container of a data file.
    "build",
    # Ignores progress.
    "ignore_progress",
    # Reads columns of a data file.
    "read_columns",
    # Warns of indexes that are large compared with their data.
    "size_warning",
    # Options that declare proposed indexes.
    "table_options",
    # Values under a key of a map, row by row.
    "values_under",
    # Verifies a container against its data file.
    "verify",
    # Writes a file, which gets its final name once it is synced to disk.
    "write_file",
]
