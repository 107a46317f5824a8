"""``plan``: one filter over the files of very many manifests, by tasks with the service's own planner.

A task plans one manifest. Its live files follow from this manifest and from all manifests that remove files,
which every worker reads once. Everything else that a plan needs about a file of an append table is in its
own entry. Files of other tables are merged with each other, so those tables are refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from app.building import Advance, ignore_progress
from app.errors import UnsupportedFormatError
from app.jobs.job_table import JobTable, Place
from app.jobs.tasks import run_tasks
from app.planning import Loaded, Version, decide, needed_manifests
from app.planning.plan import Coded, Plan, PlannedFiles, SkipStep, to_arrow
from app.planning.request import PlanRequest, SelectionForm, SnapshotSelector, read_filter
from app.planning.request.limits import CacheBytes, Limits
from app.planning.version import FileColumns, Files, NeededManifests, VersionContents
from app.table import SchemaIds
from app.table.manifests import ManifestFile, live_rows
from app.types import Json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class PlanTask:
    """A manifest to plan, with all manifests that remove files."""

    place: Place
    table: str
    snapshot_id: int
    schemas: SchemaIds
    manifest: ManifestFile
    removing: tuple[ManifestFile, ...]
    filter: str | Mapping[str, Json] | None


@dataclass(frozen=True, slots=True)
class PlannedManifest:
    """Result for one manifest."""

    files: pa.RecordBatch
    files_total: int
    rows_total: int
    rows_selected: int
    skipped_by: Mapping[str, int]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A plan.

    Attributes:
        snapshot_id: id of the version. None for a table that was never written to.
        manifests: number of planned manifests, without manifests whose partitions the filter excludes.
        rows_selected: rows of the kept files, without deleted ones.
        files: the kept files in the order of manifests: ``path``, ``partition`` (JSON), ``bucket``,
            ``schema_id``, ``file_size``, ``row_count``, ``selected_rows``, ``residual`` (the filter has to be
            applied again), ``decision_reason``.
    """

    snapshot_id: int | None
    manifests: int
    files_total: int
    rows_total: int
    rows_selected: int
    skipped_by: Mapping[str, int]
    warnings: tuple[str, ...]
    files: pa.Table


_COLUMNS = pa.schema(
    [
        ("path", pa.string()),
        ("partition", pa.string()),
        ("bucket", pa.int32()),
        ("schema_id", pa.int64()),
        ("file_size", pa.int64()),
        ("row_count", pa.int64()),
        ("selected_rows", pa.int64()),
        ("residual", pa.bool_()),
        ("decision_reason", pa.string()),
    ]
)


def plan(
    spark: SparkSession,
    table: JobTable,
    filter: str | Mapping[str, Json] | None = None,  # noqa: A002 - as everywhere in this project
    *,
    advance: Advance = ignore_progress,
) -> PlanReport:
    """Plan a filter over the latest version of an append table."""
    version = table.latest()
    _check_standing_alone(table, version)
    # A faulty filter fails here, in the driver.
    predicate = read_filter(filter, version.schema.fields, Limits(), version.relation)
    warnings: list[str] = []
    needed = needed_manifests(version, predicate, warnings)
    tasks = [] if version.snapshot_id is None else _tasks(table, version, needed, filter)
    size = sum(size for _, size in (task.manifest for task in tasks))
    parts = run_tasks(spark, f"plan {table.name}", plan_manifest, tasks, advance, size_bytes=size)
    files, rows = sum(part.files_total for part in parts), sum(part.rows_total for part in parts)
    skipped: Counter[str] = Counter()
    for part in parts:
        skipped.update(part.skipped_by)
    if needed is not None:
        skipped[SkipStep.PARTITION] += needed.files - files
        files, rows = needed.files, needed.rows
    return PlanReport(
        version.snapshot_id,
        len(tasks),
        files,
        rows,
        sum(part.rows_selected for part in parts),
        dict(skipped),
        tuple(dict.fromkeys([*warnings, *(warning for part in parts for warning in part.warnings)])),
        pa.Table.from_batches([part.files for part in parts], _COLUMNS),
    )


def plan_manifest(task: PlanTask) -> PlannedManifest:
    """Plan one manifest."""
    opened = _opened(task.place, task.table)
    selector = SnapshotSelector(snapshot_id=task.snapshot_id, schemas=task.schemas)
    whole = opened.service.resolve(opened.ref, selector)
    manifest = whole.table.metadata.manifest(task.manifest)
    removing = [whole.table.metadata.manifest(file) for file in task.removing if file != task.manifest]
    # The manifest's own entries, without those that it or another one removes.
    rows = live_rows([*removing, manifest])[-1]
    entries, columns = whole.table.metadata.index_entries(whole.resolved), FileColumns.of([manifest], [rows])
    contents = VersionContents.read(columns, [manifest], entries, whole.schema)
    part = replace(whole, loaded=Loaded((task.manifest,), Files(contents.columns, [manifest]), contents))
    request = PlanRequest(filter=task.filter, selection=SelectionForm.COUNT, totals=True)
    decisions = decide(part, request, Limits())
    return _planned(decisions.plan(), decisions.warnings.all)


def _planned(answer: Plan, warnings: tuple[str, ...]) -> PlannedManifest:
    summary = answer.summary
    return PlannedManifest(
        _batch(answer.files),
        summary.files_total,
        summary.rows_total,
        summary.rows_selected,
        {str(step): count for step, count in summary.skipped_by.items()},
        warnings,
    )


def _batch(files: PlannedFiles) -> pa.RecordBatch:
    columns = files.columns(0, len(files))
    codes = files.array("partition_code")
    columns["partition"] = Coded.of(codes, lambda code: json.dumps(files.partition(code), ensure_ascii=False))
    return pa.record_batch([to_arrow(columns[field.name], field.type) for field in _COLUMNS], schema=_COLUMNS)


@cache
def _opened(place: Place, table: str) -> JobTable:
    return JobTable.open(place.url, table, allow_external=place.allow_external, rooms=CacheBytes())


def _tasks(
    table: JobTable,
    version: Version,
    needed: NeededManifests | None,
    filter: str | Mapping[str, Json] | None,  # noqa: A002 - as everywhere in this project
) -> list[PlanTask]:
    lists = version.table.metadata.manifest_lists(version.resolved)
    manifests = [file for manifest_list in lists for file in manifest_list.manifests]
    removes = np.concatenate([manifest_list.deleted > 0 for manifest_list in lists])
    are_needed = np.ones(len(manifests), np.bool_) if needed is None else needed.are_needed
    removing = tuple(compress(manifests, removes & are_needed))
    return [
        PlanTask(
            table.place,
            table.name,
            version.snapshot_id or 0,
            version.schema.ids,
            file,
            removing,
            filter,
        )
        for file in compress(manifests, are_needed)
    ]


def _check_standing_alone(table: JobTable, version: Version) -> None:
    if version.schema.primary_keys or version.schema.options.data_evolution:
        why = "a primary key" if version.schema.primary_keys else "data evolution"
        raise UnsupportedFormatError(
            f"table {table.name} has {why}, so that its files are planned together: ask the service or "
            f"paimon-index plan"
        )
