"""Random columns, and leaves over them."""

import math
from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st

from app.predicates.model import BoundLeaf, Operator
from app.types import DataField, DataType, TypeRoot, Value, parse_type, sql_key
from app.types.civil_time import MILLIS_PER_DAY, NANOS_PER_MICRO, NANOS_PER_MILLI
from app.types.data_types import INTEGER_BITS, STRING_ROOTS, TIMESTAMP_ROOTS
from app.types.values import integer_range

_WRITTEN: Final = """
BOOLEAN; TINYINT; SMALLINT; INT; BIGINT; FLOAT; DOUBLE; DECIMAL(9, 2); DECIMAL(18, 4); DECIMAL(38, 10);
CHAR(4); STRING; BYTES; DATE; TIME(3); TIMESTAMP(0); TIMESTAMP(3); TIMESTAMP(6); TIMESTAMP(9);
TIMESTAMP(6) WITH LOCAL TIME ZONE
"""
TYPES: Final = tuple(parse_type(text.strip()) for text in _WRITTEN.split(";"))

_LEAST_BSI = -(1 << 63) + 1
_TEXTS = st.text(alphabet="ab\x00é日😀\uffff", max_size=4).map(str.encode)


def values(data_type: DataType) -> st.SearchStrategy[Value]:
    """Values of a type: few near each other, so that rows share them, and the extremes."""
    root = data_type.root
    if root in INTEGER_BITS:
        low, high = integer_range(data_type)
        return st.integers(-3, 3) | st.sampled_from([low, low + 1, high]) | st.integers(low, high)
    if root in STRING_ROOTS:
        return _TEXTS
    if root in TIMESTAMP_ROOTS:
        unit = NANOS_PER_MILLI if data_type.is_compact_timestamp else NANOS_PER_MICRO
        if data_type.precision > 6:
            return st.integers(-2_500, 2_500)
        return st.integers(-3, 3).map(lambda steps: steps * unit) | st.just(unit * 4_000_000_000_000)
    match root:
        case TypeRoot.BOOLEAN:
            return st.booleans()
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            special = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5])
            return special | st.floats(width=32 if root is TypeRoot.FLOAT else 64)
        case TypeRoot.DECIMAL:
            largest = min(10**data_type.precision - 1, 1 << 62)
            return st.integers(-3, 3) | st.integers(-largest, largest)
        case TypeRoot.DATE:
            return st.integers(-3, 3) | st.integers(-(1 << 31), (1 << 31) - 1)
        case TypeRoot.TIME:
            return st.integers(0, 3) | st.just(MILLIS_PER_DAY - 1)
        case _:
            return st.binary(max_size=3)


def columns(data_type: DataType, *, least_integer: bool = True) -> st.SearchStrategy[list[Value | None]]:
    found = values(data_type)
    if not least_integer:
        found = found.filter(lambda value: value != _LEAST_BSI - 1)
    return st.lists(st.none() | found, max_size=40)


@st.composite
def leaves(draw: st.DrawFn, field: DataField, rows: Sequence[Value | None]) -> BoundLeaf:
    """Return a leaf as binding makes them, its literals taken from the rows as often as not."""
    present = [value for value in rows if value is not None]
    literal = values(field.type) | st.sampled_from(present) if present else values(field.type)
    key = sql_key(field.type)
    operator = draw(st.sampled_from(_operators(field.type)))
    match operator:
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            return BoundLeaf(operator, field)
        case Operator.BETWEEN:
            low, high = sorted([draw(literal), draw(literal)], key=key)
            return BoundLeaf(operator, field, (low, high))
        case Operator.IN | Operator.NOT_IN:
            by_key = {key(value): value for value in draw(st.lists(literal, min_size=1, max_size=6))}
            return BoundLeaf(operator, field, tuple(by_key[each] for each in sorted(by_key)))
        case Operator.LIKE:
            prefix = draw(_TEXTS)
            return BoundLeaf(operator, field, (prefix + draw(st.sampled_from([b"", b"%", b"_", b"%a"])),))
        case _:
            return BoundLeaf(operator, field, (draw(literal),))


def _operators(data_type: DataType) -> list[Operator]:
    text = {Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS, Operator.LIKE}
    return [one for one in Operator if one not in text or data_type.root in STRING_ROOTS]
