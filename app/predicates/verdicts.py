"""Verdicts about a predicate by bounds of columns: about all rows of a file, for many files at once.

Bounds prove that no row of a file can match, that every row matches, or neither. They *enclose* the values of
a file, and need not be values themselves (writers cut long strings).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from app.predicates.like import like, literal_prefix
from app.predicates.model import (
    TEXT_TESTS,
    BoundAnd,
    BoundLeaf,
    BoundOr,
    BoundPredicate,
    Constant,
    Operator,
    Unknown,
)
from app.types import DataField, Value
from app.types.values import Values, concat, count_below, count_up_to, equal, less, memory_bytes, starts_with

if TYPE_CHECKING:
    import pyarrow as pa


UNKNOWN_COUNT: Final = -1

_Mask: TypeAlias = NDArray[np.bool_]

# One `Verdict` per file.
Verdicts: TypeAlias = "NDArray[np.int8]"
BoundsOf: TypeAlias = "Callable[[DataField, NDArray[np.int64]], ColumnBounds | None]"
VerdictTrace: TypeAlias = "Callable[[BoundLeaf, NDArray[np.int64], Verdicts, ColumnBounds | None], None]"

# Up to this many literals, comparing each is faster than searching.
_FEW: Final = 4
# Selecting the bounds of one file takes about as long as judging this many.
_SELECTING_COSTS: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBounds:
    """Bounds of a column in each of n files. Every array has the shape (n,)."""

    # Not above any value, in a form of `app.types.values`; undefined unless `has_low`.
    low: Values
    # Not below any value, except NaN where `may_hold_nan`; undefined unless `has_high`.
    high: Values
    # The lower bound is known; False where every row is NULL.
    has_low: NDArray[np.bool_]
    has_high: NDArray[np.bool_]
    # int64, rows with NULL; -1 where unknown.
    null_count: NDArray[np.int64]
    # int64, all rows.
    row_count: NDArray[np.int64]
    # There may be NaN, which `high` ignores.
    may_hold_nan: NDArray[np.bool_]
    # A stored bound cannot be decoded, and counts as unknown.
    unreadable: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row_count)

    @property
    def nbytes(self) -> int:
        """Approximate memory of the arrays, without mapped parts."""
        return sum(memory_bytes(getattr(self, member.name)) for member in fields(self))

    def take(self, files: NDArray[np.int64]) -> Self:
        """Select files by position, in that order."""
        return type(self)(*(getattr(self, member.name).take(files) for member in fields(self)))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Concatenate bounds of one column over the files of one or more parts."""
        if len(parts) == 1:
            return parts[0]
        names = [member.name for member in fields(cls)]
        return cls(*(concat([getattr(part, name) for part in parts]) for name in names))


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


class Verdict(IntEnum):
    """Proof about a predicate. AND takes the least of its parts, OR the greatest."""

    # No row can match.
    NONE = 0
    # Nothing is proven.
    SOME = 1
    # Every row matches.
    ALL = 2


# NumPy compares arrays with these much faster than with members of an enum.
_NONE, _SOME, _ALL = map(np.int8, Verdict)


def evaluate_bounds(
    predicate: BoundPredicate, bounds: BoundsOf, files: NDArray[np.int64], trace: VerdictTrace | None = None
) -> Verdicts:
    """Decide a predicate by bounds. Return int8, shape (n,).

    ``bounds``: returns bounds of a field, or of a map key (with its map's id), for some files in order.
    Returns None if no file has bounds.
    ``files``: numbers of the files in ``bounds``, shape (n,).
    ``trace``: receives every leaf, the undecided files it was evaluated for, its verdicts, and their bounds,
    if any. A file is decided once AND meets a part that no row matches, or OR one that all match.
    """

    def judge(leaf: BoundLeaf, at: NDArray[np.int64]) -> Verdicts:
        # While many files are undecided, judging all of them costs less than selecting.
        whole = _SELECTING_COSTS * len(at) >= len(files)
        column_bounds = bounds(leaf.field, files if whole else files[at])
        verdicts = _everywhere(at, _SOME) if column_bounds is None else leaf_verdicts(leaf, column_bounds)
        if len(verdicts) > len(at):
            verdicts = verdicts.take(at)
        if trace is not None:
            of_files = (
                column_bounds
                if column_bounds is None or len(column_bounds) == len(at)
                else column_bounds.take(at)
            )
            trace(leaf, files[at], verdicts, of_files)
        return verdicts

    return _evaluate(predicate, judge, np.arange(len(files)))


