"""Random bound predicates over a few columns, and values that lie close enough to meet their literals."""

import math
from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    BoundAnd,
    BoundLeaf,
    BoundOr,
    BoundPredicate,
    Operator,
    Unknown,
)
from app.predicates.simplify import value_list
from app.types import DataField, DataType, TypeRoot, Value, parse_type, sql_key

NUMBER: Final = DataField(0, "number", parse_type("INT"))
RATIO: Final = DataField(1, "ratio", parse_type("DOUBLE"))
NAME: Final = DataField(2, "name", parse_type("STRING"))
FIELDS: Final = (NUMBER, RATIO, NAME)

_POOLS: Final[dict[TypeRoot, tuple[Any, ...]]] = {
    TypeRoot.INT: (-1, 0, 1, 2),
    TypeRoot.DOUBLE: (-0.0, 0.0, 1.5, math.nan, math.inf),
    TypeRoot.VARCHAR: (b"", b"a", b"ab", "é".encode()),
}
_ORDERINGS: Final = (
    Operator.NOT_EQUAL,
    Operator.LESS_THAN,
    Operator.LESS_OR_EQUAL,
    Operator.GREATER_THAN,
    Operator.GREATER_OR_EQUAL,
)


def pool(data_type: DataType) -> tuple[Any, ...]:
    """Return the few values that columns and literals of a type take."""
    return _POOLS[data_type.root]


def leaf(operator: Operator, field: DataField, literals: Sequence[Value]) -> BoundLeaf:
    """Make a leaf as binding does: lists are distinct and in order, and a list of one is a comparison."""
    match operator:
        case Operator.IN:
            return value_list(Operator.EQUAL, Operator.IN, field, literals)
        case Operator.NOT_IN:
            return value_list(Operator.NOT_EQUAL, Operator.NOT_IN, field, literals)
        case Operator.BETWEEN:
            low, high = sorted(literals[:2], key=sql_key(field.type))
            return BoundLeaf(operator, field, (low, high))
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            return BoundLeaf(operator, field)
        case _:
            return BoundLeaf(operator, field, tuple(literals[:1]))


@st.composite
def leaves(draw: st.DrawFn, fields: Sequence[DataField] = FIELDS) -> BoundPredicate:
    field = draw(st.sampled_from(fields))
    operator = draw(
        st.sampled_from((Operator.IN, Operator.IN, Operator.NOT_IN, Operator.IS_NULL, *_ORDERINGS))
    )
    values = st.sampled_from(pool(field.type))
    return leaf(operator, field, draw(st.lists(values, min_size=1, max_size=3)))


def predicates(
    fields: Sequence[DataField] = FIELDS, *, with_unknown: bool = False
) -> st.SearchStrategy[BoundPredicate]:
    constants: list[BoundPredicate] = [ALWAYS_TRUE, ALWAYS_FALSE]
    if with_unknown:
        constants.append(Unknown("f(name)"))
    simple = leaves(fields) | leaves(fields) | leaves(fields) | st.sampled_from(constants)

    def joined(children: st.SearchStrategy[BoundPredicate]) -> st.SearchStrategy[BoundPredicate]:
        several = st.lists(children, min_size=1, max_size=3).map(tuple)
        return several.map(BoundAnd) | several.map(BoundOr)

    return st.recursive(simple, joined, max_leaves=8)


def rows(fields: Sequence[DataField] = FIELDS) -> st.SearchStrategy[dict[int, Any]]:
    return st.fixed_dictionaries(
        {field.id: st.none() | st.sampled_from(pool(field.type)) for field in fields}
    )
