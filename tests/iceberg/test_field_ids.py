"""Whether Parquet files have field ids is told from the first bytes of their footers."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.iceberg.field_ids import has_ids
from tests.golden_tables import GoldenWarehouse

WRITERS = Path(__file__).parents[1] / "golden" / "other_writers" / "warehouse.tar.xz"


def footer(content: bytes) -> bytes:
    length = int.from_bytes(content[-8:-4], "little")
    return content[-8 - length : -8]


@pytest.mark.parametrize("table", ["append_sidecar", "all_types", "map_index", "pk_dv"])
def test_the_engine_writes_ids(golden: GoldenWarehouse, table: str) -> None:
    files = list(golden.table(table).glob("**/*.parquet"))

    assert files
    assert all(has_ids(footer(each.read_bytes())[:4_096]) for each in files)


def test_of_other_writers_some_do(tmp_path: Path) -> None:
    with tarfile.open(WRITERS) as archive:
        archive.extractall(tmp_path, filter="data")
    found = {
        writer: {has_ids(footer(each.read_bytes())) for each in tmp_path.glob(f"*/{writer}.db/*/*/*.parquet")}
        for writer in ("pypaimon", "rust")
    }

    assert found == {"pypaimon": {False}, "rust": {True}}


@pytest.mark.parametrize("number", [0, 1, 127, 128, 1 << 20, (1 << 31) - 1])
@pytest.mark.parametrize("column", [pa.int32(), pa.list_(pa.int32()), pa.struct([("x", pa.string())])])
def test_ids_of_any_column_are_seen(number: int, column: pa.DataType) -> None:
    for metadata, expected in (({"PARQUET:field_id": str(number)}, True), ({}, False)):
        written = io.BytesIO()
        schema = pa.schema([pa.field("c" * 300, column, metadata=metadata)])
        pq.write_table(pa.table([pa.nulls(3, column)], schema), written)

        assert has_ids(footer(written.getvalue())) is expected


@given(st.binary(max_size=300))
def test_bytes_of_anything_else_have_none_and_do_no_harm(content: bytes) -> None:
    assert has_ids(content) in (True, False)
    assert not has_ids(b"\x15\x02\x19" + bytes([0x1C]) + content[:1])
