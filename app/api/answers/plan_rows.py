r"""The files of a plan as JSON objects, written column by column with Arrow's kernels, and as NDJSON.

An object is its members joined: ``{"path":`` and the paths, ``,"file_name":`` and the names, and so on. One
call turns a column of numbers into text, and a partition is encoded once, however many files it has.

NDJSON has one file on each line, and a last line with the facts about the whole plan::

    {"path": "demo.db/events/bucket-0/data-1.parquet", ...}\n     as in the pages of a plan
    ...
    {"summary": {...}, "snapshot_id": 7, ...}\n                   the only line with a summary

With ``explain`` the skipped files follow the kept ones, and every line of a file has a member ``skipped``.
Lines are made while they are sent, so memory does not grow with the plan. A plan without a last line was cut.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from app.api.answers.selections import (
    DeletedRows,
    Selection,
    SelectionEncoding,
    SelectionFormat,
    as_json,
)
from app.api.http.strict_json import JsonMembers, write_json
from app.planning.plan import (
    Coded,
    ColumnValues,
    ExplainStep,
    FileFacts,
    Int64,
    Plan,
    PlannedFiles,
    SkipStep,
    Summary,
    Text,
)
from app.planning.request import SelectionForm

_AT_ONCE: Final = 1_024
_SELECTION_BYTES_AT_ONCE: Final = 1 << 20
_SELECTIONS: Final = ("selection", "selection_format", "deleted_rows", "deleted_format")
_ESCAPED: Final = r'["\\\x00-\x1f]'
"""Characters that JSON strings must escape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedFile(FileFacts):
    """A data file that the query need not read."""

    decision_reason: Annotated[
        Text,
        Field(
            examples=["matched"],
            description="Why it is kept (no_filter, matched, no_index, not_decidable, not_asked, not_loaded, "
            "index_unreadable, merge_required), or the step that skipped it, as in skipped_by.",
        ),
    ]
    explain: list[ExplainStep] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile(SkippedFile):
    """A data file that the query reads."""

    selected_rows: Int64
    """Rows left to read, without deleted ones."""
    selection: Selection
    selection_format: SelectionFormat
    deleted_rows: DeletedRows = None
    deleted_format: SelectionFormat = None


def plan_rows(
    plan: Plan, form: SelectionEncoding, offset: int = 0, *, tells_skipped: bool = False, end: str = ""
) -> Iterator[pa.LargeStringArray]:
    """Yield the kept files and then the skipped ones as JSON objects, in batches.

    ``tells_skipped``: each object has a member ``skipped``. Raises LimitExceededError if a file has more
    positions than fit one list.
    """
    for files, form_here, is_skipped in ((plan.files, form, "false"), (plan.skipped_files, None, "true")):
        more = f',"skipped":{is_skipped}' if tells_skipped else ""
        start = offset
        while start < len(files):
            rows = _rows(files, start, form_here, f"{more}}}{end}")
            yield rows
            start += len(rows)
        offset = max(0, offset - len(files))


def plan_lines(plan: Plan, form: SelectionEncoding, *, explain: bool) -> Iterator[bytes]:
    """Yield the plan in pieces of whole lines."""
    started, encoding_seconds = time.perf_counter(), 0.0
    for rows in plan_rows(plan, form, tells_skipped=explain, end="\n"):
        _, offsets, content = rows.buffers()
        piece = memoryview(content)[: memoryview(offsets).cast("q")[len(rows)]]
        encoding_seconds += time.perf_counter() - started
        yield bytes(piece)
        started = time.perf_counter()
    yield write_json(plan_facts(plan, encoding_seconds * 1000)) + b"\n"


def plan_facts(plan: Plan, encode_ms: float | None = None) -> JsonMembers:
    """Return facts about a plan as a whole, with the time to encode it if known."""
    timings = plan.timings_ms if encode_ms is None else {**plan.timings_ms, "encode": encode_ms}
    return {
        "summary": plan_summary(plan.summary),
        "snapshot_id": plan.snapshot_id,
        "schema_id": plan.schema_id,
        **({} if plan.schemas is None else {"schemas": plan.schemas}),
        "warnings": plan.warnings,
        "unknown_files": plan.unknown_files,
        "timings_ms": {name: round(spent, 3) for name, spent in timings.items()},
    }


