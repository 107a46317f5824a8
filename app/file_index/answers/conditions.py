"""A leaf of the predicate in terms of index keys: what the indexes of a column are asked.

Every leaf that an index can answer is one of three conditions on a row's key. A condition is *exact* when it
holds for precisely the rows that satisfy the leaf; otherwise it holds for those and some more, which happens
where values share a key (timestamps above microseconds).

Long lists of keys are asked while there is time (:data:`OutOfTime`), so that a plan ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, assert_never

from app.errors import FilterError
from app.file_index.keys.keys import Key, KeySpace, after
from app.predicates.like import literal_prefix
from app.predicates.model import BoundLeaf, Operator


@dataclass(frozen=True, slots=True)
class NullTest:
    """The row has no value (``null``), or it has one."""

    null: bool
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Points:
    """The row's key is one of ``keys`` (distinct, ascending); with ``negated`` it has a key that is not.

    ``derived``: what was computed of the keys, by its name, so that it is computed once for all files.
    """

    keys: tuple[Key, ...]
    negated: bool = False
    exact: bool = True
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Span:
    """The row's key is at least ``start`` and below ``stop``; None leaves a side open."""

    start: Key | None
    stop: Key | None
    exact: bool = True


Condition: TypeAlias = NullTest | Points | Span


def condition(leaf: BoundLeaf, space: KeySpace) -> Condition | None:  # noqa: C901 - a decision table
    """The leaf as a condition on keys; None where keys do not tell."""
    match leaf.operator:
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            return NullTest(null=leaf.operator is Operator.IS_NULL)
        case Operator.EQUAL | Operator.IN:
            return Points(space.keys_of(leaf.literals), exact=not space.lossy)
        case Operator.NOT_EQUAL | Operator.NOT_IN if space.lossy:
            # A row may share its key with a literal and still differ from it.
            return NullTest(null=False, exact=False)
        case Operator.NOT_EQUAL | Operator.NOT_IN:
            return Points(space.keys_of(leaf.literals), negated=True)
        case Operator.LESS_THAN:
            return _span(None, space.edge(leaf.literals[0], behind=False))
        case Operator.LESS_OR_EQUAL:
            return _span(None, space.edge(leaf.literals[0], behind=True))
        case Operator.GREATER_THAN:
            return _span(space.edge(leaf.literals[0], behind=True), None)
        case Operator.GREATER_OR_EQUAL:
            return _span(space.edge(leaf.literals[0], behind=False), None)
        case Operator.BETWEEN:
            low, high = leaf.literals
            span = _span(space.edge(low, behind=False), space.edge(high, behind=True))
            # Values that share a key: what has no order, such as a bloom filter, knows them too.
            if span.start is not None and span.stop == after(span.start):
                return Points((span.start,), exact=span.exact)
            return span
        case Operator.STARTS_WITH:
            return _prefixed(_text(leaf), exact=True)
        case Operator.LIKE:
            prefix = literal_prefix(_text(leaf))
            return _prefixed(prefix, exact=False) if prefix else None
        case Operator.ENDS_WITH | Operator.CONTAINS:
            return None
        case _:
            assert_never(leaf.operator)


def _span(low: tuple[Key, Key] | None, high: tuple[Key, Key] | None) -> Span:
    exact = all(cut is None or cut[0] == cut[1] for cut in (low, high))
    return Span(None if low is None else low[0], None if high is None else high[1], exact)


def _text(leaf: BoundLeaf) -> bytes:
    literal = leaf.literals[0]
    if not isinstance(literal, bytes):
        raise FilterError(f"{leaf.operator} takes a text, not {literal!r:.100}", column=leaf.field.name)
    return literal


def _prefixed(prefix: bytes, *, exact: bool) -> Span:
    stem = prefix.rstrip(b"\xff")
    return Span(prefix, stem[:-1] + bytes([stem[-1] + 1]) if stem else None, exact)


SHORT_LIST: Final = 64
"""So many keys are asked of every file, whatever is left."""


OutOfTime: TypeAlias = Callable[[], bool]
"""Whether a plan has no time left to ask more than :data:`SHORT_LIST` keys."""


def never_out_of_time() -> bool:
    """All keys are asked, however long it takes."""
    return False
