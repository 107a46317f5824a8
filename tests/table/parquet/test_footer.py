"""The footer of a Parquet file is read as the library reads it."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from app.errors import CorruptMetadataError
from app.table.parquet.footer import ParquetFooter
from tests.examples import examples

TABLE = pa.table(
    {
        "id": pa.array(range(10), pa.int64()),
        "file": [{"name": f"n{row}", "stats": {"low": b"a", "counts": [row, None]}} for row in range(10)],
        "names": [["a", "b"]] * 10,
        "pairs": pa.array([[("a", 1)]] * 10, pa.map_(pa.string(), pa.int32())),
        "kind": pa.array([1] * 10, pa.int8()),
    }
)
CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}
TYPES = {"INT32": 1, "INT64": 2, "BYTE_ARRAY": 6}


def written(compression: str = "zstd", row_group_size: int = 4) -> bytes:
    out = io.BytesIO()
    pq.write_table(TABLE, out, compression=compression, row_group_size=row_group_size)
    return out.getvalue()


@pytest.mark.parametrize("compression", sorted(CODECS))
def test_columns_are_those_that_the_library_finds(compression: str) -> None:
    data = written(compression)
    metadata = pq.read_metadata(io.BytesIO(data))

    found = ParquetFooter.read(data)

    assert [group.rows for group in found.row_groups] == [4, 4, 2]
    for number, group in enumerate(found.row_groups):
        theirs = [metadata.row_group(number).column(at) for at in range(metadata.num_columns)]
        assert [each.path for each in group.columns] == [each.path_in_schema for each in theirs]
        assert [each.values for each in group.columns] == [each.num_values for each in theirs]
        assert [each.physical_type for each in group.columns] == [
            TYPES[each.physical_type] for each in theirs
        ]
        assert {each.codec for each in group.columns} == {CODECS[compression]}
        assert [each.end - each.start for each in group.columns] == [
            each.total_compressed_size for each in theirs
        ]
        starts = [
            min(each.data_page_offset, each.dictionary_page_offset or each.data_page_offset)
            for each in theirs
        ]
        assert [each.start for each in group.columns] == starts


def test_a_file_without_columns() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({}), out)

    assert all(not group.columns for group in ParquetFooter.read(out.getvalue()).row_groups)


@examples(200)
@given(st.data())
def test_damage_is_found_or_changes_nothing_beyond_the_file(data: st.DataObject) -> None:
    damaged = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[-data.draw(st.integers(1, 1500))] = data.draw(st.integers(0, 255))
    try:
        found = ParquetFooter.read(bytes(damaged))
    except CorruptMetadataError:
        return
    for group in found.row_groups:
        assert all(0 <= each.start <= each.end <= len(damaged) for each in group.columns)


WHOLE = written()
