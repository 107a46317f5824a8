"""Answers about index files without a table: plain frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from app.planning.plan.file_plan import ExplainStep
from app.types.roaring import Positions


@dataclass(frozen=True, slots=True)
class EvaluatedFile:
    """What the indexes of one file say.

    Attributes:
        skip: no row can match.
        selection: rows outside of which nothing matches; None when nothing is known at row level.
        error: the file's indexes could not be used; the file is kept.
    """

    name: str
    skip: bool
    selection: Positions | None
    explain: tuple[ExplainStep, ...] | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class EvaluateAnswer:
    """The answer to an EvaluateRequest, in request order."""

    files: tuple[EvaluatedFile, ...]
    warnings: tuple[str, ...] = ()
