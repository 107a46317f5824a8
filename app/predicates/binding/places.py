"""Where a literal stands among the values that a column's type can hold.

A literal *is* one of the values, or it lies in a *gap* between two neighbouring ones (beyond the ends, only
one of them exists): ``1.5`` lies between 1 and 2 of an INT, ``1000`` behind every TINYINT. A comparison with
a gap is as decided as one with a value.

Where a column has to be converted before it is compared (a wall clock with an instant, in the session's time
zone), the values that are less than the literal, equal to it or greater than it are *regions*: several
stretches, since a conversion need not keep the order.

What Spark's coercions make of a literal depends on settings that nobody here knows (ANSI or not). Where its
meanings differ, a gap also names the value that the literal may be taken for; where that would not cover
them, the comparison is undecided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias, final

from app.types import Value


@dataclass(frozen=True, slots=True)
class Exact:
    """The literal is this value."""

    value: Value


@dataclass(frozen=True, slots=True)
class Gap:
    """The literal lies between two values.

    Attributes:
        below, above: the values next to it; None if there is none.
        nearest: the one of the two that it becomes where Spark casts it to the column's type; None where
            Spark never does.
        folds: Spark's analyzer makes constants of comparisons by order, which rows with NULL satisfy too.
    """

    below: Value | None
    above: Value | None
    nearest: Value | None = None
    folds: bool = False


class Stretch(NamedTuple):
    """The values from ``low``, inclusive, to ``high``, exclusive; None leaves a side open."""

    low: int | None
    high: int | None


@final
class Doubt(Enum):
    """Why it is not certain what a literal means."""

    TIME_ZONE = "time zone"
    """It is a wall clock of a session of which the time zone, or the rules of the zone, are not known."""
    MEANING = "meaning"
    """Settings of the session decide what it is compared as."""


@dataclass(frozen=True, slots=True)
class Regions:
    """Which values of a column are less than the literal, equal to it, or greater than it.

    ``less``, ``equal``, ``greater``: stretches of values, ascending. ``doubt``: why a value may stand in
    several regions: it does wherever it could belong. None if every value stands in exactly one.
    """

    less: tuple[Stretch, ...]
    equal: tuple[Stretch, ...]
    greater: tuple[Stretch, ...]
    doubt: Doubt | None = None


@final
class Nowhere(Enum):
    """A literal that has no place in the type's order."""

    NULL = "NULL"
    UNDECIDED = "undecided"


Place: TypeAlias = Exact | Gap | Regions | Nowhere


def either(first: Place, second: Place) -> Place:
    """The place of a literal that may be one or the other: values, integers, stand wherever one has them."""
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
    """The place of a literal among values that are cut to multiples of ``step`` before they are compared."""
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
    """The stretches in ascending order, those that touch or overlap as one."""
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
    """Whether two stretches have a value in common."""
    (low, high), (other_low, other_high) = one, other
    return (high is None or other_low is None or other_low < high) and (
        other_high is None or low is None or low < other_high
    )


def clipped(one: Stretch, other: Stretch) -> Iterator[Stretch]:
    """What two stretches have in common, if there is something."""
    lows = [end for end in (one.low, other.low) if end is not None]
    highs = [end for end in (one.high, other.high) if end is not None]
    if not lows or not highs or max(lows) < min(highs):
        yield Stretch(max(lows, default=None), min(highs, default=None))
