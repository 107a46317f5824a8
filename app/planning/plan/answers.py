"""A plan as it is answered: plain frozen values, which several requests may share (pages of one plan)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.planning.plan.file_plan import SkipStep
from app.planning.plan.planned_files import PlannedFiles
from app.types import Json


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """Totals of a plan over the files that were asked about.

    Attributes:
        files_total: kept, skipped and invisible files.
        files_invisible: files that batch reads never see (level 0 of tables with deletion vectors or
            first-row, postponed buckets), of partitions that the filter allows.
        manifests_total: manifests of the version.
        manifests_skipped: those that were not read, since the filter rules all of their partitions out. Their
            files are skipped by ``partition``. If there are any, ``files_total`` is what manifest lists
            count, and ``rows_total`` what the snapshot states.
        bytes_total: of partitions that the filter allows, or of all files if the request reads everything.
        complete: every index was asked that can leave files out; otherwise the plan's budget of time was used
            up or an index could not be read, and a later plan may leave out more.
    """

    files_total: int
    files_kept: int
    files_skipped: int
    files_invisible: int
    skipped_by: Mapping[SkipStep, int]
    manifests_total: int
    manifests_skipped: int
    rows_total: int
    rows_selected: int
    bytes_total: int
    bytes_kept: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to a PlanRequest.

    Attributes:
        snapshot_id: None for a table without snapshots.
        files: kept files in manifest order, but those that are read together behind the first of them:
            columns, and a sequence of :class:`FilePlan`.
        skipped_files: with ``explain`` only, else empty.
        timings_ms: milliseconds of ``resolve``, ``load`` and ``evaluate``.
        nbytes: about how much memory the plan takes.
        ran_out_of_time: indexes were not asked since the plan's budget of time was used up.
        schemas: those of the version and of the kept files, as JSON; None where nobody asked.
        fits_caches: what it asks can be kept for the next one.
        skipped_by_index: of the files that indexes left out, how many each kind did.
    """

    snapshot_id: int | None
    schema_id: int
    files: PlannedFiles
    skipped_files: PlannedFiles
    summary: PlanSummary
    warnings: tuple[str, ...]
    unknown_files: tuple[str, ...]
    timings_ms: Mapping[str, float]
    nbytes: int
    ran_out_of_time: bool
    schemas: tuple[Mapping[str, Json], ...] | None = None
    fits_caches: bool = True
    skipped_by_index: Mapping[str, int] = field(default_factory=dict)
