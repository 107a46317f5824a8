"""Avro files as they are written here: another library reads what was to be written."""

import datetime as dt
import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import RequestError
from app.table.avro.writing import write_avro
from app.table.records.columns import ArrayOf, Nullable, RecordOf

INTS, LONGS = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FIELDS = RecordOf(
    {
        "INT": "int",
        "LONG": "long",
        "TEXT": "string",
        "BYTES": "bytes",
        "LONG_OR_NULL": Nullable("long"),
        "MOMENT": Nullable("timestamp-millis"),
        "NAMES": ArrayOf("string"),
        "NAMES_OR_NULL": Nullable(ArrayOf("string")),
        "INNER": RecordOf({"COUNTS": Nullable(ArrayOf(Nullable("long")))}),
    }
)
RECORDS = st.fixed_dictionaries(
    {
        "INT": INTS,
        "LONG": LONGS,
        "TEXT": st.text(),
        "BYTES": st.binary(),
        "LONG_OR_NULL": st.none() | LONGS,
        "MOMENT": st.none() | st.integers(0, 1 << 42),
        "NAMES": st.lists(st.text(max_size=3)),
        "NAMES_OR_NULL": st.none() | st.lists(st.text(max_size=3)),
        "INNER": st.fixed_dictionaries({"COUNTS": st.none() | st.lists(st.none() | LONGS)}),
    }
)


def read(data: bytes) -> list[Any]:
    records = [dict(each) for each in fastavro.reader(io.BytesIO(data)) if isinstance(each, dict)]
    for each in records:
        if (moment := each["MOMENT"]) is not None:
            each["MOMENT"] = (moment - EPOCH) // dt.timedelta(milliseconds=1)
    return records


@given(st.lists(RECORDS, max_size=5), st.sampled_from(["zstd", "deflate", "snappy", "null"]))
def test_what_is_written_is_read(records: list[dict[str, Any]], compression: str) -> None:
    assert read(write_avro(records, FIELDS, compression)) == records


@pytest.mark.parametrize(
    ("expected", "value", "message"),
    [
        ("int", 1 << 31, r"2147483648 does not fit record_FIELD of type int"),
        ("long", -(1 << 63) - 1, r"does not fit record_FIELD of type long"),
        (Nullable(ArrayOf("int")), [1, -(1 << 31) - 1], r"-2147483649 does not fit record_FIELD of type int"),
        ("string", "\ud800", "a text does not fit UTF-8"),
    ],
)
def test_what_does_not_fit_is_refused(expected: Any, value: object, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        write_avro([{"FIELD": value}], RecordOf({"FIELD": expected}), "null")
