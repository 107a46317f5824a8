"""The definition of what bounds prove of a filter: one file and one test at a time."""

import math
from bisect import bisect_left, bisect_right
from typing import Any

from app.predicates.like import literal_prefix
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant, Operator
from app.predicates.verdicts import Verdict
from app.types import sql_key
from tests.file_bounds import FileBounds
from tests.row_matches import leaf_matches

TEXT_TESTS = (Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS, Operator.LIKE)


def verdict_of_leaf(leaf: BoundLeaf, file: FileBounds) -> Verdict:
    if file.row_count == 0:
        return Verdict.NONE
    all_null, no_null = file.null_count == file.row_count, file.null_count == 0
    match leaf.operator:
        case Operator.IS_NULL:
            return Verdict.ALL if all_null else Verdict.NONE if no_null else Verdict.SOME
        case Operator.IS_NOT_NULL:
            return Verdict.NONE if all_null else Verdict.ALL if no_null else Verdict.SOME
    if all_null:
        return Verdict.NONE
    key: Any = sql_key(leaf.field.type)
    low = None if file.low is None else key(file.low)
    highest = None if file.high is None else key(file.high)
    high = key(math.nan) if highest is not None and file.may_hold_nan else highest
    if low is not None and highest is not None and highest < low:
        verdict = Verdict.SOME
    elif low is not None and low == high:
        verdict = Verdict.ALL if leaf_matches(leaf, file.low) else Verdict.NONE
    elif leaf.operator in TEXT_TESTS:
        verdict = verdict_of_text(leaf, low, high)
    else:
        verdict = verdict_of_order(leaf, low, high, highest)
    return Verdict.SOME if verdict is Verdict.ALL and not no_null else verdict


def verdict_of_order(leaf: BoundLeaf, low: Any, high: Any, highest: Any) -> Verdict:
    """Return what holds of all values between two keys, one of which may be unknown.

    ``highest`` leaves out NaN.
    """
    key: Any = sql_key(leaf.field.type)
    literals = [key(literal) for literal in leaf.literals]
    first, last = literals[0], literals[-1]
    start = 0 if low is None else bisect_left(literals, low)
    clear = start >= (len(literals) if high is None else bisect_right(literals, high))
    # NaN is not a value that is asked for, unless it is one itself.
    last_found = high if isinstance(last, tuple) and last[0] else highest
    absent = start >= (len(literals) if last_found is None else bisect_right(literals, last_found))
    has_low, has_high = low is not None, high is not None
    proofs: dict[Operator, tuple[bool, bool]] = {
        Operator.EQUAL: (absent, False),
        Operator.IN: (absent, False),
        Operator.NOT_EQUAL: (False, clear),
        Operator.NOT_IN: (False, clear),
        Operator.LESS_THAN: (has_low and first <= low, has_high and high < first),
        Operator.LESS_OR_EQUAL: (has_low and first < low, has_high and high <= first),
        Operator.GREATER_THAN: (has_high and high <= first, has_low and first < low),
        Operator.GREATER_OR_EQUAL: (has_high and high < first, has_low and first <= low),
        Operator.BETWEEN: (
            (has_high and last_found < first) or (has_low and last < low),
            has_low and has_high and first <= low and high <= last,
        ),
    }
    none, every = proofs[leaf.operator]
    return Verdict.NONE if none else Verdict.ALL if every else Verdict.SOME


def verdict_of_text(leaf: BoundLeaf, low: bytes | None, high: bytes | None) -> Verdict:
    literal = leaf.literals[0]
    assert isinstance(literal, bytes)
    if leaf.operator in (Operator.ENDS_WITH, Operator.CONTAINS):
        return Verdict.SOME
    prefix = literal if leaf.operator is Operator.STARTS_WITH else literal_prefix(literal)
    if (high is not None and high < prefix) or (low is not None and low[: len(prefix)] > prefix):
        return Verdict.NONE
    begins = low is not None and high is not None and low.startswith(prefix) and high.startswith(prefix)
    return Verdict.ALL if begins and leaf.operator is Operator.STARTS_WITH else Verdict.SOME


def verdict_of(predicate: BoundPredicate, bounds: dict[int, FileBounds]) -> Verdict:
    match predicate:
        case BoundLeaf(field=field):
            return verdict_of_leaf(predicate, bounds[field.id])
        case BoundAnd(children):
            return min((verdict_of(child, bounds) for child in children), default=Verdict.ALL)
        case BoundOr(children):
            return max((verdict_of(child, bounds) for child in children), default=Verdict.NONE)
        case Constant(value):
            return Verdict.ALL if value else Verdict.NONE
        case _:
            return Verdict.SOME
