"""The planner's answers as JSON objects, for HTTP and for the command line.

Entries are plain dictionaries and frozen dataclasses, made only for what is sent, and written by ``orjson``.
Answers never pass through models: checking our own values would cost more than planning.
"""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field
from pyroaring import BitMap

from app.api.answers.paging import NextPageToken, Window
from app.api.answers.plan_rows import PlannedFile, SkippedFile, plan_facts, plan_rows, plan_summary
from app.api.answers.selections import (
    Selection,
    SelectionEncoding,
    SelectionFormat,
    bitmap_format,
    encode_positions,
    sized_for,
)
from app.api.http.problems import ProblemDetails, problem_of
from app.api.http.strict_json import JsonMembers, write_json
from app.described import DESCRIBED
from app.observation import Phase, during
from app.planning import DeletedPositions as DeletedRows
from app.planning import DeletionsAnswer, EvaluateAnswer, PrunedSnapshot
from app.planning import FileVerdict as DecidedFile
from app.planning.buckets import BucketLookup, KeyBucket, SnapshotId
from app.planning.plan import ExplainStep, Plan, Summary
from app.planning.request import SelectionForm
from app.planning.version import Schema

NextToken = Callable[[int | None], str | None]

_NO_ROWS = BitMap()
_KEYS_AT_ONCE = 500
# More files than a version can have.
_BEHIND_ALL_KEPT = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer:
    """One page of a plan."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: SnapshotId
    schema_id: int
    # Before the files, since there may be many of them.
    summary: Summary
    warnings: list[str]
    unknown_files: list[str]
    """Files named in the request that are not in the snapshot."""
    timings_ms: dict[str, float]
    schemas: list[Schema] | None = None
    """Schemas of the version and of the kept files of all pages; only if `schemas` is set."""
    files: list[PlannedFile]
    skipped_files: list[SkippedFile] | None = None
    """Only if `explain` is set."""
    next_page_token: NextPageToken


@dataclass(frozen=True, slots=True)
class FileDeletions:
    """Deleted rows of one data file."""

    file_name: str
    partition: Annotated[dict[str, Any], Field(description="Typed values by partition column.")]
    bucket: int
    cardinality: int
    encoding: Literal["positions", "ranges", "bitmap", "count"]
    positions: list[int] | None = None
    ranges: list[list[int]] | None = None
    bitmap: str | None = None
    bitmap_format: SelectionFormat = None


@dataclass(frozen=True, slots=True)
class DeletionsPage:
    """One page of deletions."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: SnapshotId
    deletions: Sequence[FileDeletions]
    unknown_files: Sequence[str]
    next_page_token: NextPageToken


@dataclass(frozen=True, slots=True)
class SchemaList:
    """One page of a table's schemas, oldest first."""

    __pydantic_config__ = DESCRIBED

    schemas: Sequence[Schema]
    next_page_token: NextPageToken


