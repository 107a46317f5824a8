"""Evaluates the filter over the bounds in statistics, for many files at once.

The planner decides whether a file may be judged alone. Files that statistics leave undecided go on to their
indexes (:mod:`app.planning.scan.index_filter`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.planning.plan.explanation import Unless
from app.planning.plan.file_plan import ExplainStep, KeepReason, SkipStep
from app.planning.plan.state import PlanState
from app.planning.version.file_bounds import FileBounds
from app.predicates import UNKNOWN_COUNT, ColumnBounds, Verdict, bound_texts, evaluate_bounds
from app.predicates.model import ALWAYS_TRUE, BoundLeaf, BoundPredicate, leaves
from app.table.statistics import may_be_in_other_zones
from app.types import FLOATING_ROOTS, DataField
from app.work import check_deadline

Bounds = Callable[[DataField, NDArray[np.int64]], ColumnBounds | None]

# Bounds of this many files fit into a processor's caches.
_FILES_AT_ONCE: Final = 1 << 16
# Outcome of each verdict, by its number.
_OUTCOMES: Final = np.array(["skip", "unknown", "keep"], object)


@dataclass(frozen=True, slots=True)
class ValueFilter:
    """The statistics of one version's files."""

    bounds: FileBounds
    # Columns of which a file has bounds (False), or counts of NULLs (True).
    bounded: set[tuple[str, bool]] = dataclass_field(default_factory=set)

    def test_keys(
        self, state: PlanState, files: NDArray[np.int64], key_part: Callable[[BoundPredicate], BoundPredicate]
    ) -> None:
        """Skip files by their range of keys. ``key_part`` weakens a filter to the key columns."""
        for predicate, members in state.by_predicate(files):
            part = key_part(predicate)
            if part == ALWAYS_TRUE:
                continue
            for batch, verdicts in self._evaluate(
                state, part, self.bounds.keys, members, SkipStep.KEY_STATISTICS
            ):
                self._note_distrusted(state, part, batch[verdicts != Verdict.NONE], SkipStep.KEY_STATISTICS)
                state.skip(batch[verdicts == Verdict.NONE], SkipStep.KEY_STATISTICS, predicate=part)

    def test_values(
        self, state: PlanState, files: NDArray[np.int64], bounds: Bounds | None = None
    ) -> NDArray[np.int64]:
        """Skip files without a matching row, and mark as proven the files in which every row matches.

        ``files``: ascending. ``bounds``: replaces each file's own bounds. Return the undecided files,
        ascending.
        """
        undecided: list[NDArray[np.int64]] = []
        for predicate, members in state.by_predicate(files):
            if predicate == ALWAYS_TRUE:
                state.proven[members] = True
                continue
            column_bounds = bounds or self.bounds.values
            for batch, verdicts in self._evaluate(
                state, predicate, column_bounds, members, SkipStep.STATISTICS
            ):
                if bounds is None:
                    self._note_distrusted(
                        state, predicate, batch[verdicts != Verdict.NONE], SkipStep.STATISTICS
                    )
                state.skip(batch[verdicts == Verdict.NONE], SkipStep.STATISTICS, predicate=predicate)
                proven = batch[verdicts == Verdict.ALL]
                state.proven[proven] = True
                state.keep(proven, KeepReason.MATCHED)
                undecided.append(batch[verdicts == Verdict.SOME])
        return np.sort(np.concatenate([np.zeros(0, np.int64), *undecided]), kind="stable")

    def _note_distrusted(
        self, state: PlanState, predicate: BoundPredicate, files: NDArray[np.int64], step: SkipStep
    ) -> None:
        """Mark files that the bounds would skip if the engine alone had written them."""
        reasons = _reasons_for_distrust(predicate)
        if self.bounds.is_of_engine or not reasons:
            return
        as_engine = FileBounds(self.bounds.version, as_engine=True)
        bounds_of = as_engine.keys if step is SkipStep.KEY_STATISTICS else as_engine.values
        distrusted = files[evaluate_bounds(predicate, bounds_of, files) == Verdict.NONE]
        state.distrusted[distrusted] = True
        state.note(
            distrusted, ExplainStep(step, "unknown", evidence=f"kept in spite of its bounds: {reasons}")
        )

    def _evaluate(
        self,
        state: PlanState,
        predicate: BoundPredicate,
        bounds: Bounds,
        files: NDArray[np.int64],
        step: SkipStep,
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int8]]]:
        def note(
            leaf: BoundLeaf,
            decided: NDArray[np.int64],
            verdicts: NDArray[np.int8],
            column_bounds: ColumnBounds | None,
        ) -> None:
            # Statistics of keys usually gave the same evidence before.
            unless = Unless.KNOWN if leaf.field.id in keys else Unless.NEVER
            state.note_each(decided, _BoundSteps(step, leaf, verdicts, column_bounds), unless)

        def bounds_of(field: DataField, batch: NDArray[np.int64]) -> ColumnBounds | None:
            column_bounds = bounds(field, batch)
            if column_bounds is not None and (field.name, False) not in self.bounded:
                ends, counts = (
                    column_bounds.has_low.any() or column_bounds.has_high.any(),
                    column_bounds.null_count != UNKNOWN_COUNT,
                )
                self.bounded.update(
                    [(field.name, False)] * bool(ends) + [(field.name, True)] * bool(counts.any())
                )
            return column_bounds

        keys = {field.id for field in self.bounds.version.schema.trimmed_primary_keys}
        trace = None if state.explanation is None else note
        # In batches, since the bounds of all files would be large new arrays.
        for batch in state.files.cut(files, _FILES_AT_ONCE):
            check_deadline()
            yield batch, evaluate_bounds(predicate, bounds_of, batch, trace)


@dataclass(frozen=True, slots=True)
class _BoundSteps:
    """Steps with the evidence of a column's bounds, formatted on access."""

    step: SkipStep
    leaf: BoundLeaf
    verdicts: NDArray[np.int8]
    bounds: ColumnBounds | None

    @property
    def nbytes(self) -> int:
        return self.verdicts.nbytes + (0 if self.bounds is None else self.bounds.nbytes)

    def at(self, places: NDArray[np.int64]) -> Iterator[ExplainStep]:
        name, verdicts = self.leaf.field.name, self.verdicts[places]
        texts: Iterable[str] = repeat(f"{name} has no bounds")
        if self.bounds is not None:
            texts = bound_texts(self.leaf, self.bounds.take(places), verdicts)
        alike = repeat(name), repeat("min_max"), repeat(str(self.leaf)), repeat(None)
        return map(ExplainStep, repeat(self.step), _OUTCOMES[verdicts].tolist(), *alike, texts)


def _reasons_for_distrust(predicate: BoundPredicate) -> str:
    types = [leaf.field.type for leaf in leaves(predicate) if isinstance(leaf, BoundLeaf)]
    reasons = []
    if any(each.root in FLOATING_ROOTS for each in types):
        reasons.append("its writer may have ignored NaN in them")
    if any(map(may_be_in_other_zones, types)):
        reasons.append("its writer may have stored them in its own time zone")
    return ", or ".join(reasons)
