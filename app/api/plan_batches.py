"""A plan as an Arrow IPC stream: the columns of the JSON answer, a record batch for up to 10,000 files.

What is told of the whole plan is known before its files are written, so it stands in the schema's metadata,
as JSON texts: ``summary``, ``snapshot_id``, ``schema_id``, ``warnings``, ``unknown_files``, ``timings_ms``.
The stream ends with Arrow's end-of-stream marker; one without it was cut. Batches are made as they are sent,
and end early where their selections are large, so memory does not grow with the plan.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from app.api.arrow_values import arrow_type, arrow_value
from app.api.encoding import Entry, Form, plan_file, plan_summary, rounded
from app.api.selections import pack_positions
from app.api.strict_json import write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.planning.answers import FilePlan, Plan
    from app.types import DataField, Json

_FILES_OF_BATCH: Final = 10_000
_SELECTION_BYTES_OF_BATCH: Final = 1 << 23

# The continuation mark and a length of nothing, see "IPC Streaming Format" of the Arrow specification.
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"

_DELETION: Final = {
    "path": pa.string(),
    "offset": pa.int64(),
    "length": pa.int64(),
    "cardinality": pa.int64(),
}
_EXPLAIN_STEP: Final = {
    "step": pa.string(),
    "outcome": pa.string(),
    "column": pa.string(),
    "index": pa.string(),
    "predicate": pa.string(),
    "rows": pa.int64(),
}
_deletion = attrgetter(*_DELETION)
_explain_step = attrgetter(*_EXPLAIN_STEP)


def plan_batches(
    plan: Plan, partition_fields: Sequence[DataField], form: Form, *, explain: bool
) -> Iterator[bytes]:
    """The plan in pieces of one batch, the first of which begins with the schema.

    Raises:
        LimitExceededError: a file has more positions than fit one list.
    """
    packed = replace(form, write=pack_positions)
    partitions = _Partitions(partition_fields)
    schema = _schema(partitions.type, explain=explain).with_metadata(_metadata(plan))
    piece = bytearray(schema.serialize())
    rows: list[Entry] = []
    selection_bytes = 0
    for file, skipped in _files(plan, explain=explain):
        row = plan_file(file, None if skipped else packed)
        row["partition"] = partitions.row(file.partition)
        row["deletion"] = None if file.deletion is None else _deletion(file.deletion)
        if explain:
            row["skipped"] = skipped
            row["explain"] = [_explain_step(step) for step in file.explain or ()]
        rows.append(row)
        selection_bytes += len(row.get("selection") or b"")
        if len(rows) == _FILES_OF_BATCH or selection_bytes >= _SELECTION_BYTES_OF_BATCH:
            piece += pa.RecordBatch.from_pylist(rows, schema).serialize()
            yield bytes(piece)
            piece.clear()
            rows.clear()
            selection_bytes = 0
    if rows:
        piece += pa.RecordBatch.from_pylist(rows, schema).serialize()
    yield bytes(piece) + _END_OF_STREAM


def _files(plan: Plan, *, explain: bool) -> Iterator[tuple[FilePlan, bool]]:
    """The files to tell of, and whether each was skipped."""
    for file in plan.files:
        yield file, False
    if explain:
        for file in plan.skipped_files:
            yield file, True


def _schema(partition: pa.DataType, *, explain: bool) -> pa.Schema:
    columns = {
        "path": pa.string(),
        "file_name": pa.string(),
        "format": pa.string(),
        "file_size": pa.int64(),
        "row_count": pa.int64(),
        "schema_id": pa.int64(),
        "level": pa.int32(),
        "partition": partition,
        "bucket": pa.int32(),
        "total_buckets": pa.int32(),
        "min_sequence_number": pa.int64(),
        "max_sequence_number": pa.int64(),
        "first_row_id": pa.int64(),
        "raw_convertible": pa.bool_(),
        "merge_group": pa.int64(),
        "residual": pa.bool_(),
        "deletion": pa.struct(_DELETION),
        "decision_reason": pa.string(),
        "selected_rows": pa.int64(),
        "selection": pa.binary(),
        "selection_format": pa.string(),
    }
    if explain:
        columns |= {"skipped": pa.bool_(), "explain": pa.list_(pa.struct(_EXPLAIN_STEP))}
    return pa.schema(columns)


def _metadata(plan: Plan) -> Mapping[str, bytes]:
    told = {
        "summary": plan_summary(plan.summary),
        "snapshot_id": plan.snapshot_id,
        "schema_id": plan.schema_id,
        "warnings": plan.warnings,
        "unknown_files": plan.unknown_files,
        "timings_ms": rounded(plan.timings_ms),
    }
    return {name: write_json(value) for name, value in told.items()}


class _Partitions:
    """Partition values as rows of a struct with a member per column; many files share few of them.

    Attributes:
        type: of the struct; Arrow's null type for a table without partitions, since many readers take no
            struct without members.
    """

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._fields = fields
        self._rows: dict[bytes, tuple[Any, ...]] = {}
        members = {field.name: arrow_type(field.type) for field in fields}
        self.type = pa.struct(members) if members else pa.null()

    def row(self, partition: Mapping[str, Json]) -> tuple[Any, ...] | None:
        if not self._fields:
            return None
        written = write_json(partition)
        row = self._rows.get(written)
        if row is None:
            values = (arrow_value(partition[field.name], field.type) for field in self._fields)
            row = self._rows[written] = tuple(values)
        return row
