"""The planner's answers as JSON objects; the same for HTTP and for the command line.

Entries are plain dictionaries and frozen dataclasses, made for what is really sent and written by ``orjson``:
answers never pass through models, whose checking of our own values would cost more than planning.
"""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from app.api.paging import Window
from app.api.plan_rows import plan_rows
from app.api.problems import problem_of
from app.api.selections import SelectionEncoding, bitmap_format, sized_for
from app.api.strict_json import write_json
from app.observation import Phase, during
from app.planning.deletions import DeletionsAnswer, FileDeletions
from app.planning.keys.answers import BucketLookup
from app.planning.plan.answers import Plan, Summary
from app.planning.plan.file_plan import SkipStep
from app.planning.pruned import PrunedSnapshot
from app.planning.request.requests import SelectionForm
from app.planning.standalone import EvaluateAnswer, EvaluatedFile
from app.types import Json

JsonMembers = dict[str, Any]
NextToken = Callable[[int | None], str | None]

_NO_ROWS = BitMap()
_BEHIND_ALL_KEPT = 1 << 32
"""More files than a version can have."""


def encode_plan(
    plan: Plan, window: Window, form: SelectionEncoding, token: NextToken, *, explain: bool
) -> JsonMembers:
    """One page of a plan; with ``explain`` the skipped files follow the kept ones in the same pages."""
    with during(Phase.ENCODE):
        return _plan_page(plan, window, form, token, explain=explain)


def _plan_page(
    plan: Plan, window: Window, form: SelectionEncoding, token: NextToken, *, explain: bool
) -> JsonMembers:
    started = time.perf_counter()
    kept = len(plan.files)
    units = _units(plan)
    here = replace(window, offset=int(np.searchsorted(units, window.offset)))
    rows = chain.from_iterable(
        each.cast(pa.large_binary()).to_pylist() for each in plan_rows(plan, form, here.offset)
    )
    page = here.take(len(units), rows, lambda at: bool(units[at] == units[at - 1]))
    kept_here = max(0, kept - here.offset)
    following = None if page.next_offset is None else int(units[page.next_offset])
    answer: JsonMembers = {
        "snapshot_id": plan.snapshot_id,
        "schema_id": plan.schema_id,
        **told_schemas(plan),
        "files": page.entries[:kept_here],
    }
    if explain:
        answer["skipped_files"] = page.entries[kept_here:]
    timings = {**plan.timings_ms, "encode": (time.perf_counter() - started) * 1000}
    return answer | {
        "summary": plan_summary(plan.summary),
        "warnings": plan.warnings,
        "unknown_files": plan.unknown_files,
        "timings_ms": rounded(timings),
        "next_page_token": token(following),
    }


def _units(plan: Plan) -> NDArray[np.int64]:
    """What tells where the pages of a plan begin, ascending: of each file the unit that it is read in.

    Another plan of the version may have read more or fewer indexes, and keep other files. Together they hold
    every file that is needed, since a page begins with a unit and divides none.
    """
    if not len(plan.skipped_files):
        return plan.files.units
    return np.concatenate([plan.files.units, plan.skipped_files.units + _BEHIND_ALL_KEPT])


def archive_pruned_snapshot(pruned: PrunedSnapshot) -> bytes:
    """A zip archive of ``answer.json`` and the metadata files as they are; Avro has compressed its blocks."""
    answer = {
        "snapshot_id": pruned.plan.snapshot_id,
        "schema_id": pruned.plan.schema_id,
        "name": pruned.name,
        "document": pruned.document,
        "delta_manifest_list": pruned.delta_manifest_list,
        "files_named": pruned.files_named,
        "summary": plan_summary(pruned.plan.summary),
        "warnings": pruned.plan.warnings,
    }
    written = io.BytesIO()
    with during(Phase.ENCODE), zipfile.ZipFile(written, "w") as archive:
        archive.writestr("answer.json", write_json(answer))
        for file in pruned.metadata_files:
            archive.writestr(f"manifest/{file.name}", file.content)
    return written.getvalue()


def encode_deletions(
    answer: DeletionsAnswer, window: Window, form: SelectionEncoding, token: NextToken
) -> JsonMembers:
    """One page of deletions."""
    with during(Phase.ENCODE):
        page = window.fill(
            len(answer.deletions), lambda index: _file_deletions(answer.deletions[index], form)
        )
    return {
        "snapshot_id": answer.snapshot_id,
        "deletions": page.entries,
        "unknown_files": answer.unknown_files,
        "warnings": answer.warnings,
        "next_page_token": token(page.next_offset),
    }


def encode_schemas(schemas: Sequence[Mapping[str, Json]], window: Window, token: NextToken) -> JsonMembers:
    """One page of the schemas of a table."""
    page = window.fill(len(schemas), lambda index: schemas[index])
    return {"schemas": page.entries, "next_page_token": token(page.next_offset)}


def encode_index_files(
    snapshot_id: int | None, entries: Sequence[Json], window: Window, token: NextToken
) -> JsonMembers:
    """One page of the index manifest's live entries."""
    page = window.fill(len(entries), lambda index: entries[index])
    return {
        "snapshot_id": snapshot_id,
        "index_files": page.entries,
        "next_page_token": token(page.next_offset),
    }


def encode_lookup(answer: BucketLookup) -> JsonMembers:
    """Buckets of keys, in request order."""
    entry: JsonMembers = {
        "snapshot_id": answer.snapshot_id,
        "bucket_mode": answer.bucket_mode,
        "buckets": [
            {"key_hash": each.key_hash, "bucket": each.bucket} if each.other_buckets is None else each
            for each in answer.buckets
        ],
    }
    return entry if answer.detail is None else entry | {"detail": answer.detail}


def encode_evaluation(
    answer: EvaluateAnswer, form: SelectionEncoding, row_count: int | None, instance: str
) -> JsonMembers:
    """What index files say; ``instance`` names the request in the problem of a file that cannot be used."""
    results = [_evaluated(file, form, row_count or 0, instance) for file in answer.files]
    return {"results": results, "warnings": answer.warnings}


def told_schemas(plan: Plan) -> JsonMembers:
    """The schemas of a plan, where somebody asked."""
    return {} if plan.schemas is None else {"schemas": plan.schemas}


def plan_summary(summary: Summary) -> JsonMembers:
    """The totals of a plan."""
    skipped_by = {step.value: summary.skipped_by.get(step, 0) for step in SkipStep}
    return {name: getattr(summary, name) for name in summary.__slots__} | {"skipped_by": skipped_by}


def rounded(timings_ms: Mapping[str, float]) -> JsonMembers:
    """Times to the microsecond."""
    return {name: round(spent, 3) for name, spent in timings_ms.items()}


def _file_deletions(file: FileDeletions, form: SelectionEncoding) -> JsonMembers:
    entry: JsonMembers = {
        "file_name": file.file_name,
        "partition": file.partition,
        "bucket": file.bucket,
        "cardinality": file.cardinality,
        "encoding": form.selection.value,
    }
    if form.selection is not SelectionForm.COUNT:
        positions = file.positions or _NO_ROWS
        # A vector knows no row count; its last position tells whether 32 bits hold it.
        sized = sized_for(positions, positions.max() + 1 if positions else 0)
        entry[form.selection.value] = form.write(sized, form.selection, form.positions)
        if form.selection is SelectionForm.BITMAP:
            entry["bitmap_format"] = bitmap_format(sized, form.selection)
    return entry


def _evaluated(file: EvaluatedFile, form: SelectionEncoding, row_count: int, instance: str) -> JsonMembers:
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
