"""Names that clients may have from one schema or another, and the ids of columns in files."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FilterError
from app.iceberg.field_ids import has_ids
from app.iceberg.schema import ReadColumns
from app.table import TableSchema
from app.types import DataField, parse_type
from tests.golden_cases import GoldenWarehouse


def schema(number: int, **columns: tuple[int, str]) -> TableSchema:
    fields = tuple(DataField(id_, name, parse_type(written)) for name, (id_, written) in columns.items())
    return TableSchema(number, fields)


def read(*schemas: TableSchema, **how: Any) -> ReadColumns:
    """Their columns, of which the first schema is planned in."""
    return ReadColumns.of(schemas, **{"case_sensitive": True, **how})


def test_a_name_that_two_columns_have_is_neither() -> None:
    columns = read(schema(1, a=(1, "INT"), b=(0, "INT")), schema(0, a=(0, "INT"), b=(1, "INT"), c=(2, "INT")))

    assert columns.named("a") is columns.named("b") is None


def test_a_name_of_an_older_schema_is_the_column_that_has_another_name_now() -> None:
    newest = schema(1, renamed=(0, "INT"))
    columns = read(newest, schema(0, a=(0, "INT"), gone=(1, "INT")))

    assert columns.named("a") is columns.named("renamed") is columns.of_id(0) is newest.fields[0]
    assert columns.named("gone") is columns.of_id(1) is None


@pytest.mark.parametrize(
    ("older", "newest", "is_same"),
    [
        ("INT", "INT NOT NULL", True),
        ("TINYINT", "INT", True),
        ("VARCHAR(3)", "STRING", True),
        ("TIMESTAMP(4)", "TIMESTAMP(6)", True),
        ("INT", "BIGINT", False),
        ("FLOAT", "DOUBLE", False),
        ("DECIMAL(9, 2)", "DECIMAL(12, 2)", False),
        ("TIME(3)", "TIME(3)", False),
    ],
)
def test_a_column_is_the_same_if_clients_see_the_same_type(older: str, newest: str, is_same: bool) -> None:
    columns = read(schema(1, a=(0, newest), b=(1, "INT")), schema(0, a=(0, older)))

    assert (columns.named("a") is not None) is is_same
    assert [each.name for each in columns.listed(["a", "b"])] == (["a", "b"] if is_same else ["b"])


def test_a_name_that_no_schema_has_is_refused_by_the_names_of_the_newest() -> None:
    columns = read(schema(1, amount=(0, "INT")), schema(0, b=(0, "INT")))

    with pytest.raises(FilterError, match="did you mean 'amount'"):
        columns.named("amonut")


def test_names_that_one_schema_cannot_tell_apart_are_those_of_the_other() -> None:
    columns = read(
        schema(1, a=(0, "INT"), A=(1, "INT")), schema(0, a=(0, "INT"), b=(1, "INT")), case_sensitive=False
    )

    assert columns.named("a") == columns.planned.fields[0]
    with pytest.raises(FilterError, match="several columns"):
        read(columns.planned, case_sensitive=False).named("a")


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
        schema_of = pa.schema([pa.field("c" * 300, column, metadata=metadata)])
        pq.write_table(pa.table([pa.nulls(3, column)], schema_of), written)

        assert has_ids(footer(written.getvalue())) is expected


@given(st.binary(max_size=300))
def test_bytes_of_anything_else_have_none_and_do_no_harm(content: bytes) -> None:
    assert has_ids(content) in (True, False)
    assert not has_ids(b"\x15\x02\x19" + bytes([0x1C]) + content[:1])
