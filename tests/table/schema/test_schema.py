import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError, PaimonIndexError, UnsupportedFormatError
from app.options.table_options import MergeEngine, TableOptions
from app.table import BucketMode, TableSchema
from app.table.schema.partition import escape, partition_path, partition_values
from app.types import DataField, parse_json, parse_type
from app.types.binary_row.row import serialize_row
from tests.examples import examples

DOCUMENT: dict[str, Any] = {
    "version": 3,
    "id": 2,
    "fields": [
        {"id": 0, "name": "id", "type": "BIGINT NOT NULL"},
        {"id": 4, "name": "dt", "type": "STRING", "description": "day"},
        {"id": 2, "name": "attributes", "type": {"type": "MAP", "key": "STRING", "value": "INT"}},
        {"id": 3, "name": "odd[name]", "type": "STRING"},
    ],
    "highestFieldId": 4,
    "partitionKeys": ["dt"],
    "primaryKeys": ["dt", "id"],
    "options": {"bucket": "4"},
    "comment": "a table",
    "timeMillis": 1700000000000,
    "unknown": [1, 2],
}


def parse(**changes: Any) -> TableSchema:
    document = {**DOCUMENT, **changes}
    return TableSchema.read(json.dumps({k: v for k, v in document.items() if v is not ...}).encode())


def test_members() -> None:
    schema = parse()
    assert schema.id == 2
    assert schema.by_name["dt"].id == 4
    assert schema.by_id[4].description == "day"
    assert not schema.by_name["id"].type.nullable
    assert [field.name for field in schema.partition_fields] == ["dt"]
    assert [field.name for field in schema.trimmed_primary_keys] == ["id"]
    assert [field.name for field in schema.bucket_key] == ["id"]
    assert schema.comment == "a table"
    assert schema.time_millis == 1700000000000


def test_contents_tell_schemas_apart() -> None:
    assert parse().digest == parse().digest
    assert parse().digest != parse(timeMillis=1700000000001).digest


@pytest.mark.parametrize(
    ("version", "bucket", "file_format"), [(..., 1, "orc"), (1, 1, "orc"), (2, -1, "orc"), (3, -1, None)]
)
def test_defaults_of_older_versions(version: Any, bucket: int, file_format: str | None) -> None:
    schema = parse(version=version, options={})
    assert schema.options.bucket == bucket
    assert schema.options.values.get("file.format") == file_format


@pytest.mark.parametrize(
    ("bucket", "primary_keys", "partition_keys", "mode"),
    [
        ("4", ["id"], [], BucketMode.HASH_FIXED),
        ("4", [], [], BucketMode.HASH_FIXED),
        ("-1", [], ["dt"], BucketMode.BUCKET_UNAWARE),
        ("-1", ["id"], [], BucketMode.HASH_DYNAMIC),
        ("-1", ["dt", "id"], ["dt"], BucketMode.HASH_DYNAMIC),
        ("-1", ["id"], ["dt"], BucketMode.CROSS_PARTITION),
        ("-2", ["id"], [], BucketMode.POSTPONE_MODE),
    ],
)
def test_bucket_modes(
    bucket: str, primary_keys: list[str], partition_keys: list[str], mode: BucketMode
) -> None:
    schema = parse(options={"bucket": bucket}, primaryKeys=primary_keys, partitionKeys=partition_keys)
    assert schema.bucket_mode is mode


def test_an_explicit_bucket_key() -> None:
    schema = parse(options={"bucket": "4", "bucket-key": "id, odd[name]"}, primaryKeys=[])
    assert [field.name for field in schema.bucket_key] == ["id", "odd[name]"]
    assert parse(options={"bucket": "4"}, primaryKeys=[]).bucket_key == ()


@pytest.mark.parametrize(
    ("options", "primary_keys", "engine"),
    [
        ({}, [], None),
        ({}, ["id"], MergeEngine.DEDUPLICATE),
        ({"merge-engine": "first-row"}, ["id"], MergeEngine.FIRST_ROW),
    ],
)
def test_merge_engines(options: dict[str, str], primary_keys: list[str], engine: MergeEngine | None) -> None:
    assert parse(options=options, primaryKeys=primary_keys).merge_engine is engine


