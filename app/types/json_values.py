"""JSON read as values: literals, keys and partitions, in every form that the HTTP contract names.

=====================  =====================================================================================
type                   forms
=====================  =====================================================================================
BOOLEAN                boolean, or its text
integers               number without a fraction, or its text
FLOAT, DOUBLE          number, its text, ``"NaN"``, ``"Infinity"``, ``"-Infinity"``, ``"-0.0"``
DECIMAL                number, or its text
strings                string
binaries               ``{"$hex": ".."}``, ``{"$base64": ".."}``, a string of hexadecimal digits
DATE                   ``"2025-08-01"``, ``"+12345-01-01"``, epoch days, ``[y, m, d]``, ``{"$days": n}``
TIME                   ``"12:30[:15[.250]]"``, milliseconds of the day, ``[h, m[, s[, ns]]]``
timestamps             ISO text, ``[y, mo, d, h, mi[, s[, ns]]]``, ``{"$ms": n[, "$nanos": n]}``; with local
                       time zone also text with a zone, and a number with a point, which is how the engine
                       writes seconds since 1970
=====================  =====================================================================================

A number with more digits than a float keeps may come as ``decimal.Decimal``. What is written stands in
:mod:`app.types.json_answers`.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import math
from collections.abc import Callable
from typing import NoReturn

from app.errors import FilterError
from app.types.data_types import DataType, TypeRoot
from app.types.json_numbers import MAX_NUMBER_TEXT, any_decimal, any_integer
from app.types.json_times import read_json_clock, read_json_date, read_json_instants, read_json_time
from app.types.session_zone import Instants, SessionZone
from app.types.values import Value, integer_range, to_float32

_SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_EXACT = decimal.Context(prec=2 * MAX_NUMBER_TEXT + 100, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def parse_json(value: object, data_type: DataType, zone: SessionZone | None = None) -> Value | None:
    """Reads one JSON value as a value of ``data_type``; JSON null is ``None``.

    Args:
        value: the JSON value.
        data_type: its type.
        zone: the time zone of the caller's session; None if it is not known.

    Raises:
        FilterError: the value has no such form, or does not fit the type, or is a wall clock and would be an
            instant if the zone were known.
    """
    if value is None:
        return None
    if data_type.root is TypeRoot.TIMESTAMP_LTZ:
        return _only_instant(value, data_type, zone)
    read = _READERS.get(data_type.root)
    if read is None:
        raise FilterError(f"values of type {data_type} cannot be compared")
    try:
        return read(value, data_type)
    except ValueError as error:
        _refuse(value, data_type, error)


def parse_instants(value: object, data_type: DataType, zone: SessionZone | None) -> Instants:
    """Reads a timestamp with local time zone as far as it is known, see :func:`parse_json`.

    Raises:
        FilterError: the value is no timestamp.
    """
    try:
        return read_json_instants(value, zone)
    except ValueError as error:
        _refuse(value, data_type, error)


def _only_instant(value: object, data_type: DataType, zone: SessionZone | None) -> int:
    low, high = parse_instants(value, data_type, zone)
    if low != high:
        raise FilterError(
            f"{value!r:.100} names no time zone, and that of the session is not known: give time_zone, or "
            f"write it with an offset, such as 2025-08-01T12:30:00Z"
        )
    return low


def parse_integer(value: object, data_type: DataType) -> int:
    """Reads an integer of any size; whether it is in the range of ``data_type`` is the caller's matter.

    Raises:
        FilterError: the value is neither an integer nor the text of one.
    """
    try:
        return any_integer(value)
    except ValueError as error:
        _refuse(value, data_type, error)


def parse_decimal(value: object, data_type: DataType) -> decimal.Decimal:
    """Reads a finite decimal with up to 400 digits on either side; fitting it is the caller's matter.

    Raises:
        FilterError: the value is neither such a number nor the text of one.
    """
    try:
        return any_decimal(value)
    except ValueError as error:
        _refuse(value, data_type, error)


def _refuse(value: object, data_type: DataType, reason: ValueError) -> NoReturn:
    huge = isinstance(value, int) and abs(value) >= 10**MAX_NUMBER_TEXT
    shown = "this number" if huge else f"{value!r:.100}"
    raise FilterError(f"{shown} is not a value of type {data_type}: {reason}") from reason


def _boolean(value: object, _: DataType) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError("expected true or false")


def _integer_in_range(value: object, data_type: DataType) -> int:
    number = any_integer(value)
    low, high = integer_range(data_type)
    if not low <= number <= high:
        raise ValueError(f"the type holds {low} to {high}")
    return number


def _string(value: object, _: DataType) -> bytes:
    if not isinstance(value, str):
        raise ValueError("expected a string")  # noqa: TRY004 - turned into one error for all
    return value.encode()


def _binary(value: object, _: DataType) -> bytes:
    match value:
        case {"$base64": str(text), **others} if not others:
            return base64.b64decode(text, validate=True)
        case str(text):
            return binascii.unhexlify(text)
        case {"$hex": str(text), **others} if not others:
            return binascii.unhexlify(text)
        case _:
            raise ValueError('expected {"$hex": ".."}, {"$base64": ".."} or hexadecimal digits')


def _double(value: object, _: DataType) -> float:
    if isinstance(value, str):
        text = value.strip()
        return _SPECIAL_FLOATS[text] if text in _SPECIAL_FLOATS else float(any_decimal(text))
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        raise ValueError("not a number")  # noqa: TRY004 - turned into one error for all
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _float(value: object, data_type: DataType) -> float:
    return to_float32(_double(value, data_type))


def _unscaled(value: object, data_type: DataType) -> int:
    scaled = any_decimal(value).scaleb(data_type.scale, _EXACT)
    unscaled = int(scaled)
    if unscaled != scaled:
        raise ValueError(f"it has more than {data_type.scale} fraction digits")
    if abs(unscaled) >= 10**data_type.precision:
        raise ValueError("it has too many digits")
    return unscaled


_READERS: dict[TypeRoot, Callable[[object, DataType], Value]] = {
    TypeRoot.BOOLEAN: _boolean,
    TypeRoot.TINYINT: _integer_in_range,
    TypeRoot.SMALLINT: _integer_in_range,
    TypeRoot.INT: _integer_in_range,
    TypeRoot.BIGINT: _integer_in_range,
    TypeRoot.FLOAT: _float,
    TypeRoot.DOUBLE: _double,
    TypeRoot.DECIMAL: _unscaled,
    TypeRoot.CHAR: _string,
    TypeRoot.VARCHAR: _string,
    TypeRoot.BINARY: _binary,
    TypeRoot.VARBINARY: _binary,
    TypeRoot.DATE: read_json_date,
    TypeRoot.TIME: read_json_time,
    TypeRoot.TIMESTAMP: read_json_clock,
}
