"""The pieces of a streamed plan: what a piece holds, and that no more is encoded than what was asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa
import pytest
from pyroaring import BitMap

from app.api.encoding import Form
from app.api.plan_batches import plan_batches
from app.api.plan_lines import plan_lines
from app.errors import LimitExceededError
from app.planning.answers import Deletion, ExplainStep, FilePlan, KeepReason, Plan, PlanSummary, SkipStep
from app.planning.requests import SelectionForm
from app.types import DataField, Json, parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MANY = 25_000
DIGITS = Decimal("-123456789012345678901234567890.12")
MOMENT = datetime(1969, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001 - a wall clock
MIDNIGHT = datetime(2025, 8, 1, tzinfo=UTC)
BITMAPS = Form(SelectionForm.BITMAP, 1_000)


class LazyFiles(Sequence[FilePlan]):
    """Files that are made when they are asked for; ``made`` counts them."""

    def __init__(self, total: int, **members: Any) -> None:
        self._total = total
        self._members = members
        self.made = 0

    def __len__(self) -> int:
        return self._total

    @overload
    def __getitem__(self, index: int) -> FilePlan: ...
    @overload
    def __getitem__(self, index: slice) -> list[FilePlan]: ...
    def __getitem__(self, index: int | slice) -> FilePlan | list[FilePlan]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._total))]
        if index >= self._total:
            raise IndexError(index)
        self.made += 1
        return a_file(file_name=f"data-{index}.parquet", **self._members)


def a_file(**members: Any) -> FilePlan:
    """A kept file."""
    file: dict[str, Any] = {
        "path": "demo.db/events/bucket-0/data-0.parquet",
        "file_name": "data-0.parquet",
        "format": "parquet",
        "file_size": 1 << 40,
        "row_count": 1_000,
        "schema_id": 0,
        "level": 0,
        "partition": {},
        "bucket": 0,
        "total_buckets": -1,
        "min_sequence_number": 1,
        "max_sequence_number": 2,
        "first_row_id": None,
        "raw_convertible": True,
        "merge_group": None,
        "selected_rows": 1_000,
        "selection": None,
        "residual": False,
        "deletion": None,
        "reason": KeepReason.MATCHED,
    }
    return FilePlan(**(file | members))


def a_plan(files: Sequence[FilePlan], skipped: Sequence[FilePlan] = ()) -> Plan:
    summary = PlanSummary(
        files_total=len(files) + len(skipped),
        files_kept=len(files),
        files_skipped=len(skipped),
        files_invisible=0,
        skipped_by={SkipStep.STATISTICS: len(skipped)},
        rows_total=1,
        rows_selected=1,
        bytes_total=1,
        bytes_kept=1,
    )
    warnings, unknown = ("careful",), ("data-x.parquet",)
    timings = {"load": 0.12345}
    return Plan(7, 3, files, skipped, summary, warnings, unknown, timings, 1_000, may_be_remembered=True)


def lines(plan: Plan) -> Iterator[bytes]:
    return plan_lines(plan, BITMAPS, explain=False)


def batches(plan: Plan) -> Iterator[bytes]:
    return plan_batches(plan, (), BITMAPS, explain=False)


def partition_of(data_type: str, value: Json) -> tuple[pa.DataType, object]:
    """The Arrow type and value of a partition column."""
    field = DataField(0, "part", parse_type(data_type))
    plan = a_plan([a_file(partition={"part": value})])
    table = pa.ipc.open_stream(b"".join(plan_batches(plan, [field], BITMAPS, explain=False))).read_all()
    return table.schema.field("partition").type.field("part").type, table["partition"][0].as_py()["part"]


@pytest.mark.parametrize("pieces", [lines, batches])
def test_only_the_files_of_a_piece_are_made_for_it(pieces: Callable[[Plan], Iterator[bytes]]) -> None:
    files = LazyFiles(MANY)
    stream = pieces(a_plan(files))

    made = [files.made for _ in islice(stream, 2)]

    assert 0 < made[0] <= 10_000
    assert made[0] < made[1] <= 20_000
    assert len(list(stream)) > 0
    assert files.made == MANY


@pytest.mark.parametrize("pieces", [lines, batches])
def test_one_piece_after_another_is_the_whole_plan(pieces: Callable[[Plan], Iterator[bytes]]) -> None:
    lazy = b"".join(pieces(a_plan(LazyFiles(MANY))))
    listed = b"".join(pieces(a_plan(LazyFiles(MANY)[:])))

    assert len(lazy) == pytest.approx(len(listed), abs=10)


def test_a_batch_has_up_to_ten_thousand_files() -> None:
    with pa.ipc.open_stream(b"".join(batches(a_plan(LazyFiles(MANY))))) as reader:
        sizes = [len(batch) for batch in reader]

    assert sizes == [10_000, 10_000, 5_000]


def test_a_batch_of_large_selections_ends_early() -> None:
    rows = BitMap(range(0, 1 << 21, 2))
    files = LazyFiles(100, row_count=1 << 21, selection=rows)

    with pa.ipc.open_stream(b"".join(batches(a_plan(files)))) as reader:
        found = list(reader)

    assert sum(len(batch) for batch in found) == 100
    assert max(batch.nbytes for batch in found) < 2 * (1 << 23)
    assert BitMap.deserialize(found[-1]["selection"][-1].as_py()) == rows


def test_a_stream_that_is_cut_has_no_end() -> None:
    *all_but_last, last = batches(a_plan(LazyFiles(MANY)))

    assert last.endswith(b"\xff\xff\xff\xff\0\0\0\0")
    with pytest.raises(OSError, match="Expected to be able to read"):
        pa.ipc.open_stream(b"".join(all_but_last) + last[:-100]).read_all()


def test_a_file_in_every_detail() -> None:
    deletion = Deletion("demo.db/events/index/index-1", 1, 32, None)
    kept = a_file(deletion=deletion, selection=BitMap([1, 5]), selected_rows=2, explain=())
    step = ExplainStep("statistics", "skip", "score", "min_max", "score > 60", None)
    skipped = a_file(reason=SkipStep.STATISTICS, merge_group=1 << 40, explain=(step,))
    plan = a_plan([kept], [skipped])

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
    form = Form(SelectionForm.POSITIONS, 2)

    with pytest.raises(LimitExceededError):
        list(write(a_plan([a_file(selection=BitMap([1, 2, 3]))]), form, explain=False))


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
    table = pa.ipc.open_stream(b"".join(batches(a_plan([a_file()])))).read_all()

    assert table.schema.field("partition").type == pa.null()
