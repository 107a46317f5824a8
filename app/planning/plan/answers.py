"""The answer of a plan: frozen values that several requests may share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import WithJsonSchema

from app.observation import PlanObserved, observer
from app.planning.plan.file_plan import SkipStep
from app.planning.plan.planned_files import PlannedFiles
from app.planning.plan.state import SKIPS, PlanState
from app.planning.request.requests import PlanRequest, SelectionForm
from app.planning.version.descriptions import Schema
from app.planning.version.files import FileColumns
from app.planning.version.version import Version
from app.predicates.model import BoundLeaf, BoundPredicate, leaves, shape_of

_COUNTS: Final = {"type": "object", "additionalProperties": {"type": "integer"}}
_MEMORY_PER_PLAN: Final = 10_000
_MOST_WARNINGS: Final = 100


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a plan, over the requested files."""

    files_total: int
    """Kept, skipped and invisible files; where manifests were skipped, by the counts of manifest lists."""
    files_kept: int
    files_skipped: int
    files_invisible: int
    """Files that batch reads never see, in partitions that the filter allows. They count in files_total, but
    not in files_skipped.
    """
    skipped_by: Annotated[Mapping[SkipStep, int], WithJsonSchema(_COUNTS)]
    """Skipped files by the step that decided."""
    manifests_total: int
    manifests_skipped: int
    """Manifests that were not read, because the filter rules out all of their partitions. Their files count
    as skipped by partition.
    """
    rows_total: int
    """Rows of all files. Where manifests were skipped, the total that the snapshot states."""
    rows_selected: int
    bytes_total: int
    """Bytes in partitions that the filter allows. With totals, explain or files, bytes of all files."""
    bytes_kept: int
    complete: bool
    """False if budget_ms was used up before every index was evaluated, or an index could not be read: a later
    plan may keep fewer files.
    """


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Plan:
    """The answer to a PlanRequest."""

    snapshot_id: int | None
    schema_id: int
    files: PlannedFiles  # In manifest order, but files that are read together follow the first of them.
    skipped_files: PlannedFiles
    summary: Summary
    warnings: tuple[str, ...]
    unknown_files: tuple[str, ...]
    timings_ms: Mapping[str, float]  # Durations of ``resolve``, ``load`` and ``evaluate``.
    nbytes: int
    ran_out_of_time: bool
    schemas: tuple[Schema, ...] | None = None
    fits_caches: bool = True  # The caches can hold the indexes that it needs.
    # Files skipped by file indexes, by kind.
    skipped_by_index: Mapping[str, int] = field(default_factory=dict)
    bytes_skipped_by_index: int = 0
    # Files, rows and bytes skipped by indexes next to data files, if totals are requested. Without the plan,
    # tasks would have to skip them.
    spared: Mapping[str, int] = field(default_factory=dict)
    filter_columns: frozenset[str] = frozenset()
    filter_shape: str = ""  # With ``?`` for each literal; see :mod:`app.predicates.model`.


@dataclass(slots=True)
class PlanWarnings:
    """Warnings about a plan that succeeded, added by its steps."""

    lasting: list[str] = field(default_factory=list)
    """Warnings that every plan of the request has."""
    passing: list[str] = field(default_factory=list)
    """Warnings of trouble that the next plan may not have, such as a storage error."""
    undecided: list[str] = field(default_factory=list)
    """Warnings that count undecided files. Answers that list no files do not have them."""

    @property
    def all(self) -> tuple[str, ...]:
        """Lasting and passing warnings, without duplicates."""
        return tuple(dict.fromkeys((*self.lasting, *self.passing)))


