"""Conditions on index keys, the answers of indexes to them, and how answers combine.

A leaf of a filter becomes one of three conditions on a row's key, if an index can answer it. A condition is
*exact* when it holds for precisely the rows that satisfy the leaf. Otherwise it holds for further rows, for
example if values share a key (timestamps of more than 6 digits), or if LIKE is reduced to a prefix. A plan
that is out of time (:data:`OutOfTime`) does not look up long lists of keys.

The answer about one file is ``SKIP`` (no row can match), ``KEEP`` (nothing is known) or a set of row
positions outside which no row matches. Unlike in the engine, an answer also has a flag, *exact*, which is
true if every row in it satisfies the predicate. Exactness decides ``residual`` and whether top-n may narrow
further.

=====  ======================  =======================
       AND                     OR
=====  ======================  =======================
KEEP   the other answer        KEEP
SKIP   SKIP                    the other answer
rows   intersection            union
=====  ======================  =======================

For many files at once, the answer is one code for each file and no rows. The codes are ordered so that OR is
the larger of two answers, and AND the smaller. AND of two sets of rows is the exception: it is DOUBT, since
their intersection may be empty.

=====  =========================================================  ==================
code   answer once the file's rows are selected                   AND with ``ROWS``
=====  =========================================================  ==================
SKIP   ``SKIP``                                                   SKIP
DOUBT  rows, or ``SKIP`` if there turn out to be none             DOUBT
ROWS   rows                                                       DOUBT
KEEP   ``KEEP``                                                   ROWS
=====  =========================================================  ==================

A stack answers UNEVALUATED for files that it had no time to look up. They are kept.

Bitmap, range-bitmap and bsi find the rows of each key. Each of them implements the sets of :class:`RowIndex`
for one file and of :class:`RowStack` for many; :func:`select` and :meth:`RowStack.answers` build every
condition from these sets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, assert_never, final

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.errors import FilterError
from app.file_index.keys.keys import Key, KeySpace, after
from app.predicates import literal_prefix
from app.predicates.model import BoundLeaf, Operator

SHORT_LIST: Final = 64
"""Longest list of keys that is looked up in every file even when time has run out."""

OutOfTime: TypeAlias = Callable[[], bool]
"""Returns true once a plan has no time to look up more than :data:`SHORT_LIST` keys."""

StepOutcome: TypeAlias = Literal["skip", "keep", "rows", "unknown"]

Answers: TypeAlias = "NDArray[np.int8]"
"""One code of :class:`Answer` for each file."""


@dataclass(frozen=True, slots=True)
class NullTest:
    """The row has no value (``null`` is true) or has one (``null`` is false)."""

    null: bool
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Points:
    """The row has a key, which is one of ``keys`` (distinct, ascending) or, if ``negated``, none of them."""

    keys: tuple[Key, ...]
    negated: bool = False
    exact: bool = True
    # Values computed from the keys, by name, so that all files share them.
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Span:
    """The row's key is at least ``start`` and below ``stop``. None leaves a side open."""

    start: Key | None
    stop: Key | None
    exact: bool = True


Condition: TypeAlias = NullTest | Points | Span


def condition(leaf: BoundLeaf, space: KeySpace) -> Condition | None:  # noqa: C901 - a decision table
    """Translate a leaf into a condition on keys. Return None where keys cannot decide it."""
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
            # The span holds one key. A bloom filter, which has no order, can answer it as a point.
            if span.start is not None and span.stop == after(span.start):
                return Points((span.start,), exact=span.exact)
            return span
        case Operator.STARTS_WITH:
            return _prefixed(_text(leaf), exact=True)
        case Operator.LIKE:
            # All matches begin with the pattern's literal prefix, and other rows may, too.
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
    # The span ends at the smallest string above all that have the prefix. A prefix of only 0xFF has none.
    stem = prefix.rstrip(b"\xff")
    return Span(prefix, stem[:-1] + bytes([stem[-1] + 1]) if stem else None, exact)


def never_out_of_time() -> bool:
    """Return False: all keys are looked up, however long it takes."""
    return False


@final
class Decision(Enum):
    """An answer without positions."""

    KEEP = "keep"
    SKIP = "skip"


KEEP: Final = Decision.KEEP
SKIP: Final = Decision.SKIP


@dataclass(frozen=True, slots=True)
class Rows:
    """0-based row positions outside which no row matches. Never empty. Shared, so do not modify them."""

    positions: BitMap
    exact: bool


Result: TypeAlias = Decision | Rows


def rows(positions: BitMap, *, exact: bool) -> Result:
    """Make an answer from positions: ``SKIP`` if there are none."""
    return Rows(positions, exact) if positions else SKIP


def both(left: Result, right: Result) -> Result:
    """Combine two answers into the answer to ``left AND right``."""
    if left is SKIP or right is SKIP:
        return SKIP
    if isinstance(left, Rows) and isinstance(right, Rows):
        return rows(left.positions & right.positions, exact=left.exact and right.exact)
    only_rows = left if isinstance(left, Rows) else right
    # The side that is KEEP might rule out some of these rows, so they are not exact.
    return Rows(only_rows.positions, exact=False) if isinstance(only_rows, Rows) else KEEP


