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
