"""BinaryRow: the byte form of partitions, keys and statistics, and the bytes that keys are hashed from.

:mod:`~app.types.binary_row.row` has the layout and single rows, :mod:`~app.types.binary_row.rows` many at
once.
"""

from app.types.binary_row.row import ARITY_BYTES, read_row, row_hash, serialize_row, write_row
from app.types.binary_row.rows import FieldValues, RowColumns, fields_of, write_rows

__all__ = [
    # The number of fields in front of a serialized row.
    "ARITY_BYTES",
    # One field of n rows.
    "FieldValues",
    # Serialized rows with the same fields.
    "RowColumns",
    # Transposes rows of one value per type into fields.
    "fields_of",
    # Reads a serialized row, number of fields included.
    "read_row",
    # The engine's hash of a row without its number of fields, as a signed 32-bit integer.
    "row_hash",
    # Serializes a row as manifests hold it.
    "serialize_row",
    # Writes a row without its number of fields, byte for byte as the engine does.
    "write_row",
    # Writes many rows, each as `write_row` does.
    "write_rows",
]
