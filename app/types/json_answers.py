"""Formats values and types as JSON, each in the first form that the HTTP contract names.

Years beyond 0 to 9999 have a sign: ``+12345-01-01``, ``-0001-01-01``. Types look as in schema files::

    "DECIMAL(9, 2) NOT NULL"
    {"type": "ARRAY", "element": T}, {"type": "MULTISET", "element": T}
    {"type": "MAP NOT NULL", "key": T, "value": T}
    {"type": "ROW", "fields": [{"id": 4, "name": "city", "type": T, "description": "..."}]}
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from app.types.civil_time import NANOS_PER_DAY, NANOS_PER_MILLI, clock_text, date_text
from app.types.data_types import DataField, DataType, TypeRoot
from app.types.values import Value, to_float32

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

_EXACT = decimal.Context(prec=100)
# Significant digits after which every 32-bit float reads back as itself.
_FLOAT32_DIGITS = 9


def to_json(value: Value | None, data_type: DataType) -> Json:
    """Format a value for answers."""
    if value is None or isinstance(value, bool):
        return value
    match data_type.root:
        case TypeRoot.FLOAT:
            return _floating(_shortest_float32(float(value)))
        case TypeRoot.DOUBLE:
            return _floating(float(value))
        case TypeRoot.DECIMAL:
            return format(decimal.Decimal(int(value)).scaleb(-data_type.scale, _EXACT), "f")
        case TypeRoot.DATE:
            return date_text(int(value))
        case TypeRoot.TIME:
            return clock_text(int(value) * NANOS_PER_MILLI)
        case TypeRoot.TIMESTAMP:
            return _timestamp(int(value), "")
        case TypeRoot.TIMESTAMP_LTZ:
            return _timestamp(int(value), "Z")
        case TypeRoot.BINARY | TypeRoot.VARBINARY if isinstance(value, bytes):
            return {"$hex": value.hex()}
        case _:
            # Stored strings may hold any bytes; a reader of the answer still gets the rest of the text.
            return value.decode(errors="replace") if isinstance(value, bytes) else value


def _floating(number: float) -> float | str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 and math.copysign(1, number) < 0:
        return "-0.0"
    return number


def _shortest_float32(number: float) -> float:
    """Return the double with the fewest digits that rounds to this 32-bit value."""
    candidates = (float(f"{number:.{digits}g}") for digits in range(1, _FLOAT32_DIGITS + 1))
    return next((candidate for candidate in candidates if to_float32(candidate) == number), number)


def _timestamp(nanos: int, zone: str) -> str:
    days, clock = divmod(nanos, NANOS_PER_DAY)
    return f"{date_text(days)}T{clock_text(clock)}{zone}"


def type_json(data_type: DataType) -> str | dict[str, Json]:
    """Format a nested type as an object. Other types, and those without known inner types, are text."""
    name = data_type.root.value + ("" if data_type.nullable else " NOT NULL")
    match data_type.root:
        case TypeRoot.ARRAY | TypeRoot.MULTISET:
            return {"type": name, "element": type_json(data_type.children[0])}
        case TypeRoot.MAP:
            key, value = data_type.children
            return {"type": name, "key": type_json(key), "value": type_json(value)}
        case TypeRoot.ROW if data_type.fields:
            return {"type": name, "fields": [_field_json(field) for field in data_type.fields]}
        case _:
            return str(data_type)


def _field_json(field: DataField) -> Json:
    written: dict[str, Json] = {"id": field.id, "name": field.name, "type": type_json(field.type)}
    if field.description is not None:
        written["description"] = field.description
    return written
