"""Literals of Iceberg's expressions as literals of a column.

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

import math
from decimal import Context
from typing import Final, NamedTuple

from app.errors import FilterError
from app.predicates.unbound import LiteralKind
from app.types import DataField, DataType, TypeRoot, parse_json
from app.types.civil_time import read_timestamp
from app.types.data_types import FLOATING_ROOTS, INTEGER_BITS, TIMESTAMP_ROOTS
from app.types.json_values import MAX_NUMBER_TEXT, any_decimal, is_integer
from app.types.session_zone import Instants
from app.types.time_units import NANOS_PER_MICRO
from app.types.values import integer_range, to_float32

_EXACT: Final = Context(prec=2 * MAX_NUMBER_TEXT + 100)
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63
_NOT_FINITE: Final = frozenset({"nan", "inf", "infinity"})


class Fitted(NamedTuple):
    """A literal; ``wide``: some clients compare with a number next to it, so that tests have to be wider."""

    value: object
    wide: bool = False
    kind: LiteralKind = LiteralKind.JSON


def fit_literal(value: object, field: DataField) -> Fitted | None:
    """A scalar of JSON as a literal of a column of a simple type; None if clients differ about what it is.

    Raises:
        FilterError: nothing of the column can be compared with it.
    """
    data_type = field.type
    try:
        fitted = _fit(value, data_type)
        if fitted is not None and data_type.root not in TIMESTAMP_ROOTS:
            parse_json(fitted.value, data_type)
    except (ValueError, FilterError) as error:
        raise FilterError(
            f"{value!r:.100} cannot be compared with {field.name}, which is {data_type}: {error}",
            column=field.name,
        ) from error
    return fitted


def _fit(value: object, data_type: DataType) -> Fitted | None:
    root = data_type.root
    if root in INTEGER_BITS:
        number = any_decimal(value)
        low, high = integer_range(data_type)
        is_held = number == number.to_integral_value() and low <= number <= high
        return Fitted(int(number)) if is_held else None
    if root in FLOATING_ROOTS:
        return _floating(value, root)
    if root in TIMESTAMP_ROOTS:
        return _timestamp(value, root)
    if root is TypeRoot.DECIMAL:
        scaled = any_decimal(value).scaleb(data_type.scale, _EXACT)
        if scaled != scaled.to_integral_value() or abs(scaled) >= 10**data_type.precision:
            return None
    elif root is TypeRoot.DATE:
        if isinstance(value, str) and "T" in value:
            read_timestamp(value)
            return None
        if isinstance(value, int) and not -_INT32 <= value < _INT32:
            return None
    return Fitted(value)


def _floating(value: object, root: TypeRoot) -> Fitted | None:
    if isinstance(value, str) and value.strip().lower().lstrip("+-") in _NOT_FINITE:
        return None
    number = float(any_decimal(value))
    held = to_float32(number) if root is TypeRoot.FLOAT else number
    # Java orders -0.0 before 0.0; of a FLOAT some compare the nearest value, and others this number.
    return Fitted(held, wide=held == 0 or held != number) if math.isfinite(held) else None


def _timestamp(value: object, root: TypeRoot) -> Fitted | None:
    has_zone = root is TypeRoot.TIMESTAMP_LTZ
    if isinstance(value, int) and is_integer(value):
        if not -_INT64 <= value < _INT64:
            return None
        nanos = value * NANOS_PER_MICRO
        if has_zone:
            return Fitted(Instants(nanos, nanos), kind=LiteralKind.TIMESTAMP_LTZ)
        return Fitted(nanos, kind=LiteralKind.TIMESTAMP_NTZ)
    if not isinstance(value, str):
        raise ValueError("expected a timestamp")  # noqa: TRY004 - turned into one error for all
    read = read_timestamp(value)
    is_another = (read.zone is not None) is not has_zone or read.clock % NANOS_PER_MICRO
    return None if is_another else Fitted(value)
