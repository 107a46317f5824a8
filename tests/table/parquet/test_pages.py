"""What the pages of a Parquet file claim is found out before they are expanded."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from app.errors import CorruptMetadataError
from app.table.parquet.footer import ColumnChunk, ParquetFooter, RowGroup
from app.table.parquet.pages import check_pages
from app.table.parquet.records import read_parquet
from app.table.parquet.thrift import read_struct
from app.table.records.cursor import VarintCursor
from app.table.records.expected import ArrayOf, Nullable, RecordOf

if TYPE_CHECKING:
    from collections.abc import Sequence

MILLION = 1 << 20
NAMES = RecordOf({"name": "string"})


def written(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, store_schema=False, **options)
    return out.getvalue()


def check(data: bytes) -> None:
    check_pages(data, ParquetFooter.read(data), ["name", "list"])


def dictionary(values: Sequence[str], rows: int) -> pa.Table:
    return pa.table(
        {"name": pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(values))}
    )


def with_names_of_files(table: pa.Table) -> pa.Table:
    """With a column that takes some bytes a row, as names of files do."""
    random = np.random.default_rng(table.num_rows)
    return table.append_column("file", pa.array([random.bytes(4) for _ in range(table.num_rows)]))


def test_an_entry_of_a_dictionary_counts_as_often_as_it_may_be_meant() -> None:
    """A thousand rows of a million bytes, in a few kilobytes."""
    table = with_names_of_files(dictionary(["x" * MILLION], 1000))
    data = written(table, compression="zstd", use_dictionary=["name"])
    assert len(data) < 10_000

    with pytest.raises(CorruptMetadataError, match=f"column name would take {1000 * MILLION} bytes"):
        read_parquet(data, NAMES)


DISTINCT = {
    "one": ["x"],
    "of_two_lengths": [f"name {at}" * (1 + at % 2) for at in range(20_000)],
    "of_one_length": [f"name {at:020}" for at in range(20_000)],
}


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("distinct", sorted(DISTINCT))
def test_large_dictionaries_of_short_strings_are_read(compression: str, distinct: str) -> None:
    values = DISTINCT[distinct] * (1 + 20_000 // len(DISTINCT[distinct]))
    table = with_names_of_files(pa.table({"name": values}))

    found = read_parquet(written(table, compression=compression, row_group_size=25_000), NAMES)

    assert found.objects("name") == values


def test_runs_of_nulls_count_as_values() -> None:
    lists = pa.ListArray.from_arrays(
        pa.array([0, 20 * MILLION], pa.int32()), pa.nulls(20 * MILLION, pa.int8())
    )
    data = written(pa.table({"list": lists}), compression="zstd")
    assert len(data) < 100_000

    with pytest.raises(CorruptMetadataError, match=r"column list\.list\.element would take"):
        check(data)


def test_prefixes_that_strings_share_count_for_each() -> None:
    values = ["x" * MILLION] * 1000
    data = written(
        pa.table({"name": values}),
        compression="none",
        use_dictionary=False,
        column_encoding={"name": "DELTA_BYTE_ARRAY"},
        write_batch_size=10,
    )

    with pytest.raises(CorruptMetadataError, match="column name would take"):
        check(data)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_of_both_versions(version: str) -> None:
    values = [None if at % 3 else f"name {at}" for at in range(5000)]
    data = written(pa.table({"name": values}), data_page_version=version, data_page_size=1000)

    found = read_parquet(data, RecordOf({"name": Nullable("string")}))

    assert found.objects("name") == values


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("1500 15feffffff0f 1500 2c15021500 00 00", "would take 2147484687 bytes"),
        ("1500 1502 1502 2c15feffffff0f1500 00 00 ff", "would take 34359739377 bytes"),
        ("1500 1502 15feffffff0f 2c15021500 00 00", "a page of 2147483647 bytes"),
        ("1500 1501 1500 2c15021500 00 00", "number in field 2 of a struct, found -1"),
        ("1500 1502 1500 00", "a struct in field 5"),
        ("1508 1502 1500 00", "a page of type 4"),
    ],
)
def test_pages_that_claim_gigabytes_or_are_none(page: str, complaint: str) -> None:
    data = bytes.fromhex(page)
    group = RowGroup(1, (ColumnChunk("name", 6, 0, 1, 0, len(data)),))

    with pytest.raises(CorruptMetadataError, match=complaint):
        check_pages(data, ParquetFooter(0, (group,)), ["name"])


@pytest.mark.parametrize("column", [pa.array([1.5]), pa.array([True]), pa.array([b"ab"], pa.binary(2))])
def test_columns_that_no_metadata_has(column: pa.Array) -> None:
    with pytest.raises(CorruptMetadataError, match="column name has the unexpected type"):
        read_parquet(written(pa.table({"name": column})), NAMES)


def test_rows_that_a_file_this_small_cannot_have() -> None:
    data = written(dictionary(["x"], 100_000), compression="zstd")

    with pytest.raises(CorruptMetadataError, match="a row group of 100000 rows"):
        read_parquet(data, NAMES)


@pytest.mark.parametrize("length", [5, 11, 1 << 31])
def test_footers_are_within_their_file(length: int) -> None:
    data = b"PAR1" + bytes(3) + length.to_bytes(4, "little") + b"PAR1"

    with pytest.raises(CorruptMetadataError, match=r"a Parquet footer of|found 0 to the end|a struct with"):
        read_parquet(data, NAMES)


def test_a_file_without_row_groups_has_no_records() -> None:
    expected = RecordOf({"name": "string", "list": Nullable(ArrayOf("long"))})
    out = io.BytesIO()
    pq.ParquetWriter(out, pa.schema([pa.field("name", pa.string())])).close()

    assert len(read_parquet(out.getvalue(), expected)) == 0


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda rest: b"\x19\x19" * 20 + rest))
def test_any_bytes_are_a_header_or_damage(data: bytes) -> None:
    cursor = VarintCursor(memoryview(data))
    try:
        read_struct(cursor)
    except CorruptMetadataError:
        return
    assert cursor.at <= len(data)


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        ("00", {}),
        ("1502150400", {(1, 5): 1, (2, 5): 2}),
        ("1602150400", {(1, 6): 1, (2, 5): 2}),
        ("112200", {(1, 1): 1, (3, 2): 0}),
        ("180361626300", {(1, 8): b"abc"}),
        ("19250204150200", {(1, 9): [1, 2], (2, 5): 1}),
        ("1921010200", {(1, 9): [1, 2]}),
        ("17000000000000000000", {(1, 7): bytes(8)}),
        ("050e0200", {(7, 5): 1}),
    ],
)
def test_structs(data: str, fields: dict[tuple[int, int], object]) -> None:
    assert read_struct(VarintCursor(memoryview(bytes.fromhex(data)))).fields == fields


def test_structs_inside_of_structs() -> None:
    found = read_struct(VarintCursor(memoryview(bytes.fromhex("1c150200192c1504001506000016080000"[:-2]))))

    assert found.struct(1).integer(1) == 1
    assert [each.integer(1) for each in found.structs(2)] == [2, 3]
    assert found.structs(9) == []
    for missing in (lambda: found.struct(3), lambda: found.integer(1), lambda: found.long(3)):
        with pytest.raises(CorruptMetadataError, match="in field"):
            missing()


@pytest.mark.parametrize(
    "data", ["15021502", "1502050202", "05ffff0f0200", "1e00", "1919" * 30, "19f5ffff03", "1502"]
)
def test_headers_that_are_none(data: str) -> None:
    with pytest.raises(CorruptMetadataError):
        read_struct(VarintCursor(memoryview(bytes.fromhex(data))))
