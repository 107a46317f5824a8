from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError, PaimonIndexError, UnsupportedFormatError
from app.options.table_options import MergeEngine, TableOptions
from app.table.schema.schema import BucketMode, TableSchema
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
