"""Turns the decided files of a plan into its answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.planning.answers import Plan, PlanSummary
from app.planning.drafts import SKIP_STEPS
from app.planning.planned_files import PlannedFiles
from app.planning.requests import SelectionForm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.planning.drafts import Drafts
    from app.planning.requests import PlanRequest
    from app.planning.version import Version

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
    drafts: Drafts,
    warnings: PlanWarnings,
    timings_ms: Mapping[str, float],
) -> Plan:
    """The answer to ``request``.

    Args:
        version: what was planned.
        request: what was asked.
        drafts: every file that was asked about, decided.
        warnings: what should be known besides.
        timings_ms: how long the steps took.
    """
    kept = drafts.left()
    skipped = drafts.asked[~drafts.is_left(drafts.asked)] if request.explain else kept[:0]
    with_selections = request.selection not in (SelectionForm.NONE, SelectionForm.COUNT)
    uris = request.uris
    planned = PlannedFiles.of(version, drafts, kept, with_selections=with_selections, uris=uris)
    left_out = PlannedFiles.of(version, drafts, skipped, with_selections=False, uris=uris)
    return Plan(
        snapshot_id=version.snapshot_id,
        schema_id=version.schema.id,
        files=planned,
        skipped_files=left_out,
        summary=_summary(version, drafts, kept),
        warnings=_shortened((*warnings.lasting, *warnings.passing)),
        unknown_files=_unknown_files(request, drafts),
        timings_ms=timings_ms,
        nbytes=_MEMORY_PER_PLAN + planned.nbytes + left_out.nbytes,
        may_be_remembered=not warnings.passing,
    )


def plan_bytes(plan: Plan) -> int:
    """About how much memory a plan takes; one that may not be remembered is too heavy for any cache."""
    return plan.nbytes if plan.may_be_remembered else sys.maxsize


def _unknown_files(request: PlanRequest, drafts: Drafts) -> tuple[str, ...]:
    if not request.files:
        return ()
    named = {name.decode() for name in drafts.files.names(drafts.asked).to_pylist()}
    return tuple(name for name in dict.fromkeys(request.files) if name not in named)


def _shortened(warnings: Sequence[str]) -> tuple[str, ...]:
    """The first warnings; a table without readable indexes has one for every file."""
    left_out = len(warnings) - _MOST_WARNINGS
    if left_out <= 0:
        return tuple(warnings)
    return (*warnings[:_MOST_WARNINGS], f"and {left_out} more")


def _summary(version: Version, drafts: Drafts, kept: NDArray[np.int64]) -> PlanSummary:
    columns, count = drafts.files.columns, len(drafts.asked)
    # Mostly these are all files, of which no column needs to be copied.
    asked = slice(None) if count == len(columns) else drafts.asked
    steps = np.bincount(drafts.skips[asked], minlength=len(SKIP_STEPS) + 1)[1:].tolist()
    return PlanSummary(
        files_total=count,
        files_kept=len(kept),
        files_skipped=count - len(kept),
        files_invisible=len(version.hidden_files or ()),
        skipped_by={step: count for step, count in zip(SKIP_STEPS, steps, strict=True) if count},
        rows_total=int(columns.row_counts[asked].sum()),
        rows_selected=int(drafts.live_rows[kept].sum()),
        bytes_total=int(columns.file_sizes[asked].sum()),
        bytes_kept=int(columns.file_sizes[kept].sum()),
    )
