"""A data file while a plan is being made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.file_index.result import KEEP, Rows
from app.planning.answers import ExplainStep, KeepReason, SkipStep

if TYPE_CHECKING:
    from app.file_index.result import Result
    from app.planning.answers import Positions
    from app.predicates.model import BoundPredicate
    from app.table.manifest_entry import ManifestEntry


@dataclass(slots=True)
class Draft:
    """What is known of one file so far.

    Attributes:
        entry: the file.
        predicate: the filter inside of the file's partition.
        steps: what was tried, where the request wants it explained.
        skipped: the step that left the file out.
        reason: why it is kept, if it is.
        proven: every row of the file satisfies the filter.
        answer: rows outside of which nothing matches, by its indexes.
        raw_convertible: rows can be read straight from the file.
        merge_group: number of the files it is merged with.
        live_rows: rows that are left of filter and deletion vector; all rows of a file that merges.
        positions: those rows, if they are not all rows and somebody needs them.
    """

    entry: ManifestEntry
    predicate: BoundPredicate
    steps: list[ExplainStep] | None
    skipped: SkipStep | None = None
    reason: KeepReason = KeepReason.NO_FILTER
    proven: bool = False
    answer: Result = KEEP
    raw_convertible: bool = True
    merge_group: int | None = None
    live_rows: int = 0
    positions: Positions | None = None

    @property
    def exact(self) -> bool:
        """Whether the rows that are left are just the rows of the answer."""
        if not self.raw_convertible:
            return False
        return self.proven or (isinstance(self.answer, Rows) and self.answer.exact)

    def tried(
        self, step: SkipStep, outcome: str, *, predicate: str | None = None, rows: int | None = None
    ) -> None:
        """Notes a step that looked at the file as a whole."""
        if self.steps is not None:
            self.steps.append(ExplainStep(step, outcome, predicate=predicate, rows=rows))

    def skip(self, step: SkipStep, *, predicate: str | None = None) -> None:
        """Leaves the file out."""
        self.skipped = step
        self.tried(step, "skip", predicate=predicate)
