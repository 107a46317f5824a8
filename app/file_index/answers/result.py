"""The answer of an index about one file, and how answers combine.

An answer is ``SKIP`` (no row can match), ``KEEP`` (nothing is known) or a set of row positions outside of
which no row matches. Beyond the engine's lattice each answer says whether it is *exact*: whether every row
it leaves satisfies the predicate. Exactness decides ``residual`` and whether top-n may narrow further.

=====  ======================  =======================
       AND                     OR
=====  ======================  =======================
KEEP   the other answer        KEEP
SKIP   SKIP                    the other answer
rows   intersection            union
=====  ======================  =======================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias, final

from pyroaring import BitMap


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

    Attributes:
        positions: rows outside of which nothing matches; never empty (that is ``SKIP``).
        exact: every one of these rows satisfies the predicate.
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


@dataclass(frozen=True, slots=True)
class Step:
    """One question to one index.

    Attributes:
        column: the column or map key; None for a part of the filter that names none.
        index: kind of the index; None where the column has none that could be asked.
        predicate: the part of the filter that was asked.
        outcome: ``rows`` where positions came back, ``unknown`` where there was nothing to ask.
        rows: how many positions, where there are any.
    """

    column: str | None
    index: str | None
    predicate: str
    outcome: Outcome
    rows: int | None = None


def answered(column: str, index: str, predicate: str, result: Result) -> Step:
    """The step of an index that gave ``result``."""
    if isinstance(result, Rows):
        return Step(column, index, predicate, "rows", len(result.positions))
    if result is SKIP:
        return Step(column, index, predicate, "skip", 0)
    return Step(column, index, predicate, "keep")


def unanswered(column: str | None, predicate: str) -> Step:
    """The step of a part of the filter that no index can be asked about."""
    return Step(column, None, predicate, "unknown")
