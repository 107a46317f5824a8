"""Data files of every format give the same rows, and damaged ones an error that names the file."""

import datetime as dt
import random
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from app.building import DataFile, read_columns
from app.building.columns import DataFormat
from app.errors import (
    CorruptFileError,
    FileMissingError,
    IndexWriteError,
    PaimonIndexError,
    StorageError,
    UnsupportedFormatError,
)
from tests.data_files import write_data_file

ROWS = 5_000
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "city": pa.array([None if row % 7 == 0 else f"city {row % 11}" for row in range(ROWS)]),
        "day": pa.array([dt.date(2024, 1, 1) + dt.timedelta(row % 400) for row in range(ROWS)]),
        "with.dot": pa.array([row % 3 for row in range(ROWS)], pa.int32()),
        "with": pa.array([row % 5 for row in range(ROWS)], pa.int32()),
        "scores": pa.array(
            [
                None if row % 5 == 0 else [("a", row), ("b", None)] if row % 2 else [("c", 1)]
                for row in range(ROWS)
            ],
            pa.map_(pa.string(), pa.int64()),
        ),
    }
)


@pytest.mark.parametrize("data_format", DataFormat)
def test_reads_columns_and_map_keys(tmp_path: Path, data_format: DataFormat) -> None:
    file = DataFile.open(write_data_file(tmp_path / "data", TABLE, data_format))
    advanced: list[int] = []

    found = read_columns(file, ["id", "city", "day", "with.dot", "scores[a]", "scores[b]"], advanced.append)

    assert (file.format, file.row_count, sum(advanced)) == (data_format, ROWS, ROWS)
    assert file.size_bytes == file.path.stat().st_size
    for name in ("id", "city", "day", "with.dot"):
        assert found[name].to_pylist() == TABLE[name].to_pylist()
    assert found["scores[a]"].to_pylist() == [row if row % 5 and row % 2 else None for row in range(ROWS)]
    assert found["scores[b]"].null_count == ROWS


@pytest.mark.parametrize("data_format", DataFormat)
def test_reads_files_without_rows(tmp_path: Path, data_format: DataFormat) -> None:
    file = DataFile.open(write_data_file(tmp_path / "data", TABLE.slice(0, 0), data_format))

    found = read_columns(file, ["id", "scores[a]"])

    assert [len(found[name]) for name in ("id", "scores[a]")] == [0, 0]
    assert {name: str(column.type) for name, column in found.items()} == {"id": "int64", "scores[a]": "int64"}


def test_timestamps_of_parquet_reach_as_far_as_their_96_bits(tmp_path: Path) -> None:
    moments = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), None]  # noqa: DTZ001 - wall clock
    path = tmp_path / "data.parquet"
    pq.write_table(
        pa.table({"t": pa.array(moments, pa.timestamp("us"))}), path, use_deprecated_int96_timestamps=True
    )

    assert read_columns(DataFile.open(path), ["t"])["t"].to_pylist() == moments


def test_a_key_twice_in_a_map_names_its_row(tmp_path: Path) -> None:
    maps = [[("a", row)] for row in range(2_000)]
    maps[1_234] = [("a", 1), ("b", 2), ("a", 3)]
    table = pa.table({"m": pa.array(maps, pa.map_(pa.string(), pa.int32()))})
    file = DataFile.open(write_data_file(tmp_path / "data", table, DataFormat.PARQUET))

    with pytest.raises(IndexWriteError, match=r"column 'm\[a\]', row 1234: .* twice"):
        read_columns(file, ["m[a]"])


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    text = tmp_path / "data.csv"
    text.write_text("id,city\n")

    with pytest.raises(FileMissingError, match="nowhere: there is no such file"):
        DataFile.open(tmp_path / "nowhere")
    with pytest.raises(StorageError, match=r"directory"):
        DataFile.open(tmp_path)
    with pytest.raises(UnsupportedFormatError, match=r"data\.csv: expected a Parquet, ORC or Avro file"):
        DataFile.open(text)


@pytest.mark.parametrize("data_format", DataFormat)
def test_a_file_that_ends_early_is_named(tmp_path: Path, data_format: DataFormat) -> None:
    path = write_data_file(tmp_path / "data", TABLE, data_format)
    path.write_bytes(path.read_bytes()[:-700])

    with pytest.raises(CorruptFileError, match=str(path)) as caught:
        read_columns(DataFile.open(path), ["id"])

    assert "\n" not in str(caught.value)


def test_damage_to_avro_files_is_an_error_or_reads_on(tmp_path: Path) -> None:
    path = write_data_file(tmp_path / "data", TABLE.slice(0, 500), DataFormat.AVRO)
    content = path.read_bytes()
    chance = random.Random(7)  # noqa: S311 - repeatable damage, no secret
    failed = 0

    for _ in range(150):
        damaged = bytearray(content)
        # Most of the damage goes where it is not caught by a checksum: the header and lengths of blocks.
        at = chance.randrange(600 if chance.random() < 0.7 else len(damaged))
        damaged[at] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            file = DataFile.open(path)
            read_columns(file, {"id", "city"}.intersection(file.schema.names))
        except PaimonIndexError:
            failed += 1

    assert failed > 50


@pytest.mark.parametrize("null_first", [True, False])
def test_rows_of_old_avro_files_are_unions_with_null(tmp_path: Path, null_first: bool) -> None:
    record = {"type": "record", "name": "row", "fields": [{"name": "id", "type": ["null", "long"]}]}
    schema = ["null", record] if null_first else [record, "null"]
    whole, holed = tmp_path / "whole.avro", tmp_path / "holed.avro"
    rows: list[dict[str, int] | None] = [{"id": row} for row in range(ROWS)]
    for path, written in ((whole, rows), (holed, [*rows, None])):
        with path.open("wb") as stream:
            fastavro.writer(stream, schema, written)

    assert read_columns(DataFile.open(whole), ["id"])["id"].to_pylist() == list(range(ROWS))
    with pytest.raises(CorruptFileError, match="expected rows, found null"):
        read_columns(DataFile.open(holed), ["id"])


def test_avro_schemas_that_refer_to_themselves_are_refused(tmp_path: Path) -> None:
    path = write_data_file(tmp_path / "data", TABLE.slice(0, 3).select(["id"]), DataFormat.AVRO)
    path.write_bytes(path.read_bytes().replace(b'"long"', b'"row" '))

    with pytest.raises(UnsupportedFormatError, match="has a type 'row'"):
        DataFile.open(path)
