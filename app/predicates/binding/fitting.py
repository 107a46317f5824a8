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

A list whose literals are all values of the column's type, or beyond its ends, is fitted as a whole:

=================  ==========================================
values             columns
=================  ==========================================
integers           TINYINT, SMALLINT, INT, BIGINT
strings            VARCHAR (values of CHAR have several forms)
binaries           BINARY, VARBINARY
days               DATE
wall clocks        TIMESTAMP
instants           TIMESTAMP_LTZ
=================  ==========================================

Any other list is fitted literal by literal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from app.errors import FilterError
from app.predicates.binding.number_fitting import place_in_double, place_in_float, place_in_scaled
from app.predicates.binding.places import Exact, Nowhere, Place
from app.predicates.binding.time_fitting import TIME_ROOTS, place_among_instants, place_in_times
from app.predicates.literal_lists import ListedKind, LiteralList
from app.predicates.unbound import Literal, LiteralKind
from app.types import DataField, DataType, TypeRoot, Value, parse_json
from app.types.data_types import BINARY_ROOTS, INTEGER_BITS, STRING_ROOTS
from app.types.json_values import parse_instants
from app.types.session_zone import SessionZone
from app.types.values import integer_range

_SCALED_ROOTS = frozenset({TypeRoot.DECIMAL, *INTEGER_BITS})
_LISTED_ROOTS: Final = {
    ListedKind.INTEGER: frozenset(INTEGER_BITS),
    ListedKind.TEXT: frozenset({TypeRoot.VARCHAR}),
    ListedKind.BINARY: BINARY_ROOTS,
    ListedKind.DATE: frozenset({TypeRoot.DATE}),
    ListedKind.CLOCK: frozenset({TypeRoot.TIMESTAMP}),
    ListedKind.INSTANT: frozenset({TypeRoot.TIMESTAMP_LTZ}),
    ListedKind.OTHER: frozenset[TypeRoot](),
}


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


class FittedList(NamedTuple):
    """What the literals of a list are in a column's type.

    Attributes:
        values: without those that the type cannot hold.
        has_null: whether one of the literals is NULL.
    """

    values: Sequence[Value]
    has_null: bool


def fit_list(literals: Sequence[Literal], data_type: DataType) -> FittedList | None:
    """The values that one or more literals are; None if they have to be fitted one by one."""
    if (
        not isinstance(literals, LiteralList)
        or not literals
        or data_type.root not in _LISTED_ROOTS[literals.kind]
    ):
        return None
    values: Sequence[Any] = literals.values
    match literals.kind:
        case ListedKind.INTEGER:
            low, high = integer_range(data_type)
            if values and not (low <= min(values) and max(values) <= high):
                values = [value for value in values if low <= value <= high]
        case ListedKind.TEXT:
            try:
                values = [text.encode() for text in values]
            except UnicodeEncodeError:
                # Half a character; the error should tell where.
                return None
        case _:
            pass
    return FittedList(values, literals.nulls > 0)
