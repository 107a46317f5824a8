"""Turns the decided files of a plan into its answer."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from app.planning.answers import Deletion, FilePlan, Plan, PlanSummary
from app.planning.requests import SelectionForm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.planning.draft import Draft
    from app.planning.requests import PlanRequest
    from app.planning.version import Version

_MEMORY_PER_FILE: Final = 1500
"""About what a FilePlan takes without its positions."""

_MOST_WARNINGS: Final = 100


def answer_plan(
    version: Version,
    request: PlanRequest,
    drafts: Sequence[Draft],
    warnings: Sequence[str],
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
    kept = [draft for draft in drafts if draft.skipped is None]
    skipped = [draft for draft in drafts if draft.skipped is not None] if request.explain else []
    named = {draft.entry.file.file_name for draft in drafts}
    return Plan(
        snapshot_id=version.snapshot_id,
        schema_id=version.schema.id,
        files=tuple(_file(version, request, draft) for draft in kept),
        skipped_files=tuple(_file(version, request, draft) for draft in skipped),
        summary=_summary(version, drafts, kept),
        warnings=_shortened(warnings),
        unknown_files=tuple(name for name in dict.fromkeys(request.files or ()) if name not in named),
        timings_ms=timings_ms,
    )


def plan_bytes(plan: Plan) -> int:
    """About how much memory a plan takes; one with warnings is too heavy to be remembered.

    A warning may be about a moment's trouble with storage, which the next plan should not inherit.
    """
    if plan.warnings:
        return sys.maxsize
    files = (*plan.files, *plan.skipped_files)
    # A roaring bitmap never takes more than about two bytes a position, and usually far less.
    positions = sum(
        min(2 * len(file.selection), file.row_count) for file in files if file.selection is not None
    )
    return _MEMORY_PER_FILE * (len(files) + 1) + positions


def _file(version: Version, request: PlanRequest, draft: Draft) -> FilePlan:
    entry, file = draft.entry, draft.entry.file
    wanted = request.selection not in (SelectionForm.NONE, SelectionForm.COUNT)
    return FilePlan(
        path=version.loader.paths.data_file(entry),
        file_name=file.file_name,
        format=file.file_name.rpartition(".")[2],
        file_size=file.file_size,
        row_count=file.row_count,
        schema_id=file.schema_id,
        level=file.level,
        partition=version.partition_json(entry.partition),
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        min_sequence_number=file.min_sequence_number,
        max_sequence_number=file.max_sequence_number,
        raw_convertible=draft.raw_convertible,
        merge_group=draft.merge_group,
        selected_rows=draft.live_rows,
        selection=draft.positions if wanted and draft.raw_convertible else None,
        residual=not draft.exact,
        deletion=_deletion(version, draft),
        reason=draft.reason if draft.skipped is None else draft.skipped,
        explain=None if draft.steps is None else tuple(draft.steps),
    )


def _deletion(version: Version, draft: Draft) -> Deletion | None:
    place = version.vector(draft.entry)
    if place is None:
        return None
    entry, found = place
    return Deletion(version.loader.paths.index_file(entry), found.offset, found.length, found.cardinality)


def _shortened(warnings: Sequence[str]) -> tuple[str, ...]:
    """The first warnings; a table without readable indexes has one for every file."""
    left_out = len(warnings) - _MOST_WARNINGS
    if left_out <= 0:
        return tuple(warnings)
    return (*warnings[:_MOST_WARNINGS], f"and {left_out} more")


def _summary(version: Version, drafts: Sequence[Draft], kept: Sequence[Draft]) -> PlanSummary:
    return PlanSummary(
        files_total=len(drafts),
        files_kept=len(kept),
        files_skipped=len(drafts) - len(kept),
        files_invisible=version.contents.invisible,
        skipped_by=Counter(draft.skipped for draft in drafts if draft.skipped is not None),
        rows_total=sum(draft.entry.file.row_count for draft in drafts),
        rows_selected=sum(draft.live_rows for draft in kept),
        bytes_total=sum(draft.entry.file.file_size for draft in drafts),
        bytes_kept=sum(draft.entry.file.file_size for draft in kept),
    )