def _evaluate(
    predicate: BoundPredicate,
    judge: Callable[[BoundLeaf, NDArray[np.int64]], Verdicts],
    at: NDArray[np.int64],
) -> Verdicts:
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
                of_child = _evaluate(child, judge, at.take(undecided))
                verdicts[undecided] = combine(verdicts.take(undecided), of_child)
            return verdicts
        case Constant(value):
            return _everywhere(at, _ALL if value else _NONE)
        case Unknown():
            return _everywhere(at, _SOME)
        case _:
            assert_never(predicate)


def leaf_verdicts(leaf: BoundLeaf, bounds: ColumnBounds) -> Verdicts:
    """Decide one test by the bounds of its column: int8, one per file of ``bounds``."""
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
    """Ends that enclose the values of each file, NaN included. ``highest`` ignores NaN.

    Methods return False where they depend on an unknown end.
    """

    def __init__(self, bounds: ColumnBounds) -> None:
        self.low, self.high, self.highest = bounds.low, bounds.high, bounds.high
        self.has_low, self.has_high = bounds.has_low, bounds.has_high
        if isinstance(self.high, np.ndarray) and self.high.dtype == np.float64:
            self.high = np.where(bounds.may_hold_nan, math.nan, self.high)
        self.has_both = self.has_low & self.has_high
        self.swapped = self.has_both & less(self.highest, self.low)

    @cached_property
    def meet(self) -> _Mask:
        return self.has_both & equal(self.low, self.high)

    def all_above(self, literal: Value) -> _Mask:
        return self.has_low & less(literal, self.low)

    def all_from(self, literal: Value) -> _Mask:
        return self.has_low & ~less(self.low, literal)

    def all_below(self, literal: Value) -> _Mask:
        return self.has_high & less(self.high, literal)

    def all_up_to(self, literal: Value) -> _Mask:
        return self.has_high & ~less(literal, self.high)

    def are_clear_of(self, literals: Sequence[Value]) -> _Mask:
        return self._are_clear_of(literals, self.high)

    def hold_none_of(self, literals: Sequence[Value]) -> _Mask:
        # NaN equals only a literal NaN, which is the last of an ascending list.
        return self._are_clear_of(literals, self.high if _is_nan(literals[-1]) else self.highest)

    def hold_none_between(self, first: Value, last: Value) -> _Mask:
        high = self.high if _is_nan(last) else self.highest
        return (self.has_high & less(high, first)) | self.all_above(last)

    def _are_clear_of(self, literals: Sequence[Value], high: Values) -> _Mask:
        if len(literals) <= _FEW:
            clear = [(self.has_high & less(high, literal)) | self.all_above(literal) for literal in literals]
            is_clear: _Mask = np.logical_and.reduce(clear)
            return is_clear
        first = np.where(self.has_low, count_below(self.low, literals), 0)
        end = np.where(self.has_high, count_up_to(high, literals), len(literals))
        return first >= end

    def all_lack(self, prefix: bytes) -> _Mask:
        return self.all_below(prefix) | (self.all_above(prefix) & ~starts_with(self.low, prefix))

    def all_begin(self, prefix: bytes) -> _Mask:
        return self.has_both & starts_with(self.low, prefix) & starts_with(self.high, prefix)


def _is_nan(literal: Value) -> bool:
    return isinstance(literal, float) and math.isnan(literal)


def _proofs(leaf: BoundLeaf, ends: _Ends) -> tuple[_Mask, _Mask]:
    if leaf.operator in TEXT_TESTS:
        none, every = _proofs_of_text(leaf, ends)
    else:
        none, every = _proofs_of_order(leaf, ends)
    # Nothing follows from swapped ends, which are nonsense.
    return none & ~ends.swapped, every & ~ends.swapped


def _proofs_of_order(leaf: BoundLeaf, ends: _Ends) -> tuple[_Mask, _Mask]:
    first, last = leaf.literals[0], leaf.literals[-1]
    match leaf.operator:
        case Operator.EQUAL | Operator.IN:
            none = ends.hold_none_of(leaf.literals)
            # If the bounds meet, there is one value, perhaps NaN.
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
            return (ends.hold_none_between(first, last), ends.all_from(first) & ends.all_up_to(last))


def _proofs_of_text(leaf: BoundLeaf, ends: _Ends) -> tuple[_Mask, _Mask]:
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


def _passing(leaf: BoundLeaf, strings: pa.LargeBinaryArray) -> _Mask:
    # Each distinct string is tested once.
    distinct = strings.dictionary_encode()
    texts = distinct.dictionary.to_pylist()
    answers = np.array([_text_matches(leaf.operator, text, leaf.literals[0]) for text in texts], np.bool_)
    places: NDArray[np.int64] = np.asarray(distinct.indices)
    return answers[places]
