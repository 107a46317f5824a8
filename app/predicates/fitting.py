"""Fits a literal to a column's type: the one place that knows how Spark compares types that differ.

==================  =========================================================================================
column              literals of SQL that have a place
==================  =========================================================================================
numeric, BOOLEAN    numbers, booleans, text that Spark casts (:mod:`app.predicates.number_fitting`)
strings             strings (with anything else Spark casts the column)
binaries            binaries
DATE                dates, text, timestamps (which lie between two days unless at midnight)
timestamps          timestamps, dates, text
others              none
==================  =========================================================================================

Literals of JSON are read in the column's type. NULL has no place in any type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import FilterError
from app.predicates.number_fitting import place_in_double, place_in_float, place_in_scaled
from app.predicates.places import Exact, Gap, Nowhere, Place
from app.predicates.spark_text import cast_date, cast_timestamp
from app.predicates.unbound import LiteralKind
from app.types import TypeRoot, parse_json
from app.types.civil_time import NANOS_PER_DAY
from app.types.data_types import BINARY_ROOTS, INTEGER_BITS, STRING_ROOTS, TIMESTAMP_ROOTS

if TYPE_CHECKING:
    from app.predicates.unbound import Literal
    from app.types import DataField, DataType

_SCALED_ROOTS = frozenset({TypeRoot.DECIMAL, *INTEGER_BITS})


def fit(literal: Literal, field: DataField) -> Place:
    """The place of a literal among the values of a column.

    Raises:
        FilterError: the literal does not fit the column's type.
    """
    if literal.value is None:
        return Nowhere.NULL
    try:
        return _place(literal, field.type)
    except FilterError as error:
        raise FilterError(str(error), column=field.name, position=literal.position) from error
    except ValueError as error:
        shown = f"{literal.value!r:.100}"
        message = f"{shown} cannot be compared with {field.name}, which is {field.type}: {error}"
        raise FilterError(message, column=field.name, position=literal.position) from error


def _place(literal: Literal, data_type: DataType) -> Place:
    root = data_type.root
    if literal.kind is LiteralKind.JSON:
        return _place_of_json(literal, data_type)
    if root in _SCALED_ROOTS or root is TypeRoot.BOOLEAN:
        return place_in_scaled(literal, data_type)
    if root is TypeRoot.FLOAT:
        return place_in_float(literal)
    if root is TypeRoot.DOUBLE:
        return place_in_double(literal)
    if root in STRING_ROOTS and literal.kind is LiteralKind.STRING:
        return Exact(str(literal.value).encode())
    if root in BINARY_ROOTS and isinstance(literal.value, bytes):
        return Exact(literal.value)
    if root is TypeRoot.DATE:
        return _place_in_dates(literal)
    if root in TIMESTAMP_ROOTS:
        return _place_in_timestamps(literal, root)
    return Nowhere.UNDECIDED


def _place_of_json(literal: Literal, data_type: DataType) -> Place:
    # Numbers beyond the ends or between the steps of the type are decided instead of refused.
    if data_type.root in _SCALED_ROOTS:
        return place_in_scaled(literal, data_type)
    value = parse_json(literal.value, data_type)
    return Nowhere.NULL if value is None else Exact(value)


def _place_in_dates(literal: Literal) -> Place:
    match literal.kind, literal.value:
        case LiteralKind.DATE, int(days):
            return Exact(days)
        case LiteralKind.TIMESTAMP, int(nanos):
            days, clock = divmod(nanos, NANOS_PER_DAY)
            return Exact(days) if clock == 0 else Gap(days, days + 1)
        case LiteralKind.STRING, str(text):
            return Exact(cast_date(text))
        case _:
            return Nowhere.UNDECIDED


def _place_in_timestamps(literal: Literal, root: TypeRoot) -> Place:
    match literal.kind, literal.value:
        case LiteralKind.TIMESTAMP, int(nanos):
            return Exact(nanos)
        case LiteralKind.DATE, int(days):
            return Exact(days * NANOS_PER_DAY)
        case LiteralKind.STRING, str(text):
            read = cast_timestamp(text)
            # Whether a wall clock minds the zone of a text is a matter of Spark's version.
            if read is None or (root is TypeRoot.TIMESTAMP and read.zone_minutes is not None):
                return Nowhere.UNDECIDED
            return Exact(read.utc_nanos)
        case _:
            return Nowhere.UNDECIDED
