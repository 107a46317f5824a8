"""Fits a literal to a column's type: the one place that knows how Spark compares types that differ.

==================  =========================================================================================
column              literals of SQL that have a place
==================  =========================================================================================
numeric, BOOLEAN    numbers, booleans, text that Spark casts (:mod:`app.predicates.binding.number_fitting`)
strings             strings (with anything else Spark casts the column)
binaries            binaries
DATE, timestamps    dates, timestamps, text (:mod:`app.predicates.binding.time_fitting`)
others              none
==================  =========================================================================================

Literals of JSON are read in the column's type. NULL has no place in any type.
"""

from __future__ import annotations

from app.errors import FilterError
from app.predicates.binding.instants import place_among_instants
from app.predicates.binding.number_fitting import place_in_double, place_in_float, place_in_scaled
from app.predicates.binding.places import Exact, Nowhere, Place
from app.predicates.binding.time_fitting import TIME_ROOTS, place_in_times
from app.predicates.unbound import Literal, LiteralKind
from app.types import DataField, DataType, TypeRoot, parse_json
from app.types.data_types import BINARY_ROOTS, INTEGER_BITS, STRING_ROOTS
from app.types.json_values import parse_instants
from app.types.session_zone import SessionZone

_SCALED_ROOTS = frozenset({TypeRoot.DECIMAL, *INTEGER_BITS})


def fit(literal: Literal, field: DataField, zone: SessionZone | None) -> Place:
    """The place of a literal among the values of a column.

    Args:
        literal: the literal.
        field: the column.
        zone: the time zone of the caller's session; None if it is not known.

    Raises:
        FilterError: the literal does not fit the column's type.
    """
    if literal.value is None:
        return Nowhere.NULL
    try:
        return _place(literal, field.type, zone)
    except FilterError as error:
        raise FilterError(str(error), column=field.name, position=literal.position) from error
    except ValueError as error:
        shown = f"{literal.value!r:.100}"
        message = f"{shown} cannot be compared with {field.name}, which is {field.type}: {error}"
        raise FilterError(message, column=field.name, position=literal.position) from error


def _place(literal: Literal, data_type: DataType, zone: SessionZone | None) -> Place:
    root = data_type.root
    if literal.kind is LiteralKind.JSON:
        return _place_of_json(literal, data_type, zone)
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
    if root in TIME_ROOTS:
        return place_in_times(literal, data_type, zone)
    return Nowhere.UNDECIDED


def _place_of_json(literal: Literal, data_type: DataType, zone: SessionZone | None) -> Place:
    # Numbers beyond the ends or between the steps of the type are decided instead of refused.
    if data_type.root in _SCALED_ROOTS:
        return place_in_scaled(literal, data_type)
    if data_type.root is TypeRoot.TIMESTAMP_LTZ:
        return place_among_instants(parse_instants(literal.value, data_type, zone))
    value = parse_json(literal.value, data_type)
    return Nowhere.NULL if value is None else Exact(value)
