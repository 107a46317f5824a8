"""Metadata in ORC and Parquet is the same as in Avro, and damage to it is an error of ours."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError, PaimonIndexError
from app.table.manifests.index_manifest import IndexManifest
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import ManifestEntry, RowStatistics
from app.table.manifests.manifest_list import ManifestList
from benchmarks.avro_schemas import INDEX_MANIFEST, MANIFEST, MANIFEST_LIST
from benchmarks.columnar_files import write_orc, write_parquet
from tests.examples import examples, share
from tests.table.avro.test_unions import AFTER_04, entries_of, without_fields
from tests.table.manifests.test_manifest import ENTRIES
from tests.tables import avro, entry, record

WRITERS = {"orc": write_orc, "parquet": write_parquet}
FORMATS = pytest.mark.parametrize("written_as", sorted(WRITERS))
RANGES = [{"f0": "data-1", "f1": 1, "f2": 22, "_CARDINALITY": 7}, None, {"f0": "data-2", "f1": 23, "f2": 22}]
INDEXES = [
    {
        "_VERSION": 1,
        "_KIND": 0,
        "_PARTITION": b"p",
        "_BUCKET": 3,
        "_INDEX_TYPE": kind,
        "_FILE_NAME": f"index-{kind}",
    }
    | {"_FILE_SIZE": 9, "_ROW_COUNT": 2, "_DELETIONS_VECTORS_RANGES": listed, "_EXTERNAL_PATH": path}
    for kind, listed, path in (("HASH", None, None), ("DELETION_VECTORS", RANGES, "s3://b/x"))
]
NO_STATISTICS = {"_MIN_VALUES": b"", "_MAX_VALUES": b"", "_NULL_COUNTS": None}
LISTED = [
    {"_VERSION": 2, "_FILE_NAME": f"manifest-{number}", "_FILE_SIZE": number, "_NUM_ADDED_FILES": 1}
    | {"_NUM_DELETED_FILES": 0, "_PARTITION_STATS": NO_STATISTICS, "_SCHEMA_ID": 0, "_MIN_BUCKET": None}
    for number in range(3)
]


def as_read(written: ManifestEntry, written_as: str) -> ManifestEntry:
    """Return what a manifest of a format keeps of an entry."""
    if written_as == "parquet":
        return written
    file = replace(written.file, creation_time_millis=None)
    if file.delete_row_count is None:
        of_keys, of_values = (
            RowStatistics(b"", b"", (None,) * len(each.null_counts))
            for each in (file.key_statistics, file.value_statistics)
        )
        file = replace(file, key_statistics=of_keys, value_statistics=of_values)
    return replace(written, file=file)


@FORMATS
@examples(40)
@given(
    entries=st.lists(ENTRIES, max_size=12),
    compression=st.sampled_from(["zstd", "lz4", "snappy", "uncompressed"]),
)
def test_a_manifest_reads_as_it_does_in_avro(
    written_as: str, entries: list[ManifestEntry], compression: str
) -> None:
    codec = {("parquet", "uncompressed"): "none"}.get((written_as, compression), compression)

    found = entries_of(WRITERS[written_as](map(record, entries), MANIFEST, codec))

    assert found == [as_read(each, written_as) for each in entries]


@FORMATS
def test_files_of_several_stripes_and_row_groups_stay_in_order(written_as: str) -> None:
    entries = [
        entry(file_name=f"data-{number}", embedded_index=bytes([number % 250]) * 700, delete_row_count=0)
        for number in range(3_000)
    ]
    options: dict[str, Any] = {"stripe_size": 1} if written_as == "orc" else {"row_group_size": 700}

    found = entries_of(WRITERS[written_as](map(record, entries), MANIFEST, **options))

    assert found == entries


@FORMATS
def test_fields_that_came_later_are_null(written_as: str) -> None:
    written = entry(delete_row_count=3, embedded_index=b"i", write_columns=("a",), first_row_id=4)
    old = WRITERS[written_as]([record(written)], without_fields(MANIFEST, AFTER_04))

    assert entries_of(old) == [as_read(entry(), written_as)]


@FORMATS
def test_fields_that_nobody_knows_yet_are_passed_over(written_as: str) -> None:
    later = {"name": "_LATER", "type": ["null", {"type": "array", "items": "double"}]}
    schema = {**MANIFEST, "fields": [*MANIFEST["fields"], later]}

    written = {**record(entry(delete_row_count=0)), "_LATER": [1.5]}
    data = WRITERS[written_as]([written], schema)

    assert entries_of(data) == [entry(delete_row_count=0)]


@FORMATS
def test_index_manifests(written_as: str) -> None:
    assert IndexManifest.read(WRITERS[written_as](INDEXES, INDEX_MANIFEST)) == IndexManifest.read(
        avro(INDEXES, INDEX_MANIFEST)
    )


@FORMATS
@pytest.mark.parametrize("listed", [LISTED, []])
def test_manifest_lists(written_as: str, listed: list[dict[str, Any]]) -> None:
    found = ManifestList.read(WRITERS[written_as](listed, MANIFEST_LIST))

    assert found.manifests == tuple((each["_FILE_NAME"], each["_FILE_SIZE"]) for each in listed)


def test_a_file_of_no_known_format_is_damage() -> None:
    with pytest.raises(CorruptMetadataError, match="expected an Avro, ORC or Parquet file"):
        ManifestList.read(b"PAR2" + bytes(100))


@FORMATS
@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"_BUCKET": None}, "expected no record._BUCKET to be null"),
        ({"_FILE": None}, "expected no record._FILE to be null"),
        ({"_FILE": {"_FILE_NAME": None}}, "expected no record._FILE._FILE_NAME to be null"),
        ({"_FILE": {"_VALUE_STATS": None}}, "expected no record._FILE._VALUE_STATS to be null"),
        ({"_FILE": {"_EXTRA_FILES": ["a", None]}}, r"expected no record._FILE._EXTRA_FILES\[\] to be null"),
    ],
)
def test_nulls_where_none_may_be(written_as: str, changed: dict[str, Any], complaint: str) -> None:
    written = record(entry(delete_row_count=0))
    file = changed.get("_FILE", {})
    bad = {**written, **changed, "_FILE": file if file is None else {**written["_FILE"], **file}}

    data = WRITERS[written_as]([written, bad], _all_nullable(MANIFEST))

    with pytest.raises(CorruptMetadataError, match=complaint):
        Manifest.read(data)


@FORMATS
@pytest.mark.parametrize(
    ("name", "kind", "complaint"),
    [
        ("_FILE_NAME", None, "expected a field record._FILE_NAME, found none"),
        ("_FILE_NAME", "long", "record._FILE_NAME to be string, found int64"),
        ("_FILE_SIZE", "string", "record._FILE_SIZE to be long, found string"),
        (
            "_PARTITION_STATS",
            "long",
            "record._PARTITION_STATS to be|cannot be decoded|expected a field|No field",
        ),
    ],
)
def test_columns_that_are_missing_or_of_another_type(
    written_as: str, name: str, kind: str | None, complaint: str
) -> None:
    fields = [each for each in MANIFEST_LIST["fields"] if each["name"] != name]
    if kind is not None:
        fields.append({"name": name, "type": ["null", kind]})
    records = [{key: value for key, value in each.items() if key != name} for each in LISTED]

    with pytest.raises(CorruptMetadataError, match=complaint):
        ManifestList.read(WRITERS[written_as](records, {**MANIFEST_LIST, "fields": fields}))


def _all_nullable(kind: Any) -> Any:
    match kind:
        case {"type": "record", "fields": fields}:
            described = [
                {
                    **each,
                    "type": each["type"]
                    if isinstance(each["type"], list)
                    else ["null", _all_nullable(each["type"])],
                }
                for each in fields
            ]
            return {**kind, "fields": described}
        case {"type": "array", "items": str(items)}:
            return {**kind, "items": ["null", items]}
        case _:
            return kind


WHOLE: dict[str, list[bytes]] = {
    name: [
        *(
            write(
                [record(entry(delete_row_count=0, file_name=f"data-{n}")) for n in range(rows)],
                MANIFEST,
                codec,
            )
            for rows in (1, 40)
            for codec in ("zstd", "uncompressed" if name == "orc" else "none")
        ),
        write(INDEXES, INDEX_MANIFEST, "zstd"),
    ]
    for name, write in WRITERS.items()
}
PARSERS: list[Callable[[bytes], object]] = [Manifest.read, IndexManifest.read, ManifestList.read]


@FORMATS
@examples(150)
@given(data=st.data())
def test_damage_raises_nothing_but_our_errors(written_as: str, data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from(WHOLE[written_as])))
    for _ in range(data.draw(st.integers(1, 4))):
        # Damage to the tail says most about how the rest is read.
        back = data.draw(
            st.integers(1, len(damaged)) | st.integers(1, 600).map(lambda n: min(n, len(damaged)))
        )
        damaged[-back] = data.draw(st.integers(0, 255))
    for parse in PARSERS:
        with contextlib.suppress(PaimonIndexError):
            parse(bytes(damaged))


@FORMATS
def test_every_truncation_is_noticed(written_as: str) -> None:
    whole = WHOLE[written_as][0]
    for end in share(range(3, len(whole)), 5):
        with pytest.raises(CorruptMetadataError):
            Manifest.read(whole[:end])


def test_names_are_utf_8() -> None:
    data = write_orc(LISTED, MANIFEST_LIST, "uncompressed")
    assert data.count(b"manifest-0") > 0

    with pytest.raises(CorruptMetadataError, match=r"UTF8|UTF-8"):
        ManifestList.read(data.replace(b"manifest-0", b"manifest\xff0"))
