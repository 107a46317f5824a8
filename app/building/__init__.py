"""Index files made of data files: building them, proving them, and advice on which to have.

A :class:`DataFile` is read by column (:func:`read_columns`), with the types that :class:`ColumnTypes` tells.
:func:`build` and :func:`verify` take columns and bytes; neither knows where they come from.
"""

from app.building.builder import BuiltEntry, BuiltIndex, Payloads, build, write_file
from app.building.columns import ColumnTypes, DataFile, DataFormat, read_columns
from app.building.proposals import ColumnAdvice, advise, size_warning, table_options
from app.building.verification import CheckedEntry, Verification, verify

__all__ = [
    "BuiltEntry",
    "BuiltIndex",
    "CheckedEntry",
    "ColumnAdvice",
    "ColumnTypes",
    "DataFile",
    "DataFormat",
    "Payloads",
    "Verification",
    "advise",
    "build",
    "read_columns",
    "size_warning",
    "table_options",
    "verify",
    "write_file",
]
