"""Literals as an Arrow stream mean what the same literals mean as JSON."""

from __future__ import annotations

import base64
import datetime as dt
import struct
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FilterError, LimitExceededError
from app.predicates.binding.binding import bind
from app.predicates.json_reader import read_lists
from app.predicates.unbound import DEFAULT_LIMITS, FilterLimits, Leaf
from app.types import DataField, parse_type
from app.types.session_zone import SessionZone, session_zone

FIELDS: Final = [
    DataField(number, f"c{number}", parse_type(text))
    for number, text in enumerate(
        [
            *("BOOLEAN", "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(6, 2)", "DECIMAL(38, 0)"),
            *("CHAR(3)", "VARCHAR(2)", "STRING", "BINARY(2)", "BYTES", "DATE", "TIME(3)"),
            *("TIMESTAMP(3)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(9)", "ARRAY<INT>"),
        ]
    )
]
ZONES: Final = [None, session_zone("UTC"), session_zone("America/New_York"), session_zone("+05:30")]


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits), (1 << bits) - 1) | st.integers(-100, 100)


def column(values: st.SearchStrategy[Any], data_type: pa.DataType) -> st.SearchStrategy[pa.Array]:
    return st.lists(st.none() | values, max_size=6).map(lambda listed: pa.array(listed, data_type))


def cast(values: pa.Array, to: pa.DataType) -> pa.Array:
    return values.cast(to)


TEXTS: Final = st.text("ab '\\éß𐐷", max_size=4) | st.sampled_from(
    ["5", "NaN", "true", "2025-08-01", "2025-03-09T02:30:00", "2025-03-09 02:30:00+01:00", "0a", "1.50"]
)
COLUMNS: Final = st.one_of(
    column(integers(7), pa.int8()),
    column(integers(31), pa.int32()),
    column(integers(63), pa.int64()),
    column(st.integers(0, (1 << 64) - 1), pa.uint64()),
    column(st.floats(width=32), pa.float32()),
    column(st.floats() | st.integers(-5, 5).map(float), pa.float64()),
    column(st.decimals(-9999, 9999, places=2), pa.decimal128(8, 2)),
    column(st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal), pa.decimal128(38, 0)),
    column(TEXTS, pa.string()),
    column(TEXTS, pa.large_string()),
    column(st.binary(max_size=3), pa.binary()),
    column(st.binary(min_size=2, max_size=2), pa.binary(2)),
    column(st.booleans(), pa.bool_()),
    column(st.dates(), pa.date32()),
    column(integers(31), pa.int32()).map(lambda days: days.cast(pa.date32())),
    column(st.times(), pa.time64("us")),
    column(st.times().map(lambda time: time.replace(microsecond=0)), pa.time32("s")),
    *(
        column(integers(63), pa.int64()).map(partial(cast, to=pa.timestamp(unit, zone)))
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "America/New_York")
    ),
    column(st.datetimes(dt.datetime(2025, 3, 8), dt.datetime(2025, 3, 10)), pa.timestamp("us")),  # noqa: DTZ001 - clocks
)


