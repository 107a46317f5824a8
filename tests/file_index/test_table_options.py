"""Options of a table, as its owner writes them, and what the engine would not take."""

import pytest

from app.errors import RequestError
from app.file_index.bitmap.kind import BitmapOptions
from app.file_index.bloom_filter.kind import BloomFilterOptions
from app.file_index.bsi.kind import BsiOptions
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, BSI, RANGE_BITMAP
from app.file_index.range_bitmap.kind import RangeBitmapOptions
from app.file_index.table_options import FileIndexOptions
from app.types import parse_type

TYPES = {
    name: parse_type(text)
    for name, text in {
        "id": "BIGINT",
        "city": "STRING",
        "with.dot": "INT",
        "attributes": "MAP<STRING, STRING>",
        "by_number": "MAP<INT, INT>",
        "flag": "BOOLEAN",
        "wide": "DECIMAL(38, 2)",
        "tags": "ARRAY<STRING>",
    }.items()
}


def _parse(**written: str) -> FileIndexOptions:
    return FileIndexOptions.parse({f"file-index.{name}": value for name, value in written.items()}, TYPES)


def test_a_table_without_indexes_has_the_default_threshold() -> None:
    assert FileIndexOptions.parse({"bucket": "4", "file-index.read.enabled": "true"}, TYPES) == (
        FileIndexOptions((), 500)
    )


def test_reads_every_option() -> None:
    found = _parse(
        **{
            "bloom-filter.columns": "city, id ,attributes[k]",
            "bloom-filter.city.items": "5000",
            "bloom-filter.city.fpp": "0.01",
            "bitmap.columns": "city,with.dot,",
            "bitmap.city.version": "1",
            "range-bitmap.columns": "id",
            "range-bitmap.id.chunk-size": "1kb",
            "bsi.columns": "wide",
            "in-manifest-threshold": "2 MB",
        }
    )

    assert found.in_manifest_threshold_bytes == 2 << 20
    assert [(each.column, each.kind, each.options) for each in found.indexes] == [
        ("city", BLOOM_FILTER, BloomFilterOptions(5000, 0.01)),
        ("id", BLOOM_FILTER, BloomFilterOptions()),
        ("attributes[k]", BLOOM_FILTER, BloomFilterOptions()),
        ("city", BITMAP, BitmapOptions(1)),
        ("with.dot", BITMAP, BitmapOptions()),
        ("id", RANGE_BITMAP, RangeBitmapOptions(1024)),
        ("wide", BSI, BsiOptions()),
    ]
    assert found.indexes[2].data_type == TYPES["attributes"].children[1]


def test_options_of_a_map_hold_for_its_keys() -> None:
    found = _parse(
        **{
            "bloom-filter.columns": "attributes[a],attributes[b.c]",
            "bloom-filter.attributes.items": "100",
            "bloom-filter.attributes.fpp": "0.2",
            "bloom-filter.attributes[a].items": "7",
        }
    )

    assert [each.options for each in found.indexes] == [
        BloomFilterOptions(7, 0.2),
        BloomFilterOptions(100, 0.2),
    ]


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("7", 7), ("16 kb", 16384), ("1KiBiBytes", 1024), (" 3 m ", 3 << 20), ("2bytes", 2)],
)
def test_sizes_are_read_as_the_engine_reads_them(text: str, size: int) -> None:
    assert _parse(**{"in-manifest-threshold": text}).in_manifest_threshold_bytes == size


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"bitmaps.columns": "id"}, "no index type 'bitmaps': did you mean 'bitmap'"),
        ({"bitmap.columns": "nowhere"}, "names 'nowhere': there is no column 'nowhere'"),
        ({"bitmap.columns": "nowhere[k]"}, "there is no column 'nowhere'"),
        ({"bitmap.columns": "id,id"}, "lists column 'id' twice"),
        ({"bitmap.columns": "id,,city"}, "separated by commas"),
        ({"bitmap.columns": " "}, "separated by commas"),
        ({"bitmap.columns": "id[k]"}, "'id' of type BIGINT is not a map"),
        ({"bitmap.columns": "by_number[1]"}, "is not a map with strings as keys"),
        ({"bitmap.columns": "attributes"}, "name one of its keys"),
        ({"bitmap.columns": "tags"}, r"column 'tags' of type ARRAY<STRING>: no index does"),
        ({"bsi.columns": "city"}, "type STRING: use bloom-filter or bitmap or range-bitmap"),
        ({"bloom-filter.columns": "flag"}, "type BOOLEAN: use bitmap or range-bitmap"),
        ({"bitmap.columns": "id", "bitmap.city.version": "1"}, "columns does not list 'city'"),
        ({"bitmap.columns": "id", "bsi.id.version": "1"}, "file-index.bsi.columns does not list 'id'"),
        ({"bitmap.columns": "with.dot", "bitmap.with.dot.version": "1"}, "with a dot has no options"),
        ({"bitmap.columns": "id", "bitmap.version": "1"}, "file-index.bitmap.version has no effect"),
        (
            {"bitmap.columns": "id", "bitmap.id.fpp": "1"},
            "an option of bitmap.*: version, index-block-size",
        ),
        ({"bsi.columns": "id", "bsi.id.fpp": "1"}, "'fpp' is not an option of bsi; there are no options"),
        ({"bitmap.columns": "id", "bitmap.id.version": "3"}, "version must be 1 or 2, found 3"),
        (
            {"bitmap.columns": "id", "bitmap.id.version": "two"},
            "bitmap of column 'id': version must be a whole",
        ),
        ({"bitmap.columns": "id", "bitmap.id.index-block-size": "0 b"}, "index-block-size must be from 1 b"),
        ({"bitmap.columns": "id", "bitmap.id.index-block-size": "3 x"}, "must be a size such as 500 b"),
        ({"range-bitmap.columns": "id", "range-bitmap.id.chunk-size": "3 gb"}, "chunk-size must be from 0 b"),
        ({"bloom-filter.columns": "id", "bloom-filter.id.items": "0"}, "items must be at least 1"),
        ({"bloom-filter.columns": "id", "bloom-filter.id.items": "9" * 5000}, "a whole number of 32 bits"),
        ({"bloom-filter.columns": "id", "bloom-filter.id.items": "2000000000"}, "more than 256 MB"),
        ({"bloom-filter.columns": "id", "bloom-filter.id.fpp": "1"}, "fpp must lie between 0 and 1"),
        ({"bloom-filter.columns": "id", "bloom-filter.id.fpp": "nan"}, "fpp must lie between 0 and 1"),
        ({"bloom-filter.columns": "id", "bloom-filter.id.fpp": "small"}, "fpp must be a number"),
        ({"in-manifest-threshold": "-1"}, "in-manifest-threshold must be a size"),
        ({"in-manifest-threshold": "9" * 5000}, "in-manifest-threshold must be a size"),
    ],
)
def test_refuses_what_is_wrong_or_has_no_effect(written: dict[str, str], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        _parse(**written)
