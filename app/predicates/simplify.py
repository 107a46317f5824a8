"""Joins bound predicates by AND and OR, and simplifies the result.

Nested ANDs and ORs are flattened, constants and repeated leaves dropped, and equalities of one field in an OR
become one IN (``<>`` in an AND one NOT_IN), which an index answers in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    BoundAnd,
    BoundLeaf,
    BoundOr,
    BoundPredicate,
    Constant,
    Operator,
    Unknown,
    fold,
)
from app.types import FLOATING_ROOTS, INTEGER_BITS, DataField, Value, sql_key


def conjunction(parts: Sequence[BoundPredicate]) -> BoundPredicate:
    """Join ``parts`` by AND. TRUE if there are none."""
    flat = _flat(parts, BoundAnd, neutral=True)
    if flat is None:
        return ALWAYS_FALSE
    merged = _merge_lists(flat, Operator.NOT_EQUAL, Operator.NOT_IN)
    return merged[0] if len(merged) == 1 else BoundAnd(tuple(merged)) if merged else ALWAYS_TRUE


def disjunction(parts: Sequence[BoundPredicate]) -> BoundPredicate:
    """Join ``parts`` by OR. FALSE if there are none."""
    flat = _flat(parts, BoundOr, neutral=False)
    if flat is None:
        return ALWAYS_TRUE
    merged = _merge_lists(flat, Operator.EQUAL, Operator.IN)
    return merged[0] if len(merged) == 1 else BoundOr(tuple(merged)) if merged else ALWAYS_FALSE


def with_leaves(
    predicate: BoundPredicate, leaf: Callable[[BoundLeaf | Constant | Unknown], BoundPredicate]
) -> BoundPredicate:
    """Replace each leaf by the result of ``leaf``."""
    return fold(predicate, leaf, conjunction, disjunction)


def _flat(
    parts: Sequence[BoundPredicate], joint: type[BoundAnd | BoundOr], *, neutral: bool
) -> list[BoundPredicate] | None:
    """Flatten parts and drop neutral constants. Return None if a constant decides the whole."""
    flat: list[BoundPredicate] = []
    for part in parts:
        if isinstance(part, Constant):
            if part.value is not neutral:
                return None
        elif isinstance(part, joint):
            flat.extend(part.children)
        else:
            flat.append(part)
    return flat


def value_list(one: Operator, several: Operator, field: DataField, values: Iterable[Value]) -> BoundLeaf:
    """Test a field for one or more values: ``=`` or IN, or their negations."""
    distinct = _distinct(field, values)
    return BoundLeaf(one if len(distinct) == 1 else several, field, distinct)


def _distinct(field: DataField, values: Iterable[Value]) -> tuple[Value, ...]:
    if field.type.root in INTEGER_BITS:
        return tuple(np.unique(np.fromiter(values, np.int64)).tolist())
    if field.type.root not in FLOATING_ROOTS:
        return tuple(sorted(set(values)))
    key = sql_key(field.type)
    by_key = {key(value): value for value in values}
    return tuple(by_key[place] for place in sorted(by_key))


def _merge_lists(parts: Sequence[BoundPredicate], one: Operator, several: Operator) -> list[BoundPredicate]:
    lists: dict[DataField, list[BoundLeaf]] = {}
    for part in parts:
        if isinstance(part, BoundLeaf) and part.operator in (one, several):
            lists.setdefault(part.field, []).append(part)
    merged = {
        field: leaves[0]
        if len(leaves) == 1
        else value_list(one, several, field, chain.from_iterable(leaf.literals for leaf in leaves))
        for field, leaves in lists.items()
    }
    return list(_without_repeats(parts, merged, one, several))


def _without_repeats(
    parts: Sequence[BoundPredicate], lists: dict[DataField, BoundLeaf], one: Operator, several: Operator
) -> Iterator[BoundPredicate]:
    seen: set[object] = set()
    for part in parts:
        if not isinstance(part, BoundLeaf):
            yield part
        elif part.operator in (one, several):
            if part.field in lists:
                yield lists.pop(part.field)
        else:
            # NaN differs from itself in Python, but not in SQL.
            test = part.operator, part.field, tuple(map(sql_key(part.field.type), part.literals))
            if test not in seen:
                seen.add(test)
                yield part
