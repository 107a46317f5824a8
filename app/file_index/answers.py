"""Answers of indexes: what they are asked (conditions on keys), what they say, and how answers combine.

Every leaf of a filter that an index can answer is one of three conditions on a row's key. A condition is
*exact* when it holds for precisely the rows that satisfy the leaf; otherwise it holds for those and some
more, which happens where values share a key (timestamps above microseconds). Long lists of keys are asked
while there is time (:data:`OutOfTime`), so that a plan ends.

The answer about one file is ``SKIP`` (no row can match), ``KEEP`` (nothing is known) or a set of row
positions outside of which no row matches. Beyond the engine's lattice each answer says whether it is *exact*:
whether every row it leaves satisfies the predicate. Exactness decides ``residual`` and whether top-n may
narrow further.

=====  ======================  =======================
       AND                     OR
=====  ======================  =======================
KEEP   the other answer        KEEP
SKIP   SKIP                    the other answer
rows   intersection            union
=====  ======================  =======================

Of many files at once it is a code for each, as far as it can be told without rows. The codes are in an order
that makes OR the larger of two answers, and AND the smaller, except that two sets of rows may have none in
common.

=====  =========================================================  ==================
code   what the file answers if it is asked for rows              AND with ``ROWS``
=====  =========================================================  ==================
SKIP   ``SKIP``                                                   SKIP
DOUBT  rows, or ``SKIP`` where there turn out to be none          DOUBT
ROWS   rows                                                       DOUBT
KEEP   ``KEEP``                                                   ROWS
=====  =========================================================  ==================

A stack also says UNASKED of files that there was no time to ask; they are as good as kept.

Bitmap, range-bitmap and bsi know the rows of each key. What each of them says of one file are the sets of
:class:`RowIndex`; of many files an answer for each instead of a set of rows, as in :class:`RowStack`. How a
condition is put together from these is the same for all.
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


@final
class Decision(Enum):
    """An answer without positions."""

    KEEP = "keep"
    SKIP = "skip"


KEEP: Final = Decision.KEEP
SKIP: Final = Decision.SKIP


@dataclass(frozen=True, slots=True)
class Rows:
    """A set of 0-based row positions; shared between requests, so never changed in place.

    ``positions``: rows outside of which nothing matches; never empty (that is ``SKIP``). ``exact``: every one
    of these rows satisfies the predicate.
    """

    positions: BitMap
    exact: bool


Result: TypeAlias = Decision | Rows


def rows(positions: BitMap, *, exact: bool) -> Result:
    """An answer from positions: ``SKIP`` where there are none."""
    return Rows(positions, exact) if positions else SKIP


def both(left: Result, right: Result) -> Result:
    """The answer to ``left AND right``."""
    if left is SKIP or right is SKIP:
        return SKIP
    if isinstance(left, Rows) and isinstance(right, Rows):
        return rows(left.positions & right.positions, exact=left.exact and right.exact)
    known = left if isinstance(left, Rows) else right
    return Rows(known.positions, exact=False) if isinstance(known, Rows) else KEEP


def either(left: Result, right: Result) -> Result:
    """The answer to ``left OR right``."""
    if left is SKIP:
        return right
    if right is SKIP:
        return left
    if isinstance(left, Rows) and isinstance(right, Rows):
        return Rows(left.positions | right.positions, left.exact and right.exact)
    return KEEP


Outcome: TypeAlias = Literal["skip", "keep", "rows", "unknown"]


@dataclass(slots=True)
class Step:
    """One question to one index.

    Attributes:
        column: the column or map key; None for a part of the filter that names none.
        index: kind of the index; None where the column has none that could be asked.
        outcome: ``rows`` where positions came back, ``unknown`` where there was nothing to ask.
        evidence: why nothing could be asked, or what follows from steps before.
        fpp: of a bloom filter: the probability that it does not rule out a value that the file lacks.
    """

    column: str | None
    index: str | None
    predicate: str
    outcome: Outcome
    rows: int | None = None
    evidence: str | None = None
    fpp: float | None = None
    index_bytes: int | None = None


class Answer:
    """What is known about one file; as codes of NumPy, which compares arrays with them fastest."""

    SKIP: Final = np.int8(0)
    DOUBT: Final = np.int8(1)
    ROWS: Final = np.int8(2)
    KEEP: Final = np.int8(3)
    UNASKED: Final = np.int8(4)


Answers: TypeAlias = "NDArray[np.int8]"
"""One code of :class:`Answer` for each file."""


def everywhere(answer: np.int8, count: int) -> Answers:
    """The same answer about ``count`` files."""
    return np.full(count, answer, np.int8)


def where(holds: NDArray[np.bool_], answer: np.int8) -> Answers:
    """``answer`` where ``holds`` is true, and SKIP elsewhere."""
    return np.where(holds, answer, Answer.SKIP)


class RowIndex(Protocol):
    """Rows by key. Bitmaps that come out are the caller's own."""

    @property
    def row_count(self) -> int:
        """Rows of the data file."""

    def null_rows(self) -> BitMap:
        """Rows without a value."""

    def value_rows(self) -> BitMap:
        """Rows with a value."""

    def rows_with(self, keys: Sequence[Key]) -> BitMap:
        """Rows that have one of ``keys``, which ascend."""

    def rows_between(self, start: Key | None, stop: Key | None) -> BitMap:
        """Rows with a key from ``start`` up to, but without, ``stop``; None leaves a side open."""

    def key_counts(self, rows: BitMap | None) -> Iterator[tuple[Key, int]]:
        """Keys, ascending, and how many of ``rows`` (None: of all) have each; keys of none are left out."""


def select(index: RowIndex, condition: Condition) -> Result:
    """Rows that meet the condition."""
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
    """Every position of a file."""
    return BitMap(range(row_count))


KnownRows = TypeVar("KnownRows", bound=RowIndex)


class RowStack(ABC, Generic[KnownRows]):
    """A :class:`app.file_index.kind.FileStack` of m files that answers any condition.

    Sets of answers have the shape (m,): SKIP, DOUBT or ROWS. Some are shared: nobody may change them.
    """

    __slots__ = ()

    @abstractmethod
    def of_file(self, file: int) -> KnownRows:
        """What one file's index says, which is there and not broken."""

    @abstractmethod
    def null_rows(self) -> Answers:
        """Whether rows have no value."""

    @abstractmethod
    def value_rows(self) -> Answers:
        """Whether rows have a value."""

    @abstractmethod
    def rows_with(self, keys: Sequence[Key]) -> Answers:
        """Whether rows have one of ``keys``, which ascend."""

    @abstractmethod
    def rows_without(self, keys: Sequence[Key]) -> Answers:
        """Whether rows have a value, but none of ``keys``, which ascend."""

    @abstractmethod
    def rows_between(self, start: Key | None, stop: Key | None) -> Answers:
        """Whether rows have a key from ``start`` up to, but without, ``stop``; None leaves a side open."""

    def answers(self, condition: Condition, files: NDArray[np.int64], out_of_time: OutOfTime) -> Answers:
        """Whether ``files`` can have rows that meet a condition, in the order of ``files``."""
        match condition:
            case Points(keys) if len(keys) > SHORT_LIST and out_of_time():
                return everywhere(Answer.UNASKED, len(files))
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
