"""Which values a filter allows a key column to have.

A filter pins a key when every key column is bound by ``=``, IN, or an OR of those: then only finitely many
keys can match, and only the buckets that these hash to need to be read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, assert_never

from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant, Operator, Unknown
from app.types import DataField, Value
from app.types.data_types import FLOATING_ROOTS

MAX_KEYS: Final = 1000
"""Most keys that are tried; with more, the filter counts as not pinning the key (as in the engine)."""


def pinned_keys(predicate: BoundPredicate, fields: Sequence[DataField]) -> list[tuple[Value, ...]] | None:
    """Every key that can match, in the order of ``fields``; None where the filter does not pin them all.

    An empty list means that no key can match (``a = 1 AND a = 2``).
    """
    per_field = []
    for field in fields:
        allowed = _allowed(predicate, field)
        if allowed is None:
            return None
        per_field.append(sorted(_stored_forms(allowed, field)))
    if math.prod(map(len, per_field)) > MAX_KEYS:
        return None
    return list(itertools.product(*per_field))


def _stored_forms(allowed: frozenset[Value], field: DataField) -> Iterator[Value]:
    """The values as writers hash them: both zeros of a floating column are one value to SQL only."""
    for value in allowed:
        if field.type.root in FLOATING_ROOTS and value == 0:
            yield -0.0
            yield 0.0
        else:
            yield value


def _allowed(predicate: BoundPredicate, field: DataField) -> frozenset[Value] | None:
    """A set outside of which no value of ``field`` satisfies the filter; None if nothing bounds it."""
    match predicate:
        case BoundLeaf(operator=Operator.EQUAL | Operator.IN, field=tested, literals=literals) if (
            tested == field
        ):
            # A NaN is no member of a set that it was put in, and has many bit patterns that hash apart.
            return None if any(literal != literal for literal in literals) else frozenset(literals)  # noqa: PLR0124
        case BoundLeaf():
            return None
        case BoundAnd(children):
            bounded = [found for found in map(partial(_allowed, field=field), children) if found is not None]
            return frozenset.intersection(*bounded) if bounded else None
        case BoundOr(children):
            united: frozenset[Value] = frozenset()
            for child in children:
                found = _allowed(child, field)
                if found is None:
                    return None
                united |= found
            return united
        case Constant(value):
            return None if value else frozenset()
        case Unknown():
            return None
        case _:
            assert_never(predicate)
