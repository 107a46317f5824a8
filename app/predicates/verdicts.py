"""Decides a predicate for all rows of a file at once, and for many files at once, by bounds on the columns.

Of a file, bounds prove that no row can match, that every row matches, or neither.

Of one row, some values may not be known, so there are three answers: true, false (which includes SQL's NULL:
the row is not in the answer) and unknown, for parts that nothing here can decide and for fields without a
value. This is how partitions are pruned, where only the partition's columns have values, and what every index
is held against in tests.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from app.predicates.column_bounds import ColumnBounds
from app.predicates.like import like, literal_prefix
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, BoundPredicate, Constant, Operator, Unknown
from app.types import DataField, Value, sql_key
from app.types.value_arrays import Values, count_below, count_up_to, equal, less, starts_with

if TYPE_CHECKING:
    import pyarrow as pa


Mask: TypeAlias = NDArray[np.bool_]


def matches(predicate: BoundPredicate, row: Mapping[int, Value | None]) -> bool | None:
    """Whether a row is in the predicate's answer.

    Args:
        predicate: the predicate.
        row: the row's values by field id, None for NULL; a field that is not in it is not known. A key of a
            map has the id of its map, so maps and their keys have no place in here.

    Returns:
        True only if the row is proven to be in the answer, False only if it is proven not to be, else None.
    """
    match predicate:
        case BoundLeaf(field=field):
            return leaf_matches(predicate, row[field.id]) if field.id in row else None
        case BoundAnd(children) | BoundOr(children):
            decisive = isinstance(predicate, BoundOr)
            answer: bool | None = not decisive
            for child in children:
                found = matches(child, row)
                if found is decisive:
                    return decisive
                if found is None:
                    answer = None
            return answer
        case Constant(value):
            return value
        case Unknown():
            return None
        case _:
            assert_never(predicate)


def leaf_matches(leaf: BoundLeaf, value: Value | None) -> bool:
    """Whether a value, None for NULL, passes a test."""
    if value is None:
        return leaf.operator is Operator.IS_NULL
    match leaf.operator:
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            return leaf.operator is Operator.IS_NOT_NULL
        case Operator.IN | Operator.NOT_IN:
            return _is_listed(leaf, value) is (leaf.operator is Operator.IN)
        case Operator.STARTS_WITH | Operator.ENDS_WITH | Operator.CONTAINS | Operator.LIKE:
            return _text_matches(leaf.operator, value, leaf.literals[0])
        case _:
            key = sql_key(leaf.field.type)
            return _in_order(leaf.operator, key(value), [key(literal) for literal in leaf.literals])


def _is_listed(leaf: BoundLeaf, value: Value) -> bool:
    key = sql_key(leaf.field.type)
    at = bisect_left(leaf.literals, key(value), key=key)
    return at < len(leaf.literals) and key(leaf.literals[at]) == key(value)


def _text_matches(operator: Operator, value: Any, literal: Any) -> bool:
    match operator:
        case Operator.STARTS_WITH:
            return bool(value.startswith(literal))
        case Operator.ENDS_WITH:
            return bool(value.endswith(literal))
        case Operator.CONTAINS:
            return literal in value
        case _:
            return like(value, literal)


def _in_order(operator: Operator, value: Any, literals: list[Any]) -> bool:
    literal = literals[0]
    match operator:
        case Operator.EQUAL:
            return bool(value == literal)
        case Operator.NOT_EQUAL:
            return bool(value != literal)
        case Operator.LESS_THAN:
            return bool(value < literal)
        case Operator.LESS_OR_EQUAL:
            return bool(value <= literal)
        case Operator.GREATER_THAN:
            return bool(value > literal)
        case Operator.GREATER_OR_EQUAL:
            return bool(value >= literal)
        case _:
            return bool(literal <= value <= literals[1])


class Verdict(IntEnum):
    """What bounds prove of a predicate; AND takes the least of its parts, OR the greatest."""

    NONE = 0
    """No row can match."""
    SOME = 1
    """Nothing is proven."""
    ALL = 2
    """Every row matches."""


Verdicts: TypeAlias = "NDArray[np.int8]"
"""One :class:`Verdict` a file."""
BoundsOf: TypeAlias = "Callable[[DataField, NDArray[np.int64]], ColumnBounds | None]"
VerdictTrace: TypeAlias = "Callable[[BoundLeaf, NDArray[np.int64], Verdicts, ColumnBounds | None], None]"

# NumPy compares arrays with these much faster than with members of an enum.
_NONE, _SOME, _ALL = map(np.int8, Verdict)
_FEW: Final = 4
"""Up to so many literals, comparing with each is quicker than searching."""
_SELECTING_COSTS: Final = 8
"""Selecting the bounds of a file takes about as long as judging so many files."""
_TEXT_TESTS: Final = frozenset({Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS, Operator.LIKE})


def evaluate_bounds(
    predicate: BoundPredicate, bounds: BoundsOf, files: NDArray[np.int64], trace: VerdictTrace | None = None
) -> Verdicts:
    """What bounds prove of a predicate.

    Args:
        predicate: the predicate.
        bounds: the bounds of a field in some files, in their order; None where none of them has any. It is
            asked for keys of maps, too, whose fields have the id of their map. It is asked for ``files``
            itself while many of them are undecided, since judging a few too many costs less than selecting.
        files: numbers by which ``bounds`` knows the files, shape (n,).
        trace: told every leaf, the undecided files that it was looked at for, what bounds prove of them, and
            these bounds, if there are any. A file is decided once AND met a part that no row of it can match,
            OR one that all match.

    Returns:
        int8, shape (n,).
    """

    def judge(leaf: BoundLeaf, at: NDArray[np.int64]) -> Verdicts:
        whole = _SELECTING_COSTS * len(at) >= len(files)
        known = bounds(leaf.field, files if whole else files[at])
        verdicts = _everywhere(at, _SOME) if known is None else leaf_verdicts(leaf, known)
        if len(verdicts) > len(at):
            verdicts = verdicts.take(at)
        if trace is not None:
            of_files = known if known is None or len(known) == len(at) else known.take(at)
            trace(leaf, files[at], verdicts, of_files)
        return verdicts

    return _evaluate(predicate, judge, np.arange(len(files)))


def _evaluate(
    predicate: BoundPredicate,
    judge: Callable[[BoundLeaf, NDArray[np.int64]], Verdicts],
    at: NDArray[np.int64],
) -> Verdicts:
    """The verdicts of the files at some positions."""
    match predicate:
        case BoundLeaf():
            return judge(predicate, at)
        case BoundAnd(children) | BoundOr(children):
            decisive, neutral, combine = (
                (_NONE, _ALL, np.minimum) if isinstance(predicate, BoundAnd) else (_ALL, _NONE, np.maximum)
            )
            verdicts = _everywhere(at, neutral)
            for child in children:
                undecided = np.flatnonzero(verdicts != decisive)
                if not len(undecided):
                    break
                if len(undecided) == len(at):
                    verdicts = combine(verdicts, _evaluate(child, judge, at))
                    continue
                found = _evaluate(child, judge, at.take(undecided))
                verdicts[undecided] = combine(verdicts.take(undecided), found)
            return verdicts
        case Constant(value):
            return _everywhere(at, _ALL if value else _NONE)
        case Unknown():
            return _everywhere(at, _SOME)
        case _:
            assert_never(predicate)


def leaf_verdicts(leaf: BoundLeaf, bounds: ColumnBounds) -> Verdicts:
    """What the bounds of its column prove of one test; int8, one for each file of ``bounds``."""
    all_null, no_null = bounds.null_count == bounds.row_count, bounds.null_count == 0
    match leaf.operator:
        case Operator.IS_NULL:
            none, every = no_null, all_null
        case Operator.IS_NOT_NULL:
            none, every = all_null, no_null
        case _:
            none, every = _proofs(leaf, _Ends(bounds))
            none |= all_null
            every &= no_null
    none |= bounds.row_count == 0
    verdicts: Verdicts = every.view(np.int8) + _SOME
    verdicts[none] = _NONE
    return verdicts


def _everywhere(at: NDArray[np.int64], verdict: np.int8) -> Verdicts:
    return np.full(len(at), verdict, np.int8)


class _Ends:
    """The ends between which the values of each file lie, NaN included; ``highest`` leaves it out.

    What depends on an end that is not known is not proven: the answer is False.
    """

    def __init__(self, bounds: ColumnBounds) -> None:
        self.low, self.high, self.highest = bounds.low, bounds.high, bounds.high
        self.has_low, self.has_high = bounds.has_low, bounds.has_high
        if isinstance(self.high, np.ndarray) and self.high.dtype == np.float64:
            self.high = np.where(bounds.may_hold_nan, math.nan, self.high)
        self.has_both = self.has_low & self.has_high
        self.swapped = self.has_both & less(self.highest, self.low)

    @cached_property
    def meet(self) -> Mask:
        """Whether every value is the same."""
        return self.has_both & equal(self.low, self.high)

    def all_above(self, literal: Value) -> Mask:
        """Whether every value is larger."""
        return self.has_low & less(literal, self.low)

    def all_from(self, literal: Value) -> Mask:
        """Whether every value is larger or equal."""
        return self.has_low & ~less(self.low, literal)

    def all_below(self, literal: Value) -> Mask:
        """Whether every value is smaller."""
        return self.has_high & less(self.high, literal)

    def all_up_to(self, literal: Value) -> Mask:
        """Whether every value is smaller or equal."""
        return self.has_high & ~less(literal, self.high)

    def are_clear_of(self, literals: Sequence[Value]) -> Mask:
        """Whether no literal of an ascending list lies between the ends."""
        return self._are_clear_of(literals, self.high)

    def hold_none_of(self, literals: Sequence[Value]) -> Mask:
        """Whether no value is a literal of an ascending list; NaN is none but NaN."""
        return self._are_clear_of(literals, self.high if _is_nan(literals[-1]) else self.highest)

    def hold_none_between(self, first: Value, last: Value) -> Mask:
        """Whether no value lies between two literals, inclusive."""
        high = self.high if _is_nan(last) else self.highest
        return (self.has_high & less(high, first)) | self.all_above(last)

    def _are_clear_of(self, literals: Sequence[Value], high: Values) -> Mask:
        if len(literals) <= _FEW:
            clear = [(self.has_high & less(high, each)) | self.all_above(each) for each in literals]
            found: Mask = np.logical_and.reduce(clear)
            return found
        first = np.where(self.has_low, count_below(self.low, literals), 0)
        end = np.where(self.has_high, count_up_to(high, literals), len(literals))
        return first >= end

    def all_lack(self, prefix: bytes) -> Mask:
        """Whether no string begins with ``prefix``."""
        return self.all_below(prefix) | (self.all_above(prefix) & ~starts_with(self.low, prefix))

    def all_begin(self, prefix: bytes) -> Mask:
        """Whether every string begins with ``prefix``."""
        return self.has_both & starts_with(self.low, prefix) & starts_with(self.high, prefix)


def _is_nan(literal: Value) -> bool:
    return isinstance(literal, float) and math.isnan(literal)


def _proofs(leaf: BoundLeaf, ends: _Ends) -> tuple[Mask, Mask]:
    """Of which files the ends prove that no value passes, and of which that every value does."""
    if leaf.operator in _TEXT_TESTS:
        none, every = _proofs_of_text(leaf, ends)
    else:
        none, every = _proofs_of_order(leaf, ends)
    # Swapped ends are nonsense, from which nothing follows.
    return none & ~ends.swapped, every & ~ends.swapped


def _proofs_of_order(leaf: BoundLeaf, ends: _Ends) -> tuple[Mask, Mask]:
    first, last = leaf.literals[0], leaf.literals[-1]
    match leaf.operator:
        case Operator.EQUAL | Operator.IN:
            none = ends.hold_none_of(leaf.literals)
            # Where the ends meet there is one value, be it NaN.
            return none, ends.meet & ~none
        case Operator.NOT_EQUAL | Operator.NOT_IN:
            clear = ends.are_clear_of(leaf.literals)
            return ends.meet & ~clear, clear
        case Operator.LESS_THAN:
            return ends.all_from(first), ends.all_below(first)
        case Operator.LESS_OR_EQUAL:
            return ends.all_above(first), ends.all_up_to(first)
        case Operator.GREATER_THAN:
            return ends.all_up_to(first), ends.all_above(first)
        case Operator.GREATER_OR_EQUAL:
            return ends.all_below(first), ends.all_from(first)
        case _:
            return (
                ends.hold_none_between(first, last),
                ends.all_from(first) & ends.all_up_to(last),
            )


def _proofs_of_text(leaf: BoundLeaf, ends: _Ends) -> tuple[Mask, Mask]:
    match leaf.operator, leaf.literals[0]:
        case Operator.STARTS_WITH, bytes(prefix):
            return ends.all_lack(prefix), ends.all_begin(prefix)
        case Operator.LIKE, bytes(pattern):
            none = ends.all_lack(literal_prefix(pattern))
        case _:
            none = np.zeros(len(ends.meet), np.bool_)
    # Nothing else follows from an order, unless both ends are the only value.
    alike = np.flatnonzero(ends.meet & ~none)
    passes = _passing(leaf, ends.low.take(alike))
    every = np.zeros(len(none), np.bool_)
    none[alike], every[alike] = ~passes, passes
    return none, every


def _passing(leaf: BoundLeaf, strings: pa.LargeBinaryArray) -> Mask:
    """Which strings pass a test; each distinct one is tested once."""
    distinct = strings.dictionary_encode()
    answers = np.array([leaf_matches(leaf, each) for each in distinct.dictionary.to_pylist()], np.bool_)
    places: NDArray[np.int64] = np.asarray(distinct.indices)
    return answers[places]