def answer_plan(
    version: Version,
    request: PlanRequest,
    predicate: BoundPredicate,
    state: PlanState,
    warnings: PlanWarnings,
    timings_ms: Mapping[str, float],
) -> Plan:
    """Make the answer to ``request`` from the decisions about files."""
    kept = state.left()
    hidden = _invisible_files(version, state) if request.files is None else None
    invisible = 0 if hidden is None else len(hidden)
    skipped_by = _count_skipped(version, request, state, invisible)
    with_selections = request.selection not in (SelectionForm.NONE, SelectionForm.COUNT)
    planned = PlannedFiles.of(
        version,
        state,
        kept,
        with_selections=with_selections,
        with_deleted=request.deletions is not SelectionForm.NONE,
        uris=request.uris,
    )
    skipped_files = planned.without_files()
    if request.explain:
        skipped_files = _skipped_files(version, request, predicate, state)
    return Plan(
        snapshot_id=version.snapshot_id,
        schema_id=version.schema.id,
        schemas=_schemas(version, planned) if request.schemas else None,
        files=planned,
        skipped_files=skipped_files,
        summary=_summary(
            version, request, state, kept, skipped_by, invisible, is_complete=not warnings.passing
        ),
        skipped_by_index={
            kind: count
            for (step, kind), count in skipped_by.items()
            if step is SkipStep.FILE_INDEX and kind is not None
        },
        warnings=_shortened((*warnings.lasting, *planned.warnings, *warnings.undecided, *warnings.passing)),
        unknown_files=_unknown_files(request, state),
        timings_ms=timings_ms,
        nbytes=_MEMORY_PER_PLAN + planned.nbytes + skipped_files.nbytes,
        ran_out_of_time=state.ran_out_of_time,
        fits_caches=state.fits_caches,
        bytes_skipped_by_index=_bytes_skipped_by_index(state)
        if any(step is SkipStep.FILE_INDEX for step, _ in skipped_by)
        else 0,
        spared=_spared(state) if request.totals else {},
        filter_columns=frozenset(
            leaf.field.name for leaf in leaves(predicate) if isinstance(leaf, BoundLeaf)
        ),
        filter_shape=shape_of(predicate),
    )


def report_plan(plan: Plan, *, is_counted: bool) -> None:
    """Report a plan to the observer. If ``is_counted``, report the files that it spared as well."""
    summary = plan.summary
    skipped: dict[tuple[str, str], int] = {
        (step, ""): count for step, count in summary.skipped_by.items() if step is not SkipStep.FILE_INDEX
    }
    by_index = {(SkipStep.FILE_INDEX, kind): count for kind, count in plan.skipped_by_index.items()}
    # An index of unknown kind rules a file out if it records that there is no value. The rest are such files.
    by_indexes = summary.skipped_by.get(SkipStep.FILE_INDEX, 0)
    of_unknown_kind = by_indexes - sum(by_index.values())
    if of_unknown_kind:
        skipped[SkipStep.FILE_INDEX, "other"] = of_unknown_kind
    observer().planned(
        PlanObserved(
            files=summary.files_total,
            files_kept=summary.files_kept,
            rows=summary.rows_selected,
            skipped=skipped | by_index,
            warnings=len(plan.warnings),
            is_complete=not plan.ran_out_of_time,
            fits_caches=plan.fits_caches,
            files_spared=by_indexes if is_counted else 0,
            bytes_spared=plan.bytes_skipped_by_index if is_counted else 0,
        )
    )


def _schemas(version: Version, planned: PlannedFiles) -> tuple[Schema, ...]:
    branch = version.resolved.branch
    numbers = {version.schema.id, *np.unique(planned.array("schema_id")).tolist()}
    return tuple(
        Schema.of(version.schema if number == version.schema.id else version.table.schema_of(number, branch))
        for number in sorted(numbers)
    )


def _unknown_files(request: PlanRequest, state: PlanState) -> tuple[str, ...]:
    if not request.files or state.considered is None:
        return ()
    named = {name.decode() for name in state.files.names(state.considered).to_pylist()}
    return tuple(name for name in dict.fromkeys(request.files) if name not in named)


def _shortened(warnings: Sequence[str]) -> tuple[str, ...]:
    left_out = len(warnings) - _MOST_WARNINGS
    if left_out <= 0:
        return tuple(warnings)
    return (*warnings[:_MOST_WARNINGS], f"and {left_out} more")


def _skipped_files(
    version: Version, request: PlanRequest, predicate: BoundPredicate, state: PlanState
) -> PlannedFiles:
    decided = state.files.all() if state.considered is None else state.considered
    skipped = decided[~state.is_left(decided)]
    of_files = partial(PlannedFiles.of, version, with_selections=False, with_deleted=False, uris=request.uris)
    # Files that readers do not see count as skipped, too, in partitions that the filter rules out.
    skipped_files, hidden = of_files(state, skipped), version.hidden_files()
    if request.files is not None or hidden is None or state.partitions_skipped is None:
        return skipped_files
    hidden_state = PlanState.start(hidden, None, predicate, explain=True)
    gone = np.flatnonzero(state.partitions_skipped[hidden.columns.partition_codes])
    hidden_state.skip(
        gone, SkipStep.PARTITION, predicate=predicate, evidence="readers do not see the file either"
    )
    return skipped_files.followed_by(of_files(hidden_state, gone, hidden=True), len(state.files))


