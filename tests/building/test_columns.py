"""The values under one key of a map column."""

from pathlib import Path

import pyarrow as pa
import pytest

from app.building import ColumnTypes, DataFile
from app.building.columns import DataFormat, values_under
from app.errors import IndexWriteError, RequestError
from app.types import TypeRoot, parse_type

MAPS = pa.array(
    [[("a", 1), ("b", 2)], None, [], [("b", None)], [("a", None), ("c", 3)], [("c", 4), ("a", 5)]],
    pa.map_(pa.string(), pa.int32()),
)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("a", [1, None, None, None, None, 5]),
        ("b", [2, None, None, None, None, None]),
        ("c", [None, None, None, None, 3, 4]),
        ("nowhere", [None] * 6),
    ],
)
def test_values_by_row(key: str, values: list[int | None]) -> None:
    assert values_under(MAPS, key, column="m", first_row=0).to_pylist() == values
    for start in range(6):
        for stop in range(start, 7):
            part = MAPS.slice(start, stop - start)
            assert values_under(part, key, column="m", first_row=start).to_pylist() == values[start:stop]


def test_entries_of_a_null_map_belong_to_no_row() -> None:
    offsets = pa.array([0, 1, 2], pa.int32())
    maps = pa.MapArray.from_arrays(
        offsets, pa.array(["a", "a"]), pa.array([1, 2]), mask=pa.array([False, True])
    )

    assert values_under(maps, "a", column="m", first_row=0).to_pylist() == [1, None]


def test_a_key_twice_is_refused() -> None:
    maps = pa.array([[("a", 1)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32()))

    with pytest.raises(IndexWriteError, match=r"column 'm\[a\]', row 11"):
        values_under(maps, "a", column="m", first_row=10)
    assert values_under(maps, "b", column="m", first_row=10).null_count == 2


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
