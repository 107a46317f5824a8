"""Literals of Iceberg's expressions as literals of a column, in Paimon's JSON form.

=====================  ===============================================
column                 literals
=====================  ===============================================
BOOLEAN                a truth value, or its text
integers               a whole number, or its text
FLOAT, DOUBLE          a number, or its text
DECIMAL                a number, or its text
CHAR, VARCHAR          text
BINARY, VARBINARY      text of hexadecimal digits
DATE                   ``"2025-08-01"``, or days since 1970
TIMESTAMP              ISO text without a zone, or microseconds since 1970
TIMESTAMP_LTZ          ISO text with a zone, or microseconds since 1970
=====================  ===============================================

Java writes dates and timestamps as numbers, and PyIceberg numbers with a point as text. Clients round what
has no place in the column, each in its way: such a literal is unknown here, and so is one of another kind,
such as a timestamp for a DATE.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context
from typing import Final

from app.errors import FilterError
from app.types import DataField, DataType, Json, TypeRoot
from app.types.civil_time import read_date, read_timestamp
from app.types.json_values import MAX_NUMBER_TEXT, any_decimal, is_integer
from app.types.time_units import NANOS_PER_MICRO
from app.types.values import integer_range, to_float32

_MICROS_PER_MILLI: Final = 1_000
_EXACT: Final = Context(prec=2 * MAX_NUMBER_TEXT + 100)
_INT64: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Fitted:
    """A literal of a column.

    Attributes:
        value: in the JSON form of the column's type.
        wide: clients may compare with another number next to it, so that a test has to be the wider one.
    """

    value: Json
    wide: bool = False


def fit_literal(value: object, field: DataField) -> Fitted | None:
    """A literal in the form of a column; None where it is not known what clients make of it.

    Args:
        value: parsed JSON.
        field: the column, of a simple type.

    Raises:
        FilterError: nothing of the column can be compared with it.
    """
    try:
        return _READERS[field.type.root](value, field.type)
    except ValueError as error:
        raise FilterError(
            f"{value!r:.100} cannot be compared with {field.name}, which is {field.type}: {error}",
            column=field.name,
        ) from error


def _boolean(value: object, _: DataType) -> Fitted:
    match value:
        case bool():
            return Fitted(value)
        case str() if value.lower() in ("true", "false"):
            return Fitted(value.lower() == "true")
        case _:
            raise ValueError("expected true or false")


def _integer(value: object, data_type: DataType) -> Fitted | None:
    number = any_decimal(value)
    low, high = integer_range(data_type)
    if number != number.to_integral_value() or not low <= number <= high:
        return None
    return Fitted(int(number))


def _floating(value: object, data_type: DataType) -> Fitted | None:
    if isinstance(value, str) and value.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return None
    number = float(any_decimal(value))
    held = to_float32(number) if data_type.root is TypeRoot.FLOAT else number
    # Java orders -0.0 before 0.0; of a FLOAT some compare the nearest value, and others this number.
    return Fitted(held, wide=held == 0 or held != number) if math.isfinite(held) else None


def _decimal(value: object, data_type: DataType) -> Fitted | None:
    number = any_decimal(value)
    scaled = number.scaleb(data_type.scale, _EXACT)
    if scaled != scaled.to_integral_value() or abs(scaled) >= 10**data_type.precision:
        return None
    return Fitted(format(number, "f"))


def _text(value: object, _: DataType) -> Fitted:
    if not isinstance(value, str):
        raise ValueError("expected text")  # noqa: TRY004 - turned into one error for all
    return Fitted(value)


def _binary(value: object, _: DataType) -> Fitted:
    if not isinstance(value, str):
        raise ValueError("expected hexadecimal digits")  # noqa: TRY004 - turned into one error for all
    return Fitted({"$hex": binascii.unhexlify(value).hex()})


def _date(value: object, _: DataType) -> Fitted | None:
    if is_integer(value) and isinstance(value, int):
        return Fitted({"$days": value}) if -(1 << 31) <= value < 1 << 31 else None
    if not isinstance(value, str):
        raise ValueError("expected a date")  # noqa: TRY004 - turned into one error for all
    if "T" in value:
        read_timestamp(value)
        return None
    return Fitted({"$days": read_date(value)})


def _timestamp(value: object, data_type: DataType) -> Fitted | None:
    if is_integer(value) and isinstance(value, int):
        return _micros(value)
    if not isinstance(value, str):
        raise ValueError("expected a timestamp")  # noqa: TRY004 - turned into one error for all
    read = read_timestamp(value)
    has_zone, wants_zone = read.zone is not None, data_type.root is TypeRoot.TIMESTAMP_LTZ
    if has_zone is not wants_zone or read.clock % NANOS_PER_MICRO:
        return None
    return Fitted(value)


def _micros(micros: int) -> Fitted | None:
    if not -_INT64 <= micros < _INT64:
        return None
    millis, rest = divmod(micros, _MICROS_PER_MILLI)
    return Fitted({"$ms": millis, "$nanos": rest * NANOS_PER_MICRO})


_READERS: Final[dict[TypeRoot, Callable[[object, DataType], Fitted | None]]] = {
    TypeRoot.BOOLEAN: _boolean,
    TypeRoot.TINYINT: _integer,
    TypeRoot.SMALLINT: _integer,
    TypeRoot.INT: _integer,
    TypeRoot.BIGINT: _integer,
    TypeRoot.FLOAT: _floating,
    TypeRoot.DOUBLE: _floating,
    TypeRoot.DECIMAL: _decimal,
    TypeRoot.CHAR: _text,
    TypeRoot.VARCHAR: _text,
    TypeRoot.BINARY: _binary,
    TypeRoot.VARBINARY: _binary,
    TypeRoot.DATE: _date,
    TypeRoot.TIMESTAMP: _timestamp,
    TypeRoot.TIMESTAMP_LTZ: _timestamp,
}
