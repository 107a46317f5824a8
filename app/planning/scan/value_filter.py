"""Asks statistics whether any row of a file can match: the filter over the bounds of many files at once.

Whether a file may be judged alone is the planner's matter. Files that statistics leave undecided are handed
on to their indexes (:mod:`app.planning.scan.index_filter`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial
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

_FILES_AT_ONCE: Final = 1 << 16
"""The bounds of so many files fit into the caches of a processor."""
_OUTCOMES: Final = np.array(["skip", "unknown", "keep"], object)
"""By verdict."""


@dataclass(frozen=True, slots=True)
class ValueFilter:
    """The statistics of one version's files.

    ``bounded``: columns of which a file that was asked has bounds (False), or counts of NULLs (True).
    """

    bounds: FileBounds
    bounded: set[tuple[str, bool]] = dataclass_field(default_factory=set)

    def test_keys(
        self, state: PlanState, files: NDArray[np.int64], key_part: Callable[[BoundPredicate], BoundPredicate]
    ) -> None:
        """Skips files whose range of keys lies outside of what the filter allows.

        ``files``: ascending. ``key_part``: the filter with everything but key columns unknown.
        """
        for predicate, members in state.by_predicate(files):
            part = key_part(predicate)
            if part == ALWAYS_TRUE:
                continue
            for some, verdicts in self._ask(state, part, self.bounds.keys, members, SkipStep.KEY_STATISTICS):
                self._note_distrusted(state, part, some[verdicts != Verdict.NONE], FileBounds.keys)
                state.skip(some[verdicts == Verdict.NONE], SkipStep.KEY_STATISTICS, predicate=part)

    def test_values(
        self, state: PlanState, files: NDArray[np.int64], bounds: Bounds | None = None
    ) -> NDArray[np.int64]:
        """Skips files without a matching row, and notes those of which every row matches.

        Args:
            files: ascending.
            bounds: tells bounds of values in these files, unless each file tells its own.

        Returns:
            The files that remain undecided, ascending.
        """
        undecided: list[NDArray[np.int64]] = []
        for predicate, members in state.by_predicate(files):
            if predicate == ALWAYS_TRUE:
                state.proven[members] = True
                continue
            asked = bounds or self.bounds.values
            for some, verdicts in self._ask(state, predicate, asked, members, SkipStep.STATISTICS):
                if bounds is None:
                    self._note_distrusted(state, predicate, some[verdicts != Verdict.NONE], FileBounds.values)
                state.skip(some[verdicts == Verdict.NONE], SkipStep.STATISTICS, predicate=predicate)
                proven = some[verdicts == Verdict.ALL]
                state.proven[proven] = True
                state.keep(proven, KeepReason.MATCHED)
                undecided.append(some[verdicts == Verdict.SOME])
        return np.sort(np.concatenate([np.zeros(0, np.int64), *undecided]), kind="stable")

    def _note_distrusted(
        self,
        state: PlanState,
        predicate: BoundPredicate,
        files: NDArray[np.int64],
        read: Callable[[FileBounds, DataField, NDArray[np.int64]], ColumnBounds | None],
    ) -> None:
        """Notes the files that bounds would leave out if only the engine had written them."""
        if self.bounds.is_of_engine or not _reads_distrusted(predicate):
            return
        verdicts = evaluate_bounds(
            predicate, partial(read, FileBounds(self.bounds.version, as_engine=True)), files
        )
        state.distrusted[files[verdicts == Verdict.NONE]] = True

    def _ask(
        self,
        state: PlanState,
        predicate: BoundPredicate,
        bounds: Bounds,
        files: NDArray[np.int64],
        step: SkipStep,
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int8]]]:
        """Some files after the other, and the verdict of each: columns of all would be large new arrays."""

        def note(
            leaf: BoundLeaf,
            decided: NDArray[np.int64],
            verdicts: NDArray[np.int8],
            known: ColumnBounds | None,
        ) -> None:
            # Statistics of keys have mostly said the same.
            unless = Unless.KNOWN if leaf.field.id in keys else Unless.NEVER
            state.note_each(decided, _BoundSteps(step, leaf, verdicts, known), unless)

        def found(field: DataField, some: NDArray[np.int64]) -> ColumnBounds | None:
            known = bounds(field, some)
            if known is not None and (field.name, False) not in self.bounded:
                ends, counts = known.has_low.any() or known.has_high.any(), known.null_count != UNKNOWN_COUNT
                self.bounded.update(
                    [(field.name, False)] * bool(ends) + [(field.name, True)] * bool(counts.any())
                )
            return known

        keys = {field.id for field in self.bounds.version.schema.trimmed_primary_keys}
        trace = None if state.explanation is None else note
        for some in state.files.cut(files, _FILES_AT_ONCE):
            check_deadline()
            yield some, evaluate_bounds(predicate, found, some, trace)


@dataclass(frozen=True, slots=True)
class _BoundSteps:
    """What the bounds of a column say of a test, in words that are made for those who read them."""

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


def _reads_distrusted(predicate: BoundPredicate) -> bool:
    return any(
        isinstance(leaf, BoundLeaf)
        and (leaf.field.type.root in FLOATING_ROOTS or may_be_in_other_zones(leaf.field.type))
        for leaf in leaves(predicate)
    )
