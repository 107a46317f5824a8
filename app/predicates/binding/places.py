"""Places literals among the values that a column's type can hold.

A literal *is* a value, or lies in a *gap* between two neighbours (beyond the ends there is only one): ``1.5``
lies between 1 and 2 of an INT, ``1000`` above every TINYINT. Comparing with a gap is as decided as with a
value.

If a column must be converted before the comparison (a wall clock to an instant, in the session's time zone),
values less than, equal to and greater than the literal form *regions* of several stretches, since a
conversion need not be monotone.

Spark's coercions depend on settings unknown here (ANSI or not). Where they differ, a gap also names the value
that the literal may be cast to; where that would not cover them, the comparison is undecided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias, final

from app.types import Value


@dataclass(frozen=True, slots=True)
class Exact:
    """Literal that equals a value."""

    value: Value


@dataclass(frozen=True, slots=True)
class Gap:
    """Literal between two neighbouring values."""

    # The neighbours; None beyond an end.
    below: Value | None
    above: Value | None
    # The neighbour that Spark's cast to the column's type returns; None if Spark does not cast.
    nearest: Value | None = None
    # Spark's analyzer folds ordered comparisons to constants, which rows with NULL then satisfy.
    folds: bool = False


class Stretch(NamedTuple):
    """Values from ``low``, inclusive, to ``high``, exclusive; None leaves a side open."""

    low: int | None
    high: int | None


@final
class Doubt(Enum):
    """Reason why the meaning of a literal is uncertain."""

    # A wall clock in a session whose time zone, or the zone's rules, are unknown.
    TIME_ZONE = "time zone"
    # Settings of the session decide the type of the comparison.
    MEANING = "meaning"


@dataclass(frozen=True, slots=True)
class Regions:
    """Stretches of values less than, equal to, and greater than the literal, ascending.

    With ``doubt``, a value is in each region it could belong to; otherwise in exactly one.
    """

    less: tuple[Stretch, ...]
    equal: tuple[Stretch, ...]
    greater: tuple[Stretch, ...]
    doubt: Doubt | None = None


@final
class Nowhere(Enum):
    """Literal without a place in the type's order."""

    NULL = "NULL"
    UNDECIDED = "undecided"


Place: TypeAlias = Exact | Gap | Regions | Nowhere


def either(first: Place, second: Place) -> Place:
    """Combine two possible places of a literal: integer values are in the regions of both."""
    if isinstance(first, Nowhere) or isinstance(second, Nowhere):
        return first if first == second else Nowhere.UNDECIDED
    one, other = _regions(first), _regions(second)
    if one == other:
        return second
    return Regions(
        tuple(united((*one.less, *other.less))),
        tuple(united((*one.equal, *other.equal))),
        tuple(united((*one.greater, *other.greater))),
        one.doubt or other.doubt or Doubt.MEANING,
    )


def in_steps(place: Place, step: int) -> Place:
    """Place a literal among values that are cut to multiples of ``step`` before comparison."""
    if isinstance(place, Nowhere):
        return place
    regions = _regions(place)

    def cut(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
        return tuple(Stretch(_up(low, step), _up(high, step)) for low, high in stretches)

    return Regions(cut(regions.less), cut(regions.equal), cut(regions.greater), regions.doubt)


def _regions(place: Exact | Gap | Regions) -> Regions:
    match place:
        case Regions():
            return place
        case Exact(int(value)):
            return Regions((Stretch(None, value),), (Stretch(value, value + 1),), (Stretch(value + 1, None),))
        case Gap(below=int(), above=int(above), nearest=None):
            return Regions((Stretch(None, above),), (), (Stretch(above, None),))
        case _:
            raise TypeError(f"expected a place among integers, found {place}")


def _up(bound: int | None, step: int) -> int | None:
    return None if bound is None else -(-bound // step) * step


def united(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Sort stretches, and merge those that touch or overlap."""
    united: list[Stretch] = []
    for stretch in sorted(stretches, key=lambda one: (one.low is not None, one.low or 0)):
        last = united[-1] if united else None
        if last is None or (last.high is not None and stretch.low is not None and last.high < stretch.low):
            united.append(stretch)
        elif last.high is not None:
            high = None if stretch.high is None else max(last.high, stretch.high)
            united[-1] = Stretch(last.low, high)
    return united


def overlap(one: Stretch, other: Stretch) -> bool:
    """Return True if two stretches share a value."""
    (low, high), (other_low, other_high) = one, other
    return (high is None or other_low is None or other_low < high) and (
        other_high is None or low is None or low < other_high
    )


def clipped(one: Stretch, other: Stretch) -> Iterator[Stretch]:
    """Yield the intersection of two stretches, unless it is empty."""
    lows = [end for end in (one.low, other.low) if end is not None]
    highs = [end for end in (one.high, other.high) if end is not None]
    if not lows or not highs or max(lows) < min(highs):
        yield Stretch(max(lows, default=None), min(highs, default=None))
