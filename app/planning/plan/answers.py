"""A plan as it is answered: plain frozen values, which several requests may share (pages of one plan)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import WithJsonSchema

from app.planning.plan.file_plan import SkipStep
from app.planning.plan.planned_files import PlannedFiles
from app.planning.version.descriptions import Schema

_COUNTS: Final = {"type": "object", "additionalProperties": {"type": "integer"}}


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a plan, over the files that were asked about."""

    files_total: int
    """Kept, skipped and invisible files; where manifests were skipped, what manifest lists count."""
    files_kept: int
    files_skipped: int
    files_invisible: int
    """Files that batch reads never see, of partitions that the filter allows. They count in files_total, but
    not in files_skipped."""
    skipped_by: Annotated[Mapping[SkipStep, int], WithJsonSchema(_COUNTS)]
    """Skipped files by the step that decided."""
    manifests_total: int
    manifests_skipped: int
    """Manifests that were not read, since the filter rules all of their partitions out. Their files count as
    skipped by partition."""
    rows_total: int
    """Where manifests were skipped, what the snapshot states."""
    rows_selected: int
    bytes_total: int
    """Of partitions that the filter allows; of all files with totals, explain or files."""
    bytes_kept: int
    complete: bool
    """False if budget_ms was used up before every index was asked, or an index could not be read: a later
    plan may keep fewer files."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to a PlanRequest.

    Attributes:
        files: kept files in manifest order, but those that are read together behind the first of them:
            columns, and a sequence of :class:`FilePlan`.
        timings_ms: milliseconds of ``resolve``, ``load`` and ``evaluate``.
        nbytes: about how much memory the plan takes.
        fits_caches: what it asks can be kept for the next one.
        skipped_by_index: of the files that indexes left out, how many each kind did.
        filter_shape: the filter with ``?`` for each literal; see :mod:`app.predicates.shapes`.
    """

    snapshot_id: int | None
    schema_id: int
    files: PlannedFiles
    skipped_files: PlannedFiles
    summary: Summary
    warnings: tuple[str, ...]
    unknown_files: tuple[str, ...]
    timings_ms: Mapping[str, float]
    nbytes: int
    ran_out_of_time: bool
    schemas: tuple[Schema, ...] | None = None
    fits_caches: bool = True
    skipped_by_index: Mapping[str, int] = field(default_factory=dict)
    bytes_skipped_by_index: int = 0
    filter_columns: frozenset[str] = frozenset()
    filter_shape: str = ""
