"""What evaluation tried, for answers that explain themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from app.file_index.answers.result import SKIP, Result, Rows

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
