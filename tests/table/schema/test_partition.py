from __future__ import annotations

from typing import Any

import pytest

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.schema.options import TableOptions
from app.table.schema.partition import escape, partition_path, partition_values
from app.table.schema.schema import TableSchema
from app.types import DataField, parse_json, parse_type
from app.types.binary_row import serialize_row

SQL_NAMES = {"partition.legacy-name": "false"}


def schema_of(*types: str, **options: str) -> TableSchema:
    fields = tuple(DataField(at, f"p{at}", parse_type(text)) for at, text in enumerate(types))
    names = tuple(field.name for field in fields)
    return TableSchema(0, fields, names, options=TableOptions(options))


def path_of(value: Any, data_type: str, options: dict[str, str]) -> str:
    schema = schema_of(data_type, **options)
    types = [field.type for field in schema.fields]
    row = serialize_row([parse_json(value, types[0])], types)
    return partition_path(row, schema).removeprefix("p0=")


@pytest.mark.parametrize(
    ("data_type", "value", "legacy", "sql"),
    [
        ("STRING", "a b+c&é", "a b+c&é", "a b+c&é"),
        ("STRING", "20%2F24", "20%252F24", "20%252F24"),
        ("STRING", "", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("STRING", " \t\u3000", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("STRING", "\u00a0", "\u00a0", "\u00a0"),
        ("STRING", None, "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        ("BOOLEAN", True, "true", "true"),
        ("INT", -5, "-5", "-5"),
        ("DECIMAL(10, 2)", "-1.50", "-1.50", "-1.50"),
        ("DATE", "2024-01-01", "19723", "2024-01-01"),
        ("DATE", {"$days": -800000}, "-800000", "-0221-09-04"),
        ("TIME(3)", "00:00:01", "1000", "00%3A00%3A01.0"),
        ("TIME(0)", "00:00:01", "1000", "00%3A00%3A01"),
        ("TIME(3)", "23:59:59.120", "86399120", "23%3A59%3A59.12"),
        (
            "TIMESTAMP(3)",
            "2023-11-14 22:13:20.123",
            "2023-11-14T22%3A13%3A20.123",
            "2023-11-14 22%3A13%3A20.123",
        ),
        (
            "TIMESTAMP(6)",
            "2023-11-14 22:13:20.1",
            "2023-11-14T22%3A13%3A20.100",
            "2023-11-14 22%3A13%3A20.100000",
        ),
        (
            "TIMESTAMP(9)",
            "2023-11-14 22:13:20.000001",
            "2023-11-14T22%3A13%3A20.000001",
            "2023-11-14 22%3A13%3A20.000001000",
        ),
        ("TIMESTAMP(0)", "2023-11-14 22:13:00", "2023-11-14T22%3A13", "2023-11-14 22%3A13%3A00"),
        ("TIMESTAMP(0)", "2023-11-14 22:13:07", "2023-11-14T22%3A13%3A07", "2023-11-14 22%3A13%3A07"),
        ("TIMESTAMP(3)", {"$ms": 253402300800000}, "+10000-01-01T00%3A00", "10000-01-01 00%3A00%3A00.000"),
        ("FLOAT", 1.3, "1.3", "1.3"),
        ("DOUBLE", 1.0, "1.0", "1.0"),
        ("DOUBLE", 100.0, "100.0", "100.0"),
        ("DOUBLE", 0.001, "0.001", "0.001"),
        ("DOUBLE", 0.00012, "1.2E-4", "1.2E-4"),
        ("DOUBLE", 9999999.0, "9999999.0", "9999999.0"),
        ("DOUBLE", 1e7, "1.0E7", "1.0E7"),
        ("DOUBLE", -1.25e300, "-1.25E300", "-1.25E300"),
        ("DOUBLE", "NaN", "NaN", "NaN"),
        ("DOUBLE", "-Infinity", "-Infinity", "-Infinity"),
        ("DOUBLE", "-0.0", "-0.0", "-0.0"),
        ("FLOAT", 16777216.0, "1.6777216E7", "1.6777216E7"),
    ],
)
def test_directories(data_type: str, value: Any, legacy: str, sql: str) -> None:
    assert path_of(value, data_type, {}) == legacy
    assert path_of(value, data_type, SQL_NAMES) == sql


def test_characters_that_are_escaped() -> None:
    escaped = [chr(code) for code in range(0x100) if escape(chr(code)) != chr(code)]
    assert escaped == [*map(chr, range(1, 0x20)), *"\"#%'*/:=?[\\]^{}", "\x7f"]
    assert escape("\x01") == "%01"
    assert escape("\x7f") == "%7F"


def test_several_columns() -> None:
    schema = schema_of("STRING", "INT", **{"partition.default-name": "none"})
    row = serialize_row([b"x=y", None], [field.type for field in schema.fields])
    assert partition_path(row, schema) == "p0=x%3Dy/p1=none"
    assert partition_values(row, schema) == (b"x=y", None)


def test_a_table_without_partitions() -> None:
    assert partition_path(serialize_row([], []), schema_of()) == ""


def test_a_row_of_another_table() -> None:
    with pytest.raises(CorruptMetadataError):
        partition_path(serialize_row([], []), schema_of("INT"))


def test_binary_partitions_have_no_directory() -> None:
    with pytest.raises(UnsupportedFormatError):
        path_of({"$hex": "00ff"}, "BYTES", {})