def test_an_unknown_merge_engine_is_not_guessed() -> None:
    with pytest.raises(UnsupportedFormatError, match="'newest'"):
        _ = parse(options={"merge-engine": "newest"}).merge_engine


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"id": ...}, "'id' must be an integer, found nothing"),
        ({"id": "2"}, "'id' must be an integer"),
        ({"id": True}, "'id' must be an integer"),
        ({"id": 1 << 63}, "64 bits"),
        ({"fields": {}}, "'fields' must be a list"),
        ({"fields": [7]}, "fields\\[0\\] to be a JSON object"),
        ({"fields": [{"id": 0, "name": "x"}]}, "column 'x' must have a type"),
        ({"fields": [{"id": 0, "name": "x", "type": "DECIMAL(99)"}]}, "column 'x'"),
        ({"partitionKeys": ["nope"]}, "'nope'"),
        ({"primaryKeys": [1]}, "must hold strings"),
        ({"options": {"bucket": 4}}, "must hold strings"),
        ({"options": {"bucket-key": "nope"}}, "'nope'"),
        ({"fields": [*DOCUMENT["fields"], {"id": 0, "name": "again", "type": "INT"}]}, "one name or id"),
        ({"fields": [*DOCUMENT["fields"], {"id": 9, "name": "id", "type": "INT"}]}, "one name or id"),
    ],
)
def test_what_is_no_schema(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CorruptMetadataError, match=complaint):
        parse(**changes)


@pytest.mark.parametrize("data", [b"", b"[]", b"nonsense", b"\\xff", b"[" * 100_000])
def test_what_is_no_json_object(data: bytes) -> None:
    with pytest.raises(CorruptMetadataError):
        TableSchema.read(data)


@examples(300)
@given(st.data())
def test_damage_raises_nothing_but_our_errors(data: st.DataObject) -> None:
    damaged = bytearray(json.dumps(DOCUMENT).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PaimonIndexError):
        TableSchema.read(bytes(damaged))


def test_option_defaults() -> None:
    options = TableOptions({})
    assert options.bucket == -1
    assert options.bucket_key == ()
    assert options.bucket_function == "default"
    assert not options.deletion_vectors
    assert options.file_index_read
    assert not options.data_evolution
    assert options.default_partition == "__DEFAULT_PARTITION__"
    assert options.legacy_partition_names
    assert options.data_directory is None
    assert not options.index_files_beside_data
    assert options.dynamic_buckets.target_rows == 2_000_000
    assert options.dynamic_buckets.max_buckets == -1


@pytest.mark.parametrize(
    ("name", "value"),
    [("bucket", "four"), ("bucket", "9" * 30), ("bucket", ""), ("deletion-vectors.enabled", "yes")],
)
def test_options_without_sense_are_not_guessed(name: str, value: str) -> None:
    options = TableOptions({name: value})
    with pytest.raises(CorruptMetadataError, match=name):
        _ = (options.bucket, options.deletion_vectors)


class TestIndexOptions:
    SCHEMA = parse(
        options={
            "file-index.bloom-filter.columns": "id, attributes[k1],attributes[k2]",
            "file-index.bloom-filter.id.fpp": "0.1",
            "file-index.bloom-filter.attributes.items": "200",
            "file-index.bitmap.columns": "id,,",
            "file-index.read.enabled": "true",
            "file-index.in-manifest-threshold": "1 kb",
        }
    )

    def test_declared_indexes(self) -> None:
        found = [(each.column, each.kind, dict(each.parameters)) for each in self.SCHEMA.options.file_indexes]
        assert found == [
            ("attributes[k1]", "bloom-filter", {"items": "200"}),
            ("attributes[k2]", "bloom-filter", {"items": "200"}),
            ("id", "bitmap", {}),
            ("id", "bloom-filter", {"fpp": "0.1"}),
        ]


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
