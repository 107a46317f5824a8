"""Fits a whole list of literals to a column's type, where each of them is a value of it or beyond its ends.

The values are those that :func:`app.predicates.binding.fitting.fit` gives for each literal of such a list.
Any other list is fitted literal by literal.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from app.predicates.literal_lists import ListedKind, LiteralList
from app.predicates.unbound import Literal
from app.types import DataType, TypeRoot, Value
from app.types.data_types import BINARY_ROOTS, INTEGER_BITS
from app.types.values import integer_range

_ROOTS: Final = {
    ListedKind.INTEGER: frozenset(INTEGER_BITS),
    ListedKind.TEXT: frozenset({TypeRoot.VARCHAR}),
    ListedKind.BINARY: BINARY_ROOTS,
    ListedKind.DATE: frozenset({TypeRoot.DATE}),
    ListedKind.CLOCK: frozenset({TypeRoot.TIMESTAMP}),
    ListedKind.INSTANT: frozenset({TypeRoot.TIMESTAMP_LTZ}),
    ListedKind.OTHER: frozenset[TypeRoot](),
}


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
    if not isinstance(literals, LiteralList) or not literals or data_type.root not in _ROOTS[literals.kind]:
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
