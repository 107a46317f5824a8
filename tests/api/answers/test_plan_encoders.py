"""The pieces of a streamed plan: what a piece holds, and that no more is encoded than what was asked for."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from app.api.answers.plan_batches import plan_batches
from app.api.answers.plan_rows import plan_lines
from app.api.answers.selections import SelectionEncoding
from app.errors import LimitExceededError
from app.options.table_options import TableOptions
from app.planning.plan.answers import Plan, Summary
from app.planning.plan.explanation import Explanation, FileSteps
from app.planning.plan.file_plan import DeletionFile, ExplainStep, KeepReason, SkipStep
from app.planning.plan.planned_files import Places, PlannedFiles
from app.planning.plan.state import SKIPS, decision
from app.planning.request.requests import SelectionForm
from app.table import TablePaths, TableSchema
from app.table.schema.partition import Partitions
from app.types import DataField, Json, Value, parse_json, parse_type
from app.types.binary_row.row import serialize_row
from app.types.roaring import Positions

MANY = 25_000
DIGITS = Decimal("-123456789012345678901234567890.12")
MOMENT = datetime(1969, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001 - a wall clock
MIDNIGHT = datetime(2025, 8, 1, tzinfo=UTC)
BITMAPS = SelectionEncoding(SelectionForm.BITMAP, 1_000)
NAMED = TableOptions({"partition.legacy-name": "false"})
"""So that every type has directories."""


class Watched(dict[int, "Positions"]):
    """Selections that remember the last file whose rows were asked for."""

    last = -1

    def get(self, at: int, default: object = None) -> object:  # type: ignore[override] # as it is called
        self.last = max(self.last, at)
        return super().get(at, default)


def planned(
    count: int = 1,
    fields: Sequence[DataField] = (),
    partition: Sequence[Value | None] = (),
    selections: Mapping[int, Positions] | None = None,
    deletions: Mapping[int, DeletionFile] | None = None,
    steps: Sequence[tuple[ExplainStep, ...]] | None = None,
    reason: KeepReason | SkipStep = KeepReason.MATCHED,
    **integers: int,
) -> PlannedFiles:
    """Files that are all alike, in bucket 0 of one partition."""
    schema = TableSchema(0, tuple(fields), tuple(field.name for field in fields), options=NAMED)
    code = next(code for code in range(-len(KeepReason), len(SKIPS) + 1) if code and decision(code) is reason)
    members = {
        "external_path": None,
        "file_size": 1 << 40,
        "row_count": 1_000,
        "schema_id": 0,
        "level": 0,
        "partition_code": 0,
        "bucket": 0,
        "total_buckets": -1,
        "min_sequence_number": 1,
        "max_sequence_number": 2,
        "first_row_id": None,
        "merge_group": None,
        "raw_convertible": True,
        "residual": False,
        "decision": code,
        "selected_rows": 1_000,
    }
    columns = {name: [value] * count for name, value in (members | integers).items()}
    names = pa.array([b"data-%d.parquet" % at for at in range(count)], pa.large_binary())
    table = pa.RecordBatch.from_pydict({"file_name": names, **columns})
    return PlannedFiles(
        table,
        partitions=(serialize_row(partition, [field.type for field in fields]),),
        places=Places(TablePaths("demo.db/events", schema), Partitions(schema), ""),
        selections=selections or {},
        joined_rows={},
        deletions=deletions or {},
        deleted={},
        steps=None if steps is None else explained(steps),
    )


def explained(steps: Sequence[tuple[ExplainStep, ...]]) -> FileSteps:
    explanation = Explanation()
    for at, of_file in enumerate(steps):
        for step in of_file:
            explanation.add(np.array([at]), step)
    return FileSteps(((explanation, np.arange(len(steps))),))


def a_plan(files: PlannedFiles, skipped: PlannedFiles | None = None) -> Plan:
    skipped = planned(0) if skipped is None else skipped
    summary = Summary(
        files_total=len(files) + len(skipped),
        files_kept=len(files),
        files_skipped=len(skipped),
        files_invisible=0,
        skipped_by={SkipStep.STATISTICS: len(skipped)},
        manifests_total=1,
        manifests_skipped=0,
        rows_total=1,
        rows_selected=1,
        bytes_total=1,
        bytes_kept=1,
        complete=True,
    )
    warnings, unknown = ("careful",), ("data-x.parquet",)
    timings = {"load": 0.12345}
    return Plan(7, 3, files, skipped, summary, warnings, unknown, timings, 1_000, ran_out_of_time=False)


def lines(plan: Plan) -> Iterator[bytes]:
    return plan_lines(plan, BITMAPS, explain=False)


def batches(plan: Plan) -> Iterator[bytes]:
    return plan_batches(plan, (), BITMAPS, explain=False)


def partition_of(data_type: str, value: Json) -> tuple[pa.DataType, object]:
    field = DataField(0, "part", parse_type(data_type))
    plan = a_plan(planned(1, [field], [parse_json(value, field.type)]))
    table = pa.ipc.open_stream(b"".join(plan_batches(plan, [field], BITMAPS, explain=False))).read_all()
    return table.schema.field("partition").type.field("part").type, table["partition"][0].as_py()["part"]


@pytest.mark.parametrize("pieces", [lines, batches])
def test_only_the_files_of_a_piece_are_written_for_it(pieces: Callable[[Plan], Iterator[bytes]]) -> None:
    selections = Watched({MANY - 1: BitMap([1])})
    stream = pieces(a_plan(planned(MANY, selections=selections)))

    last = [selections.last for _ in islice(stream, 2)]

    assert 0 < last[0] < 10_000
    assert last[0] < last[1] < 20_000
    assert len(list(stream)) > 0
    assert selections.last == MANY - 1


def test_a_batch_has_up_to_ten_thousand_files() -> None:
    with pa.ipc.open_stream(b"".join(batches(a_plan(planned(MANY))))) as reader:
        sizes = [len(batch) for batch in reader]

    assert sizes == [10_000, 10_000, 5_000]


def test_a_batch_of_large_selections_ends_early() -> None:
    rows = BitMap(range(0, 1 << 21, 2))
    files = planned(100, row_count=1 << 21, selections=dict.fromkeys(range(100), rows))

    with pa.ipc.open_stream(b"".join(batches(a_plan(files)))) as reader:
        found = list(reader)

    assert sum(len(batch) for batch in found) == 100
    assert max(batch.nbytes for batch in found) < 2 * (1 << 23)
    assert BitMap.deserialize(found[-1]["selection"][-1].as_py()) == rows


def test_a_stream_that_is_cut_has_no_end() -> None:
    *all_but_last, last, end = batches(a_plan(planned(MANY)))

    assert end == b"\xff\xff\xff\xff\0\0\0\0"
    with pytest.raises(OSError, match="Expected to be able to read"):
        pa.ipc.open_stream(b"".join(all_but_last) + last[:-100]).read_all()


def test_a_file_in_every_detail() -> None:
    deletion = DeletionFile("demo.db/events/index/index-1", 1, 32, None)
    kept = planned(deletions={0: deletion}, selections={0: BitMap([1, 5])}, selected_rows=2, steps=[()])
    step = ExplainStep("statistics", "skip", "score", "min_max", "score > 60", None)
    skipped = planned(reason=SkipStep.STATISTICS, merge_group=1 << 40, steps=[(step,)])
    plan = a_plan(kept, skipped)

    table = pa.ipc.open_stream(b"".join(plan_batches(plan, (), BITMAPS, explain=True))).read_all()
    *written, end = b"".join(plan_lines(plan, BITMAPS, explain=True)).splitlines()

    assert table.to_pylist() == [
        {
            **json.loads(line),
            "partition": None,
            "selected_rows": rows,
            "selection": selection,
            "selection_format": None if selection is None else "roaring32",
        }
        for line, rows, selection in zip(written, (2, None), (BitMap([1, 5]).serialize(), None), strict=True)
    ]
    told = {name.decode(): json.loads(text) for name, text in table.schema.metadata.items()}
    assert told["warnings"] == ["careful"]
    assert told["timings_ms"] == {"load": 0.123}
    assert told == json.loads(end) | {"timings_ms": told["timings_ms"]}


@pytest.mark.parametrize(
    "write", [plan_lines, lambda *given, **more: plan_batches(given[0], (), given[1], **more)]
)
def test_a_list_of_positions_has_a_limit(write: Callable[..., Iterator[bytes]]) -> None:
    form = SelectionEncoding(SelectionForm.POSITIONS, 2)

    with pytest.raises(LimitExceededError):
        list(write(a_plan(planned(selections={0: BitMap([1, 2, 3])})), form, explain=False))


@pytest.mark.parametrize(
    ("data_type", "value", "arrow_type", "arrow_value"),
    [
        ("BOOLEAN", True, pa.bool_(), True),
        ("TINYINT", -1, pa.int8(), -1),
        ("SMALLINT", -1, pa.int16(), -1),
        ("INT", -1, pa.int32(), -1),
        ("BIGINT", (1 << 63) - 1, pa.int64(), (1 << 63) - 1),
        ("FLOAT", "-Infinity", pa.float32(), float("-inf")),
        ("DOUBLE", 0.1, pa.float64(), 0.1),
        ("DECIMAL(38, 2)", str(DIGITS), pa.decimal128(38, 2), DIGITS),
        ("CHAR(3)", "äöü", pa.string(), "äöü"),
        ("STRING", "", pa.string(), ""),
        ("BYTES", {"$hex": "00ff"}, pa.binary(), b"\x00\xff"),
        ("DATE", "1969-12-31", pa.date32(), date(1969, 12, 31)),
        ("TIME(3)", "12:30:00.250", pa.time32("ms"), time(12, 30, 0, 250_000)),
        ("TIMESTAMP(6)", MOMENT.isoformat(), pa.timestamp("us"), MOMENT),
        ("TIMESTAMP_LTZ(3)", "2025-08-01T00:00:00Z", pa.timestamp("us", "UTC"), MIDNIGHT),
        ("TIMESTAMP(9)", "2025-08-01T00:00:00.000000001", pa.string(), "2025-08-01T00:00:00.000000001"),
        ("TIMESTAMP(9)", "+37648-01-01T00:00:00", pa.string(), "+37648-01-01T00:00:00"),
        *((each, None, None, None) for each in ("INT", "STRING", "DECIMAL(4, 1)", "TIMESTAMP(9)")),
    ],
)
def test_partition_values_are_typed(
    data_type: str, value: Json, arrow_type: pa.DataType | None, arrow_value: object
) -> None:
    found_type, found = partition_of(data_type, value)

    assert found == arrow_value
    assert arrow_type is None or found_type == arrow_type


def test_a_table_without_partitions_has_null_for_them() -> None:
    table = pa.ipc.open_stream(b"".join(batches(a_plan(planned())))).read_all()

    assert table.schema.field("partition").type == pa.null()
