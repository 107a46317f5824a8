"""Where a literal stands among the values that a column's type can hold.

A literal *is* one of the values, or it lies in a *gap* between two neighbouring ones (beyond the ends, only
one of them exists): ``1.5`` lies between 1 and 2 of an INT, ``1000`` behind every TINYINT. A comparison with
a gap is as decided as one with a value.

What Spark's coercions make of a literal depends on settings that nobody here knows (ANSI or not). Where its
meanings differ, a gap also names the value that the literal may be taken for; where that would not cover
them, the comparison is undecided.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, final

if TYPE_CHECKING:
    from app.types import Value


@dataclass(frozen=True, slots=True)
class Exact:
    """The literal is this value."""

    value: Value


@dataclass(frozen=True, slots=True)
class Gap:
    """The literal lies between two values.

    Attributes:
        below: the largest value below it; None if there is none.
        above: the smallest value above it; None if there is none.
        nearest: the one of the two that it becomes where Spark casts it to the column's type; None where
            Spark never does.
    """

    below: Value | None
    above: Value | None
    nearest: Value | None = None


@final
class Nowhere(Enum):
    """A literal that has no place in the type's order."""

    NULL = "NULL"
    UNDECIDED = "undecided"


Place: TypeAlias = Exact | Gap | Nowhere
