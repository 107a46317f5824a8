"""What files tell about types, and what they do not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from app.building.column_types import ColumnTypes
from app.building.data_files import DataFile, DataFormat
from app.errors import RequestError
from app.types import TypeRoot, parse_type


def _types(found: pa.DataType, data_format: DataFormat, **declared: str) -> ColumnTypes:
    schema = pa.schema([("c", found), ("other", pa.int64())])
    file = DataFile(Path("data"), data_format, 0, schema, 0, lambda _: iter(()))
    return ColumnTypes(file, {name: parse_type(text) for name, text in declared.items()})


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (pa.bool_(), "BOOLEAN"),
        (pa.int8(), "TINYINT"),
        (pa.int16(), "SMALLINT"),
        (pa.int32(), "INT"),
        (pa.int64(), "BIGINT"),
        (pa.float32(), "FLOAT"),
        (pa.float64(), "DOUBLE"),
        (pa.decimal128(9, 2), "DECIMAL(9, 2)"),
        (pa.decimal128(38, 10), "DECIMAL(38, 10)"),
        (pa.string(), "STRING"),
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
        (pa.binary(), "BYTES"),
        (pa.binary_view(), "BYTES"),
        (pa.binary(4), "BINARY(4)"),
        (pa.date32(), "DATE"),
        (pa.time32("ms"), "TIME(3)"),
        (pa.time64("us"), "TIME(6)"),
        (pa.timestamp("s"), "TIMESTAMP(0)"),
        (pa.timestamp("ms"), "TIMESTAMP(3)"),
        (pa.timestamp("us", "UTC"), "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (pa.timestamp("ns"), "TIMESTAMP(9)"),
        (pa.map_(pa.string(), pa.int16()), "MAP<STRING, SMALLINT>"),
    ],
)
def test_types_by_arrow_type(found: pa.DataType, text: str) -> None:
    assert _types(found, DataFormat.PARQUET)["c"].same_kind(parse_type(text))


@pytest.mark.parametrize("found", [pa.uint32(), pa.list_(pa.int32()), pa.struct([("x", pa.int32())])])
def test_other_types_are_none_that_an_index_takes(found: pa.DataType) -> None:
    assert _types(found, DataFormat.PARQUET)["c"].root is TypeRoot.OTHER


@pytest.mark.parametrize(
    ("data_format", "found", "what"),
    [
        (DataFormat.ORC, pa.timestamp("ns"), "precision of a timestamp: .* c=TIMESTAMP"),
        (DataFormat.ORC, pa.map_(pa.string(), pa.timestamp("ns", "UTC")), "precision of a timestamp"),
        (DataFormat.AVRO, pa.int32(), "TINYINT and SMALLINT from INT: .* c=INT"),
    ],
)
def test_what_a_file_does_not_tell_must_be_declared(
    data_format: DataFormat, found: pa.DataType, what: str
) -> None:
    with pytest.raises(RequestError, match=what):
        _types(found, data_format)["c"]

    declared = _types(found, data_format, c="TINYINT", nowhere="INT")
    assert declared["c"] == parse_type("TINYINT")
    assert "nowhere" not in declared
    assert list(declared) == ["c", "other"]
