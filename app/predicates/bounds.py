"""Decides a predicate for all rows of a file at once, by bounds on the values of its columns.

Bounds *enclose* the values; they need not be values themselves (writers cut long strings). What follows from
them: no row can match, every row matches, or neither is proven.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never, final

from app.predicates.like import literal_prefix
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant, Operator, Unknown
from app.predicates.rows import leaf_matches
from app.types import sql_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.types import DataField, Value


@final
class Verdict(Enum):
    """What bounds prove of a predicate."""

    NONE = "none"
    """No row can match."""
    SOME = "some"
    """Nothing is proven."""
    ALL = "all"
    """Every row matches."""


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """What is known of a column's values in one file.

    Attributes:
        min: not above any value; None if unknown (or if every row is NULL).
        max: not below any value, save NaN if ``may_hold_nan``; None if unknown (or if every row is NULL).
        null_count: rows with NULL; None if unknown.
        row_count: all rows.
        may_hold_nan: there may be NaN, which ``max`` does not take into account.
    """

    min: Value | None
    max: Value | None
    null_count: int | None
    row_count: int
    may_hold_nan: bool = False


_TEXT_TESTS: Final = frozenset({Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS, Operator.LIKE})

Trace: TypeAlias = "Callable[[BoundLeaf, Verdict], None]"


def evaluate_bounds(
    predicate: BoundPredicate,
    bounds: Callable[[DataField], ColumnBounds | None],
    trace: Trace | None = None,
) -> Verdict:
    """What bounds prove of a predicate.

    Args:
        predicate: the predicate.
        bounds: the bounds of a field in the file; None where there are none. It is asked for keys of maps,
            too, whose fields have the id of their map.
        trace: told every leaf that was looked at and what its bounds prove; AND stops at the first part
            that no row can match, OR at the first that every row matches.
    """
    match predicate:
        case BoundLeaf(field=field):
            known = bounds(field)
            verdict = Verdict.SOME if known is None else leaf_verdict(predicate, known)
            if trace is not None:
                trace(predicate, verdict)
            return verdict
        case BoundAnd(children) | BoundOr(children):
            decisive, other = (
                (Verdict.NONE, Verdict.ALL)
                if isinstance(predicate, BoundAnd)
                else (Verdict.ALL, Verdict.NONE)
            )
            undecided = False
            for child in children:
                verdict = evaluate_bounds(child, bounds, trace)
                if verdict is decisive:
                    return decisive
                undecided |= verdict is Verdict.SOME
            return Verdict.SOME if undecided else other
        case Constant(value):
            return Verdict.ALL if value else Verdict.NONE
        case Unknown():
            return Verdict.SOME
        case _:
            assert_never(predicate)


def leaf_verdict(leaf: BoundLeaf, bounds: ColumnBounds) -> Verdict:
    """What the bounds of its column prove of one test."""
    if bounds.row_count == 0:
        return Verdict.NONE
    all_null, no_null = bounds.null_count == bounds.row_count, bounds.null_count == 0
    match leaf.operator:
        case Operator.IS_NULL:
            return Verdict.ALL if all_null else Verdict.NONE if no_null else Verdict.SOME
        case Operator.IS_NOT_NULL:
            return Verdict.NONE if all_null else Verdict.ALL if no_null else Verdict.SOME
    if all_null:
        return Verdict.NONE
    key = sql_key(leaf.field.type)
    low: Any = None if bounds.min is None else key(bounds.min)
    high: Any = None if bounds.max is None else key(math.nan if bounds.may_hold_nan else bounds.max)
    if low is not None and low == high:
        verdict = _verdict(none=not leaf_matches(leaf, bounds.min), every=leaf_matches(leaf, bounds.min))
    elif _less(high, low):
        verdict = Verdict.SOME  # swapped ends are nonsense, from which nothing follows
    elif leaf.operator in _TEXT_TESTS:
        verdict = _verdict_of_text(leaf, low, high)
    else:
        verdict = _verdict_of_order(leaf, low, high)
    return Verdict.SOME if verdict is Verdict.ALL and not no_null else verdict


def _verdict(*, none: bool, every: bool) -> Verdict:
    return Verdict.NONE if none else Verdict.ALL if every else Verdict.SOME


def _less(left: Any, right: Any) -> bool:  # noqa: ANN401 - keys of one type compare
    """Whether ``left < right`` is known; ends that are None are not."""
    return left is not None and right is not None and bool(left < right)


def _up_to(left: Any, right: Any) -> bool:  # noqa: ANN401 - keys of one type compare
    """Whether ``left <= right`` is known."""
    return left is not None and right is not None and bool(left <= right)


def _verdict_of_order(leaf: BoundLeaf, low: Any, high: Any) -> Verdict:  # noqa: ANN401 - keys of one type compare
    """What holds of all values from ``low`` to ``high``, which are keys in SQL's order."""
    key = sql_key(leaf.field.type)
    first, last = key(leaf.literals[0]), key(leaf.literals[-1])
    match leaf.operator:
        case Operator.EQUAL | Operator.IN:
            return _verdict(none=_is_clear_of(leaf, low, high), every=False)
        case Operator.NOT_EQUAL | Operator.NOT_IN:
            return _verdict(none=False, every=_is_clear_of(leaf, low, high))
        case Operator.LESS_THAN:
            return _verdict(none=_up_to(first, low), every=_less(high, first))
        case Operator.LESS_OR_EQUAL:
            return _verdict(none=_less(first, low), every=_up_to(high, first))
        case Operator.GREATER_THAN:
            return _verdict(none=_up_to(high, first), every=_less(first, low))
        case Operator.GREATER_OR_EQUAL:
            return _verdict(none=_less(high, first), every=_up_to(first, low))
        case _:
            return _verdict(
                none=_less(high, first) or _less(last, low), every=_up_to(first, low) and _up_to(high, last)
            )


def _is_clear_of(leaf: BoundLeaf, low: Any, high: Any) -> bool:  # noqa: ANN401 - keys of one type compare
    """Whether no literal of an ascending list lies between two ends."""
    key = sql_key(leaf.field.type)
    start = 0 if low is None else bisect_left(leaf.literals, low, key=key)
    end = len(leaf.literals) if high is None else bisect_right(leaf.literals, high, key=key)
    return start >= end


def _verdict_of_text(leaf: BoundLeaf, low: bytes | None, high: bytes | None) -> Verdict:
    """What holds of all strings from ``low`` to ``high``."""
    match leaf.operator, leaf.literals[0]:
        case Operator.STARTS_WITH, bytes(prefix):
            every = (
                low is not None and high is not None and low.startswith(prefix) and high.startswith(prefix)
            )
        case Operator.LIKE, bytes(pattern):
            prefix, every = literal_prefix(pattern), False
        case _:
            return Verdict.SOME
    before = high is not None and high < prefix
    behind = low is not None and low[: len(prefix)] > prefix
    return _verdict(none=before or behind, every=every)
