"""A plan as an Arrow IPC stream: the columns of the JSON answer, a record batch for up to 10,000 files.

Facts about the whole plan are known before its files are written, so the schema's metadata has them as JSON
texts: ``summary``, ``snapshot_id``, ``schema_id``, ``warnings``, ``unknown_files``, ``timings_ms``, and
``schemas`` on request.
The stream ends with Arrow's end-of-stream marker. One without it was cut. Batches are made while they are
sent, and end early if their selections are large, so memory does not grow with the plan.

Partition values have these types:

==================================  ============================================================
column's type                       Arrow's
==================================  ============================================================
BOOLEAN                             bool
TINYINT, SMALLINT, INT, BIGINT      int8, int16, int32, int64
FLOAT, DOUBLE                       float, double
DECIMAL(p, s)                       decimal128(p, s)
CHAR, VARCHAR, STRING               string
BINARY, VARBINARY, BYTES            binary
DATE                                date32
TIME                                time32, milliseconds
TIMESTAMP(p), p up to 6             timestamp, microseconds, without a zone
TIMESTAMP_LTZ(p), p up to 6         timestamp, microseconds, UTC
timestamps with p of 7 to 9         string, as in JSON: 64 bits of nanoseconds end in the year 2262
==================================  ============================================================
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from app.api.answers.plan_rows import PlannedFile, encoded_selections, plan_facts
from app.api.answers.selections import SelectionEncoding, as_bytes
from app.api.http.strict_json import write_json
from app.planning.plan import Coded, DeletionFile, ExplainStep, Plan, PlannedFiles, arrow_types, to_arrow
from app.planning.request import SelectionForm
from app.types import DataField, DataType, Json, TypeRoot, parse_json
from app.types.civil_time import NANOS_PER_MICRO

_TYPES = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
}
_TIMESTAMPS = {TypeRoot.TIMESTAMP: pa.timestamp("us"), TypeRoot.TIMESTAMP_LTZ: pa.timestamp("us", tz="UTC")}
_MICROSECONDS = 6
_EXACT = decimal.Context(prec=100)

_FILES_OF_BATCH: Final = 10_000
_SELECTION_BYTES_OF_BATCH: Final = 1 << 23

# The continuation mark and a length of nothing, see "IPC Streaming Format" of the Arrow specification.
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


_FILE: Final = arrow_types(PlannedFile)
_DELETION: Final = arrow_types(DeletionFile)
_EXPLAIN_STEP: Final = arrow_types(ExplainStep)
_deletion = attrgetter(*_DELETION)
_explain_step = attrgetter(*_EXPLAIN_STEP)
_VALUES: Final[Mapping[str, Callable[[Any], object]]] = {
    "deletion": lambda deletion: deletion and _deletion(deletion),
    "selection": as_bytes,
    "deleted_rows": as_bytes,
    "explain": lambda steps: list(map(_explain_step, steps)),
}
"""Converters of objects to Arrow's values, by column."""


def plan_batches(
    plan: Plan, partition_fields: Sequence[DataField], form: SelectionEncoding, *, explain: bool
) -> Iterator[bytes]:
    """Yield the plan in batches. The first piece begins with the schema."""
    facts = {name: write_json(value) for name, value in plan_facts(plan).items()}
    schema = plan_schema(partition_fields, form, explain=explain).with_metadata(facts)
    piece = schema.serialize().to_pybytes()
    for files, form_here in ((plan.files, form), (plan.skipped_files, None)):
        start = 0
        while start < len(files):
            batch = _batch(files, form_here, partition_fields, schema, start)
            start += len(batch)
            yield piece + batch.serialize().to_pybytes()
            piece = b""
    yield piece + _END_OF_STREAM


def plan_schema(
    partition_fields: Sequence[DataField], form: SelectionEncoding, *, explain: bool
) -> pa.Schema:
    """Return the columns: the requested members of a planned file, and two more with ``explain``."""
    partition = {field.name: _arrow_type(field.type) for field in partition_fields}
    columns = _FILE | {
        # Many readers take no struct without members.
        "partition": pa.struct(partition) if partition else pa.null(),
        "deletion": pa.struct(_DELETION),
    }
    del columns["explain"]
    if form.deletions is SelectionForm.NONE:
        del columns["deleted_rows"], columns["deleted_format"]
    if explain:
        columns |= {"skipped": pa.bool_(), "explain": pa.list_(pa.struct(_EXPLAIN_STEP))}
    return pa.schema(columns)


def _batch(
    files: PlannedFiles,
    form: SelectionEncoding | None,
    partition_fields: Sequence[DataField],
    schema: pa.Schema,
    start: int,
) -> pa.RecordBatch:
    stop = min(start + _FILES_OF_BATCH, len(files))
    encoded = encoded_selections(files, form, start, stop, _SELECTION_BYTES_OF_BATCH)
    stop = start + len(encoded["selection"])
    columns = files.columns(start, stop) | encoded
    columns["skipped"] = pa.repeat(form is None, stop - start)
    columns["explain"] = [] if files.steps is None else files.steps[start:stop]
    for name, value in _VALUES.items():
        column = columns[name]
        if isinstance(column, list):
            columns[name] = [value(entry) for entry in column]
    partition = columns["partition"]
    if isinstance(partition, Coded):
        values = [_partition(row, partition_fields) for row in partition.values]
        columns["partition"] = Coded(values, partition.codes)
    if form is None:
        columns["selected_rows"] = pa.nulls(stop - start)
    return pa.record_batch([to_arrow(columns[field.name], field.type) for field in schema], schema=schema)


def _partition(values: Mapping[str, Json], fields: Sequence[DataField]) -> tuple[Any, ...] | None:
    return tuple(_arrow_value(values[field.name], field.type) for field in fields) or None


def _arrow_type(data_type: DataType) -> pa.DataType:
    if data_type.root is TypeRoot.DECIMAL:
        return pa.decimal128(data_type.precision, data_type.scale)
    if data_type.root in _TIMESTAMPS and data_type.precision <= _MICROSECONDS:
        return _TIMESTAMPS[data_type.root]
    return _TYPES.get(data_type.root, pa.string())


def _arrow_value(value: Json, data_type: DataType) -> Any:
    if value is None:
        return None
    if _arrow_type(data_type) == pa.string():
        return value
    held = parse_json(value, data_type)
    match data_type.root:
        case TypeRoot.DECIMAL if isinstance(held, int):
            return decimal.Decimal(held).scaleb(-data_type.scale, _EXACT)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if isinstance(held, int):
            return held // NANOS_PER_MICRO
        case _:
            return held