def plan_summary(summary: Summary) -> JsonMembers:
    """Return the totals of a plan, with a count for every step."""
    skipped_by = {step.value: summary.skipped_by.get(step, 0) for step in SkipStep}
    return {name: getattr(summary, name) for name in summary.__slots__} | {"skipped_by": skipped_by}


def encoded_selections(
    files: PlannedFiles, form: SelectionEncoding | None, start: int, stop: int, most_bytes: int
) -> dict[str, ColumnValues]:
    """Encode the selected rows of the files from ``start`` on, and the deleted ones on request.

    Stop before file ``stop``, or once about ``most_bytes`` are filled. ``form``: None for skipped files.
    """
    if form is None or not (files.selections or files.deleted):
        return dict.fromkeys(_SELECTIONS, pa.nulls(stop - start))
    members, size, row_counts = list[Any](), 0, files.array("row_count")
    for at in range(start, stop):
        rows = int(row_counts[at])
        selected = form.encode(files.selections.get(at), rows, form.selection)
        deleted = form.encode(files.deleted.get(at), rows, form.deletions)
        members.append((*selected, *deleted))
        size += sum(
            len(positions) if isinstance(positions, bytes) else positions.nbytes
            for positions, _ in (selected, deleted)
            if positions is not None
        )
        if size >= most_bytes:
            break
    return dict(zip(_SELECTIONS, map(list, zip(*members, strict=True)), strict=True))


def _rows(files: PlannedFiles, start: int, form: SelectionEncoding | None, end: str) -> pa.LargeStringArray:
    stop = min(start + _AT_ONCE, len(files))
    encoded = encoded_selections(files, form, start, stop, _SELECTION_BYTES_AT_ONCE)
    stop = start + len(encoded["selection"])
    columns = files.columns(start, stop)
    if form is None:
        del columns["selected_rows"]
    else:
        columns |= encoded
        if form.deletions is SelectionForm.NONE:
            del columns["deleted_rows"], columns["deleted_format"]
    if files.steps is not None:
        columns["explain"] = files.steps[start:stop]
    return _joined({name: _json(column) for name, column in columns.items()}, end, stop - start)


def _joined(members: Mapping[str, pa.Array | str], end: str, count: int) -> pa.LargeStringArray:
    pieces, fixed = list[Any](), "{"
    for name, values in members.items():
        fixed += f'"{name}":'
        if isinstance(values, str):
            fixed += values
        else:
            pieces += [pa.scalar(fixed, pa.large_string()), values.cast(pa.large_string())]
            fixed = ""
        fixed += ","
    fixed = fixed[:-1] + end
    if not pieces:
        return pa.repeat(pa.scalar(fixed, pa.large_string()), count)
    return pc.binary_join_element_wise(*pieces, *(pa.scalar(text, pa.large_string()) for text in (fixed, "")))


def _json(column: ColumnValues) -> pa.Array | str:
    """Encode a member. Return one text if all files have an equal value."""
    match column:
        case Coded(distinct, codes):
            written = [write_json(value) for value in distinct]
            return written[0].decode() if len(written) == 1 else _texts(written).take(codes)
        case list():
            return _texts([write_json(as_json(value)) for value in column])
        case _ if column.null_count == len(column):
            return "null"
        case _ if pa.types.is_string(column.type):
            return _quoted(column)
    if column.null_count:
        return column.cast(pa.string()).fill_null("null")
    values = np.asarray(column)
    is_same = (values == values[0]).all()
    return write_json(values[0].item()).decode() if is_same else column.cast(pa.string())


def _quoted(strings: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(strings, _ESCAPED)).as_py():
        return _texts([write_json(text) for text in strings.to_pylist()])
    return pc.binary_join_element_wise('"', strings, '"', "")


def _texts(written: list[bytes]) -> pa.Array:
    return pa.array(written, pa.large_binary()).cast(pa.large_string())