def stream(values: pa.Array, batches: int = 1, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    schema = pa.schema([("values", values.type)])
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for number in range(batches):
            start, stop = (len(values) * each // batches for each in (number, number + 1))
            writer.write_batch(pa.record_batch([values[start:stop]], schema))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def arrow(content: bytes) -> dict[str, str]:
    return {"$arrow": base64.b64encode(content).decode()}


def literals_of(written: object, field: DataField, limits: FilterLimits = DEFAULT_LIMITS) -> list[object]:
    """The literals that a list for a column is read as."""
    (leaf,) = read_lists({field.name: written}, limits).children
    assert isinstance(leaf, Leaf)
    return [literal.value for literal in leaf.literals]


def outcome(written: object, field: DataField, zone: SessionZone | None) -> object:
    try:
        return bind(read_lists({field.name: written}), [field], zone=zone)
    except FilterError as error:
        return str(error)


@given(COLUMNS, st.integers(1, 3), st.sampled_from(FIELDS), st.sampled_from(ZONES))
def test_a_stream_means_what_its_literals_mean_one_by_one(
    values: pa.Array, batches: int, field: DataField, zone: SessionZone | None
) -> None:
    content = arrow(stream(values, batches))
    literals = literals_of(content, field)

    assert outcome(content, field, zone) == outcome(literals, field, zone)
    assert [each is None for each in literals] == [not each.is_valid for each in values]


@pytest.mark.parametrize(
    ("values", "literals"),
    [
        (pa.array([1, None, -5], pa.int8()), [1, None, -5]),
        (pa.array([1.5, float("nan"), float("-inf"), -0.0]), [1.5, "NaN", "-Infinity", "-0.0"]),
        (pa.array([Decimal("1.20")], pa.decimal128(5, 2)), ["1.20"]),
        (pa.array(["a", ""]), ["a", ""]),
        (pa.array([b"\x01\xff"]), [{"$hex": "01ff"}]),
        (pa.array([True, None]), [True, None]),
        (pa.array([dt.date(2025, 8, 1)]), ["2025-08-01"]),
        (pa.array([dt.time(12, 30, 15, 250_000)]), ["12:30:15.25"]),
        (pa.array([1_500], pa.timestamp("ms")), ["1970-01-01T00:00:01.5"]),
        (pa.array([1], pa.timestamp("ns", "America/New_York")), ["1970-01-01T00:00:00.000000001Z"]),
    ],
)
def test_each_type_has_the_form_of_answers(values: pa.Array, literals: list[object]) -> None:
    assert literals_of(arrow(stream(values)), FIELDS[0]) == literals


NUMBERS: Final = pa.array(range(1_000))


def texts(content: bytes, *ends: int) -> pa.Array:
    """Strings that start at 0 and end at ``ends``, whatever these and the bytes are."""
    offsets = pa.py_buffer(struct.pack(f"<{len(ends) + 1}i", 0, *ends))
    return pa.StringArray.from_buffers(len(ends), offsets, pa.py_buffer(content))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (stream(NUMBERS, compression="zstd"), "compressed"),
        (stream(NUMBERS, compression="lz4"), "compressed"),
        (stream(pa.array(["a"]).dictionary_encode()), "dictionary"),
        (stream(pa.nulls(3)), "type null"),
        (stream(pa.array([[1]])), "type list"),
        (stream(pa.array([1.5], pa.float16())), "halffloat"),
        (stream(NUMBERS)[:-700], "no Arrow IPC stream"),
        (stream(texts(b"abc", 3, 1)), "no Arrow IPC stream"),
        (stream(texts(b"a\xff", 1, 2)), "no Arrow IPC stream"),
        (b"", "no Arrow IPC stream"),
        (b"\xff\xff\xff\xff\xf0\xff\xff\x7f", "no Arrow IPC stream"),
    ],
)
def test_what_has_no_bound_or_no_meaning_is_refused(content: bytes, complaint: str) -> None:
    with pytest.raises(FilterError, match=complaint):
        literals_of(arrow(content), FIELDS[2])


@pytest.mark.parametrize(
    "literals", [{"$arrow": "!"}, {"$arrow": 5}, {"$arrow": "", "other": 1}, {"arrow": ""}, "x"]
)
def test_other_forms_are_refused(literals: object) -> None:
    with pytest.raises(FilterError):
        literals_of(literals, FIELDS[2])


def test_two_columns_are_refused() -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"a": [1], "b": [2]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)

    with pytest.raises(FilterError, match="one column, not 2"):
        literals_of(arrow(sink.getvalue().to_pybytes()), FIELDS[2])


def test_literals_are_counted_before_they_are_looked_at() -> None:
    # A value of no bytes costs nothing to claim.
    empty = pa.FixedSizeBinaryArray.from_buffers(pa.binary(0), (1 << 31) - 1, [None, pa.py_buffer(b"")])

    for values in (empty, NUMBERS):
        with pytest.raises(LimitExceededError):
            literals_of(arrow(stream(values)), FIELDS[12], FilterLimits(literals=999))


@given(st.data())
def test_damaged_streams_are_refused_or_read(data: st.DataObject) -> None:
    content = bytearray(stream(data.draw(COLUMNS)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 4))
        struct.pack_into("<I", content, at, data.draw(st.integers(0, (1 << 32) - 1)))

    outcome(arrow(bytes(content)), FIELDS[10], None)