@dataclass(frozen=True, slots=True)
class EvaluatedFile:
    """Decision of the indexes of one file."""

    name: str
    decision: Literal["skip", "keep"]
    selected_rows: int | None
    selection: Selection
    selection_format: SelectionFormat
    explain: list[ExplainStep] | None = None
    error: ProblemDetails | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One result per index file, in request order."""

    __pydantic_config__ = DESCRIBED

    results: list[EvaluatedFile]
    warnings: list[str]


_PLAN_MEMBERS = tuple(member.name for member in fields(PlanAnswer))


def encode_plan(
    plan: Plan, window: Window, form: SelectionEncoding, token: NextToken, *, explain: bool
) -> JsonMembers:
    """Encode one page of a plan. With ``explain`` the skipped files follow the kept ones."""
    with during(Phase.ENCODE):
        return _plan_page(plan, window, form, token, explain=explain)


def _plan_page(
    plan: Plan, window: Window, form: SelectionEncoding, token: NextToken, *, explain: bool
) -> JsonMembers:
    started = time.perf_counter()
    kept_files = len(plan.files)
    units = _units(plan)
    unit_window = replace(window, offset=int(np.searchsorted(units, window.offset)))
    rows = chain.from_iterable(
        batch.cast(pa.large_binary()).to_pylist() for batch in plan_rows(plan, form, unit_window.offset)
    )
    page = unit_window.take(len(units), rows, lambda at: bool(units[at] == units[at - 1]))
    kept_here = max(0, kept_files - unit_window.offset)
    following = None if page.next_offset is None else int(units[page.next_offset])
    answer = plan_facts(plan, (time.perf_counter() - started) * 1000)
    answer |= {"files": page.entries[:kept_here], "next_page_token": token(following)}
    if explain:
        answer["skipped_files"] = page.entries[kept_here:]
    return {name: answer[name] for name in _PLAN_MEMBERS if name in answer}


def _units(plan: Plan) -> NDArray[np.int64]:
    """Return the unit of reading of each file, ascending. Pages are cut between units."""
    # Each page may come from another plan of the version, which has read other indexes and keeps other files.
    # A page begins with a unit and divides none, so that all pages together hold every file that is needed.
    if not len(plan.skipped_files):
        return plan.files.array("unit")
    return np.concatenate([plan.files.array("unit"), plan.skipped_files.array("unit") + _BEHIND_ALL_KEPT])


def archive_pruned_snapshot(pruned: PrunedSnapshot) -> bytes:
    """Pack ``answer.json`` and the metadata files into a zip archive without compression."""
    ranges = pruned.row_ranges
    answer = {
        "snapshot_id": pruned.plan.snapshot_id,
        "schema_id": pruned.plan.schema_id,
        "options_schema_id": pruned.options_schema_id,
        "name": pruned.name,
        "document": pruned.document,
        "delta_manifest_list": pruned.delta_manifest_list,
        "files_named": pruned.files_named,
        "row_ranges": None if ranges is None else np.stack([ranges.first, ranges.last], axis=1).tolist(),
        "summary": plan_summary(pruned.plan.summary),
        "spared": pruned.plan.spared,
        "warnings": pruned.plan.warnings,
    }
    # Avro has compressed the blocks of the metadata files.
    written = io.BytesIO()
    with during(Phase.ENCODE), zipfile.ZipFile(written, "w") as archive:
        archive.writestr("answer.json", write_json(answer))
        for file in pruned.metadata_files:
            archive.writestr(f"manifest/{file.name}", file.content)
    return written.getvalue()


def encode_deletions(
    answer: DeletionsAnswer, window: Window, form: SelectionEncoding, token: NextToken
) -> DeletionsPage:
    """Encode one page of deletions."""
    with during(Phase.ENCODE):
        page = window.fill(
            len(answer.deletions), lambda index: _file_deletions(answer.deletions[index], form)
        )
    return DeletionsPage(answer.snapshot_id, page.entries, answer.unknown_files, token(page.next_offset))


def encode_schemas(schemas: Sequence[Schema], window: Window, token: NextToken) -> SchemaList:
    """Encode one page of the schemas of a table."""
    page = window.fill(len(schemas), lambda index: schemas[index])
    return SchemaList(page.entries, token(page.next_offset))


def encode_lookup(answer: BucketLookup) -> JsonMembers:
    """Encode buckets of keys, in request order."""
    # In batches: a hundred thousand dictionaries would keep the garbage collector busy.
    parts = (answer.buckets[at : at + _KEYS_AT_ONCE] for at in range(0, len(answer.buckets), _KEYS_AT_ONCE))
    written = (write_json([_key_bucket(bucket) for bucket in part])[1:-1] for part in parts)
    entry: JsonMembers = {
        "snapshot_id": answer.snapshot_id,
        "bucket_mode": answer.bucket_mode,
        "buckets": orjson.Fragment(b"[%b]" % b",".join(written)),
    }
    return entry if answer.detail is None else entry | {"detail": answer.detail}


def _key_bucket(key: KeyBucket) -> KeyBucket | JsonMembers:
    if key.other_buckets is not None:
        return key
    return {"key_hash": key.key_hash, "bucket": key.bucket}


def encode_evaluation(
    answer: EvaluateAnswer, form: SelectionEncoding, row_count: int | None, instance: str
) -> JsonMembers:
    """Encode the decisions of index files. ``instance`` is the request id, for problems of single files."""
    results = [_evaluated(file, form, row_count or 0, instance) for file in answer.files]
    return {"results": results, "warnings": answer.warnings}


def _file_deletions(file: DeletedRows, form: SelectionEncoding) -> JsonMembers:
    entry: JsonMembers = {
        "file_name": file.file_name,
        "partition": file.partition,
        "bucket": file.bucket,
        "cardinality": file.cardinality,
        "encoding": form.selection.value,
    }
    if form.selection is not SelectionForm.COUNT:
        positions = file.positions or _NO_ROWS
        # A vector has no row count; its last position decides whether 32 bits hold it.
        sized = sized_for(positions, positions.max() + 1 if positions else 0)
        entry[form.selection.value] = encode_positions(sized, form.selection, form.positions)
        if form.selection is SelectionForm.BITMAP:
            entry["bitmap_format"] = bitmap_format(sized, form.selection)
    return entry


def _evaluated(file: DecidedFile, form: SelectionEncoding, row_count: int, instance: str) -> JsonMembers:
    # A null selection would mean every row, so a skipped file gets the empty set.
    positions = _NO_ROWS if file.skip else file.selection
    last = positions.max() + 1 if positions else 0
    entry: JsonMembers = {
        "name": file.name,
        "decision": "skip" if file.skip else "keep",
        "selected_rows": None if positions is None else len(positions),
        **form.members(positions, max(row_count, last)),
    }
    if file.explain is not None:
        entry["explain"] = file.explain
    if file.error is not None:
        entry["error"] = problem_of(file.error, path_was_named=True).to_json(instance)
    return entry
