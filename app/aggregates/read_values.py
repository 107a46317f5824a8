"""Stored values as Spark reads them: what groups, distinct values and ends are of.

Spark pads CHAR(n) to n characters and cuts timestamps to microseconds. Writers pad or not, and keep up to
nine digits, so that values which differ where they are stored may be one.
"""

from __future__ import annotations

from typing import Final

from app.types import DataType, TypeRoot, Value
from app.types.data_types import TIMESTAMP_ROOTS
from app.types.time_units import NANOS_PER_MICRO

_BLANK: Final = b" "
_CONTINUATION: Final = bytes(range(0x80, 0xC0))
"""Bytes that go on with a character of UTF-8."""


def as_read(value: Value, data_type: DataType) -> Value:
    """A stored value as Spark reads it; of all but CHAR and long timestamps the value itself."""
    if isinstance(value, bytes) and data_type.root is TypeRoot.CHAR:
        characters = len(value.translate(None, _CONTINUATION))
        return value + _BLANK * (data_type.precision - characters)
    if isinstance(value, int) and data_type.root in TIMESTAMP_ROOTS:
        return value - value % NANOS_PER_MICRO
    return value


def low_end(stored: Value, data_type: DataType) -> Value:
    """What no value is below, stored or read, of those that are stored from here on."""
    return min(stored, as_read(stored, data_type))


def high_end(stored: Value, data_type: DataType) -> Value | None:
    """What no value is above, stored or read, of those that are stored up to here; None if nothing tells.

    A beginning of it that goes on below a blank is above it when padded.
    """
    if data_type.root is TypeRoot.CHAR and isinstance(stored, bytes):
        return None if any(byte < _BLANK[0] for byte in stored) else as_read(stored, data_type)
    return max(stored, as_read(stored, data_type))
