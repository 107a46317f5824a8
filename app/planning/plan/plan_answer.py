"""Turns the decided files of a plan into its answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.observation import observer
from app.planning.plan.answers import Plan, PlanSummary
from app.planning.plan.file_plan import SkipStep
from app.planning.plan.planned_files import PlannedFiles
from app.planning.plan.state import SKIPS
from app.planning.request.requests import SelectionForm
from app.planning.version.schemas import describe_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.planning.plan.state import PlanState
    from app.planning.request.requests import PlanRequest
    from app.planning.version.version import Version
    from app.types import Json

_MEMORY_PER_PLAN: Final = 10_000
_MOST_WARNINGS: Final = 100


class PlanWarnings(NamedTuple):
    """What did not stop a plan but should be known.

    Attributes:
        lasting: what holds for every plan of this request.
        passing: what may be about a moment's trouble with storage, which the next plan should not inherit.
    """

    lasting: Sequence[str]
    passing: Sequence[str]


def answer_plan(
    version: Version,
    request: PlanRequest,
    state: PlanState,
    warnings: PlanWarnings,
    timings_ms: Mapping[str, float],
) -> Plan:
    """The answer to ``request``.

    Args:
        version: what was planned.
        request: what was asked.
        state: every file that was asked about, decided.
        warnings: what should be known besides.
        timings_ms: how long the steps took.
    """
    kept = state.left()
    left_out_by = _skipped(version, state)
    skipped = state.considered[~state.is_left(state.considered)] if request.explain else kept[:0]
    with_selections = request.selection not in (SelectionForm.NONE, SelectionForm.COUNT)
    planned = PlannedFiles.of(
        version,
        state,
        kept,
        with_selections=with_selections,
        with_deleted=request.deletions is not SelectionForm.NONE,
        uris=request.uris,
    )
    left_out = PlannedFiles.of(
        version, state, skipped, with_selections=False, with_deleted=False, uris=request.uris
    )
    return Plan(
        snapshot_id=version.snapshot_id,
        schema_id=version.schema.id,
        schemas=_schemas(version, planned) if request.schemas else None,
        files=planned,
        skipped_files=left_out,
        summary=_summary(version, state, kept, left_out_by, is_complete=not warnings.passing),
        skipped_by_index={
            kind: count
            for (step, kind), count in left_out_by.items()
            if step is SkipStep.FILE_INDEX and kind is not None
        },
        warnings=_shortened((*warnings.lasting, *warnings.passing)),
        unknown_files=_unknown_files(request, state),
        timings_ms=timings_ms,
        nbytes=_MEMORY_PER_PLAN + planned.nbytes + left_out.nbytes,
        ran_out_of_time=state.ran_out_of_time,
        fits_caches=state.fits_caches,
    )


def plan_bytes(plan: Plan) -> int:
    """About how much memory a plan takes; one that is not complete is too heavy for any cache."""
    return plan.nbytes if plan.summary.complete else sys.maxsize


def report_plan(plan: Plan) -> None:
    """Tells the observer what a plan comes to."""
    summary = plan.summary
    skipped: dict[tuple[str, str], int] = {
        (step, ""): count for step, count in summary.skipped_by.items() if step is not SkipStep.FILE_INDEX
    }
    by_index = {(SkipStep.FILE_INDEX, kind): count for kind, count in plan.skipped_by_index.items()}
    # Entries without any value rule files out whatever kind they are said to be of.
    rest = summary.skipped_by.get(SkipStep.FILE_INDEX, 0) - sum(by_index.values())
    if rest:
        skipped[SkipStep.FILE_INDEX, "other"] = rest
    observer().planned(
        files=summary.files_total,
        kept=summary.files_kept,
        rows=summary.rows_selected,
        skipped=skipped | by_index,
        warnings=len(plan.warnings),
        is_complete=not plan.ran_out_of_time,
        fits_caches=plan.fits_caches,
    )


def _schemas(version: Version, planned: PlannedFiles) -> tuple[Mapping[str, Json], ...]:
    """The schemas of the version and of its planned files, by ascending number."""
    branch = version.resolved.branch
    numbers = {version.schema.id, *np.unique(planned.integers["schema_id"]).tolist()}
    return tuple(
        describe_schema(
            version.schema if number == version.schema.id else version.table.schema_of(number, branch)
        )
        for number in sorted(numbers)
    )


def _unknown_files(request: PlanRequest, state: PlanState) -> tuple[str, ...]:
    if not request.files:
        return ()
    named = {name.decode() for name in state.files.names(state.considered).to_pylist()}
    return tuple(name for name in dict.fromkeys(request.files) if name not in named)


def _shortened(warnings: Sequence[str]) -> tuple[str, ...]:
    """The first warnings; a table without readable indexes has one for every file."""
    left_out = len(warnings) - _MOST_WARNINGS
    if left_out <= 0:
        return tuple(warnings)
    return (*warnings[:_MOST_WARNINGS], f"and {left_out} more")


def _considered(state: PlanState) -> slice | NDArray[np.int64]:
    """The files that were asked about; mostly these are all, and no column needs to be copied."""
    return slice(None) if len(state.considered) == len(state.files.columns) else state.considered


def _skipped(version: Version, state: PlanState) -> Mapping[tuple[SkipStep, str | None], int]:
    """How many files were left out by each step and kind of index."""
    codes = state.skips[_considered(state)]
    # Each code is looked for by itself: there are few, and counting all at once takes wider numbers.
    counts = [int(np.count_nonzero(codes == np.int8(code))) for code in range(len(SKIPS) + 1)]
    by_skip = dict(zip(SKIPS, counts[1:], strict=True))
    if version.needed is not None:
        # Of other partitions lists count files that were not read, and removals of files that were. Files of
        # partitions that the filter allows are all known, whatever lists count.
        listed = version.needed.files - len(version.hidden_files() or ())
        others = sum(counts) - by_skip[SkipStep.PARTITION, None]
        by_skip[SkipStep.PARTITION, None] = max(0, listed - others)
    return {skip: count for skip, count in by_skip.items() if count}


def _rows_total(version: Version, state: PlanState) -> int:
    """How many rows there are to decide about, those of manifests that were not read included."""
    if version.needed is None:
        return int(state.files.columns.row_counts[_considered(state)].sum())
    hidden = version.hidden_files()
    return version.needed.rows - (0 if hidden is None else int(hidden.columns.row_counts.sum()))


def _summary(
    version: Version,
    state: PlanState,
    kept: NDArray[np.int64],
    skipped: Mapping[tuple[SkipStep, str | None], int],
    *,
    is_complete: bool,
) -> PlanSummary:
    columns, considered = state.files.columns, _considered(state)
    count = len(kept) + sum(skipped.values())
    read, needed = len(version.manifest_files()), version.needed
    manifests = read if needed is None else len(needed.are_needed)
    skipped_by: dict[SkipStep, int] = {}
    for (step, _), files in skipped.items():
        skipped_by[step] = skipped_by.get(step, 0) + files
    return PlanSummary(
        files_total=count,
        files_kept=len(kept),
        files_skipped=count - len(kept),
        files_invisible=len(version.hidden_files() or ()),
        skipped_by=skipped_by,
        manifests_total=manifests,
        manifests_skipped=manifests - read,
        rows_total=_rows_total(version, state),
        rows_selected=int(state.rows_left[kept].sum()),
        bytes_total=int(columns.file_sizes[considered].sum()),
        bytes_kept=int(columns.file_sizes[kept].sum()),
        complete=is_complete,
    )