def _invisible_files(version: Version, state: PlanState) -> FileColumns | None:
    hidden = version.contents().hidden
    if hidden is None or state.partitions_skipped is None:
        return hidden
    # In partitions that the filter rules out, manifests were skipped: not all hidden files are known.
    return hidden.select(~state.partitions_skipped[hidden.partition_codes])


def _count_skipped(
    version: Version, request: PlanRequest, state: PlanState, invisible: int
) -> Mapping[tuple[SkipStep, str | None], int]:
    by_skip = {skip: state.skipped(skip) for skip in SKIPS}
    if request.files is None:
        # The manifests that were read show neither all files of other partitions nor all removals.
        allowed = len(state.skips[state.scope]) - by_skip[SkipStep.PARTITION, None]
        hidden = version.contents().hidden
        read = len(state.files) + (0 if hidden is None else len(hidden))
        listed = read if version.needed is None else version.needed.files
        by_skip[SkipStep.PARTITION, None] = max(0, listed - allowed - invisible)
    return {skip: count for skip, count in by_skip.items() if count}


def _bytes_skipped_by_index(state: PlanState) -> int:
    skipped = state.is_skipped_by(state.scope, SkipStep.FILE_INDEX)
    return int(state.files.columns.file_sizes[state.scope][skipped].sum())


def _spared(state: PlanState) -> Mapping[str, int]:
    """Count what indexes next to data files skip. The engine evaluates embedded indexes when it plans."""
    is_spared = state.is_skipped_by(slice(None), SkipStep.FILE_INDEX)
    files = np.flatnonzero(is_spared)
    for number, part, rows in state.files.by_manifest(files):
        is_spared[files[part]] = state.files.manifests[number].embedded_indexes.lengths[rows] < 0
    columns = state.files.columns
    rows_spared, bytes_spared = columns.row_counts[is_spared].sum(), columns.file_sizes[is_spared].sum()
    return {"files": int(is_spared.sum()), "rows": int(rows_spared), "bytes": int(bytes_spared)}


def _rows_total(version: Version, state: PlanState, request: PlanRequest) -> int:
    if version.needed is not None:
        # The snapshot's total, which includes manifests that were not read.
        return version.needed.rows
    rows = int(state.files.columns.row_counts[state.scope].sum())
    hidden = version.contents().hidden
    return rows if hidden is None or request.files is not None else rows + int(hidden.row_counts.sum())


def _bytes_total(version: Version, state: PlanState, request: PlanRequest) -> int:
    hidden = version.contents().hidden
    parts = [(state.files.columns, state.scope)]
    if hidden is not None and request.files is None:
        parts.append((hidden, slice(None)))
    total = 0
    for columns, files in parts:
        sizes = columns.file_sizes[files]
        if state.partitions_skipped is not None and not request.reads_everything:
            sizes = sizes[~state.partitions_skipped[columns.partition_codes[files]]]
        total += int(sizes.sum())
    return total


def _summary(
    version: Version,
    request: PlanRequest,
    state: PlanState,
    kept: NDArray[np.int64],
    skipped: Mapping[tuple[SkipStep, str | None], int],
    invisible: int,
    *,
    is_complete: bool,
) -> Summary:
    files_skipped = sum(skipped.values())
    read, needed = len(version.manifest_files()), version.needed
    manifests = read if needed is None else len(needed.are_needed)
    skipped_by: dict[SkipStep, int] = {}
    for (step, _), files in skipped.items():
        skipped_by[step] = skipped_by.get(step, 0) + files
    return Summary(
        files_total=len(kept) + files_skipped + invisible,
        files_kept=len(kept),
        files_skipped=files_skipped,
        files_invisible=invisible,
        skipped_by=skipped_by,
        manifests_total=manifests,
        manifests_skipped=manifests - read,
        rows_total=_rows_total(version, state, request),
        rows_selected=int(state.rows_left[kept].sum()),
        bytes_total=_bytes_total(version, state, request),
        bytes_kept=int(state.files.columns.file_sizes[kept].sum()),
        complete=is_complete,
    )