def either(left: Result, right: Result) -> Result:
    """Combine two answers into the answer to ``left OR right``."""
    if left is SKIP:
        return right
    if right is SKIP:
        return left
    if isinstance(left, Rows) and isinstance(right, Rows):
        return Rows(left.positions | right.positions, left.exact and right.exact)
    return KEEP


@dataclass(slots=True)
class Step:
    """One question to one index.

    Attributes:
        column: the column or map key. None for a part of the filter that names none.
        index: kind of the index. None if no index of the column could be evaluated.
        outcome: ``rows`` if positions came back, ``unknown`` if no index was evaluated.
        evidence: reason why no index was evaluated, or the conclusion from earlier steps.
        fpp: probability that a bloom filter passes a value that the file lacks. None for other kinds.
    """

    column: str | None
    index: str | None
    predicate: str
    outcome: StepOutcome
    rows: int | None = None
    evidence: str | None = None
    fpp: float | None = None
    index_bytes: int | None = None


class Answer:
    """Codes of an answer about one file."""

    # NumPy scalars: comparing an array with them is faster than with an enum or an int.
    SKIP: Final = np.int8(0)
    DOUBT: Final = np.int8(1)
    ROWS: Final = np.int8(2)
    KEEP: Final = np.int8(3)
    UNEVALUATED: Final = np.int8(4)


def everywhere(answer: np.int8, count: int) -> Answers:
    """Return ``count`` copies of one answer."""
    return np.full(count, answer, np.int8)


def where(holds: NDArray[np.bool_], answer: np.int8) -> Answers:
    """Return ``answer`` where ``holds`` is true, and SKIP elsewhere."""
    return np.where(holds, answer, Answer.SKIP)


class RowIndex(Protocol):
    """Rows by key. The caller owns the bitmaps that are returned."""

    @property
    def row_count(self) -> int:
        """Rows of the data file."""

    def null_rows(self) -> BitMap:
        """Return rows without a value."""

    def value_rows(self) -> BitMap:
        """Return rows with a value."""

    def rows_with(self, keys: Sequence[Key]) -> BitMap:
        """Return rows that have one of ``keys``, which ascend."""

    def rows_between(self, start: Key | None, stop: Key | None) -> BitMap:
        """Return rows with a key in [start, stop). None means unbounded."""

    def key_counts(self, rows: BitMap | None) -> Iterator[tuple[Key, int]]:
        """Yield the keys of ``rows`` (None: of all rows), ascending, with the number of rows of each."""


def select(index: RowIndex, condition: Condition) -> Result:
    """Select the rows that meet a condition."""
    match condition:
        case NullTest(null=True):
            matching = index.null_rows()
        case NullTest():
            matching = index.value_rows()
        case Points(keys, negated=True):
            matching = index.value_rows() - index.rows_with(keys)
        case Points(keys):
            matching = index.rows_with(keys)
        case Span(start, stop):
            matching = index.rows_between(start, stop)
        case _:
            assert_never(condition)
    return rows(matching, exact=condition.exact)


def all_rows(row_count: int) -> BitMap:
    """Return every position of a file."""
    return BitMap(range(row_count))


_KnownRows = TypeVar("_KnownRows", bound=RowIndex)


class RowStack(ABC, Generic[_KnownRows]):
    """Indexes of m files. Look-ups return one answer per file, shape (m,), in arrays not to be modified."""

    __slots__ = ()

    @abstractmethod
    def of_file(self, file: int) -> _KnownRows:
        """Return the index of one file, which must be present and not broken."""

    @abstractmethod
    def null_rows(self) -> Answers:
        """Answer for each file whether it has rows without a value."""

    @abstractmethod
    def value_rows(self) -> Answers:
        """Answer for each file whether it has rows with a value."""

    @abstractmethod
    def rows_with(self, keys: Sequence[Key]) -> Answers:
        """Answer for each file whether it has rows with one of the ascending ``keys``."""

    @abstractmethod
    def rows_without(self, keys: Sequence[Key]) -> Answers:
        """Answer for each file whether it has rows with a key other than the ascending ``keys``."""

    @abstractmethod
    def rows_between(self, start: Key | None, stop: Key | None) -> Answers:
        """Answer for each file whether it has a key in [start, stop). None means unbounded."""

    def answers(self, condition: Condition, files: NDArray[np.int64], out_of_time: OutOfTime) -> Answers:
        """Answer a condition for each of ``files``, in their order."""
        match condition:
            case Points(keys) if len(keys) > SHORT_LIST and out_of_time():
                return everywhere(Answer.UNEVALUATED, len(files))
            case NullTest(null=True):
                rows_of_files = self.null_rows()
            case NullTest():
                rows_of_files = self.value_rows()
            case Points(keys, negated=True):
                rows_of_files = self.rows_without(keys)
            case Points(keys):
                rows_of_files = self.rows_with(keys)
            case Span(start, stop):
                rows_of_files = self.rows_between(start, stop)
            case _:
                assert_never(condition)
        return rows_of_files[files]
