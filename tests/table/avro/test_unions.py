"""Metadata of releases up to 0.8.2, in which every record is a union with null."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError
from app.table.avro.container import read_columns
from app.table.avro.schema import reading_schema
from app.table.manifests.index_manifest import IndexManifest
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import ManifestEntry
from app.table.manifests.manifest_list import ManifestList
from app.table.records.columns import ArrayOf, Nullable, RecordOf
from benchmarks.avro_schemas import INDEX_MANIFEST, MANIFEST, MANIFEST_LIST
from tests.examples import examples
from tests.table.manifests.test_manifest import ENTRIES
from tests.tables import avro, entry, record


def with_unions(schema: Any, *, null_first: bool = True) -> Any:
    """Return the schema with each of its records, the outermost too, in a union with null."""
    match schema:
        case {"type": "record", "fields": fields}:
            record = {**schema, "fields": [_field(each, null_first=null_first) for each in fields]}
            return ["null", record] if null_first else [record, "null"]
        case {"type": "array", "items": items}:
            return {"type": "array", "items": with_unions(items, null_first=null_first)}
        case ["null", {"type": "record"} as inner]:
            return with_unions(inner)
        case ["null", inner]:
            return ["null", with_unions(inner, null_first=null_first)]
        case _:
            return schema


def _field(field: dict[str, Any], *, null_first: bool) -> dict[str, Any]:
    kept = {name: value for name, value in field.items() if name != "default"}
    return {**kept, "type": with_unions(field["type"], null_first=null_first)}


def without_fields(schema: Any, names: set[str]) -> Any:
    """Return the schema before fields of these names came into any of its records."""
    match schema:
        case {"type": "record", "fields": fields}:
            kept = [each for each in fields if each["name"] not in names]
            return {
                **schema,
                "fields": [{**each, "type": without_fields(each["type"], names)} for each in kept],
            }
        case {"type": "array", "items": items}:
            return {"type": "array", "items": without_fields(items, names)}
        case [*branches]:
            return [without_fields(each, names) for each in branches]
        case _:
            return schema


AFTER_04 = {
    *("_DELETE_ROW_COUNT", "_EMBEDDED_FILE_INDEX", "_FILE_SOURCE", "_VALUE_STATS_COLS", "_EXTERNAL_PATH"),
    *("_FIRST_ROW_ID", "_WRITE_COLS", "_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL"),
    *("_MIN_ROW_ID", "_MAX_ROW_ID", "_DELETIONS_VECTORS_RANGES", "_CARDINALITY"),
}


def entries_of(data: bytes) -> list[ManifestEntry]:
    found = Manifest.read(data)
    return [found.entry(row) for row in range(len(found.kinds))]


@examples(50)
@given(st.lists(ENTRIES, max_size=12), st.booleans())
def test_a_manifest_reads_the_same_with_and_without_unions(
    entries: list[ManifestEntry], null_first: bool
) -> None:
    records = list(map(record, entries))

    found = entries_of(avro(records, with_unions(MANIFEST, null_first=null_first)))

    assert found == entries


def test_fields_that_came_later_are_null() -> None:
    written = entry(delete_row_count=3, embedded_index=b"i", write_columns=("a",), first_row_id=4)
    schema = with_unions(without_fields(MANIFEST, AFTER_04))

    assert entries_of(avro([record(written)], schema)) == [entry()]


def test_large_embedded_indexes() -> None:
    indexes = [bytes([number]) * 3000 for number in range(20)]
    written = [entry(file_name=f"file-{number}", embedded_index=each) for number, each in enumerate(indexes)]

    found = Manifest.read(avro(map(record, written), with_unions(MANIFEST)))

    assert list(found.embedded_indexes) == indexes


def test_manifest_lists_and_index_manifests() -> None:
    statistics = {"_MIN_VALUES": b"", "_MAX_VALUES": b"", "_NULL_COUNTS": None}
    lists = [
        {"_VERSION": 2, "_FILE_NAME": f"manifest-{number}", "_FILE_SIZE": number, "_NUM_ADDED_FILES": 1}
        | {"_NUM_DELETED_FILES": 0, "_PARTITION_STATS": statistics, "_SCHEMA_ID": 0}
        for number in range(3)
    ]
    old_list = avro(lists, with_unions(without_fields(MANIFEST_LIST, AFTER_04)))
    ranges = [{"f0": "data-1", "f1": 1, "f2": 22}, {"f0": "data-2", "f1": 23, "f2": 22}]
    indexes = [
        {"_VERSION": 1, "_KIND": 0, "_PARTITION": b"p", "_BUCKET": 3, "_INDEX_TYPE": kind, "_FILE_NAME": "i"}
        | {"_FILE_SIZE": 9, "_ROW_COUNT": 2, "_DELETIONS_VECTORS_RANGES": listed}
        for kind, listed in (("HASH", None), ("DELETION_VECTORS", ranges))
    ]
    index_schema = without_fields(INDEX_MANIFEST, {"_CARDINALITY", "_EXTERNAL_PATH"})
    old_index, new_index = (avro(indexes, schema) for schema in (with_unions(index_schema), index_schema))

    assert ManifestList.read(old_list).manifests == tuple(
        (f"manifest-{number}", number) for number in range(3)
    )
    assert IndexManifest.read(old_index) == IndexManifest.read(new_index)


INNER = {"type": "record", "name": "i", "fields": [{"name": "flag", "type": "int"}]}
OUTER = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "name", "type": "string"}, {"name": "inner", "type": ["null", INNER]}],
}
EXPECTED = RecordOf({"name": "string", "inner": RecordOf({"flag": "int"})})


def written(records: list[dict[str, Any] | None], schema: Any) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, sync_interval=100)
    return out.getvalue()


@pytest.mark.parametrize("bad", [None, {"name": "bad", "inner": None}])
@pytest.mark.parametrize("place", [0, 40, 99])
@pytest.mark.parametrize("null_first", [False, True])
def test_a_record_that_is_null_is_damage(bad: dict[str, Any] | None, place: int, null_first: bool) -> None:
    records: list[dict[str, Any] | None] = [{"name": f"n{n}", "inner": {"flag": 1}} for n in range(100)]
    records[place] = bad
    inner = ["null", INNER] if null_first else [INNER, "null"]
    outer = {**OUTER, "fields": [OUTER["fields"][0], {"name": "inner", "type": inner}]}
    data = written(records, ["null", outer] if null_first else [outer, "null"])

    with pytest.raises(CorruptMetadataError) as caught:
        read_columns(data, EXPECTED)

    assert caught.value.offset is not None


def test_a_branch_that_is_not_there_is_named() -> None:
    data = bytearray(
        written([{"name": f"n{n:03}", "inner": {"flag": 1}} for n in range(100)], ["null", OUTER])
    )
    place = data.index(b"n042") - 2
    assert data[place] == 2
    data[place] = 4

    with pytest.raises(CorruptMetadataError, match="expected no record to be null, found branch 2") as caught:
        read_columns(bytes(data), EXPECTED)

    assert caught.value.offset == data.index(data[-16:]) + 16


def test_a_name_that_no_writer_writes_is_refused() -> None:
    field = {"name": "_BRANCH", "type": "int"}
    schema = ["null", {**OUTER, "fields": [field, *OUTER["fields"]]}]

    with pytest.raises(CorruptMetadataError, match="a field _BRANCH"):
        reading_schema(json.dumps(schema).encode(), EXPECTED)


def test_only_records_that_stand_by_themselves_may_be_unions() -> None:
    items = ["null", {"type": "record", "name": "e", "fields": [{"name": "f", "type": "int"}]}]
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "list", "type": {"type": "array", "items": items}}],
    }

    with pytest.raises(CorruptMetadataError, match=r"expected record.list\[\] to be"):
        reading_schema(json.dumps(schema).encode(), RecordOf({"list": ArrayOf(RecordOf({"f": "int"}))}))


def test_a_wide_record_is_a_union_only_where_it_is_never_null() -> None:
    """A null of one byte would stand for as many numbers as its record has."""
    wide = {
        "type": "record",
        "name": "wide",
        "fields": [{"name": f"f{number}", "type": "long"} for number in range(40)],
    }
    schema = ["null", {"type": "record", "name": "r", "fields": [{"name": "wide", "type": ["null", wide]}]}]
    expected = {"wide": RecordOf({f"f{number}": "long" for number in range(40)})}

    reading_schema(json.dumps(schema).encode(), RecordOf(expected))
    with pytest.raises(CorruptMetadataError, match="a record of 40 columns that can be null"):
        reading_schema(json.dumps(schema).encode(), RecordOf({"wide": Nullable(expected["wide"])}))
