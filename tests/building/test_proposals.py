"""Advice on a file that has one column of each sort."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from app.building import ColumnTypes, DataFile, advise, build, read_columns, size_warning, table_options
from app.building.columns import DataFormat
from app.building.proposals import ColumnAdvice
from app.file_index.bloom_filter.kind import BloomFilterOptions
from app.file_index.stacked_index import FileIndex
from app.file_index.table_options import FileIndexOptions
from tests.data_files import write_data_file

ROWS = 10_000
MIDNIGHT = dt.datetime(2024, 1, 1)  # noqa: DTZ001 - wall clock
TABLE = pa.table(
    {
        "city": [f"city {row % 40}" for row in range(ROWS)],
        "user": [f"user {row * 7919 % 8473}" for row in range(ROWS)],
        "score": pa.array([row * 31 % 9_000 for row in range(ROWS)], pa.int64()),
        "flag": [row % 3 == 0 for row in range(ROWS)],
        "wide": pa.array([Decimal(row) for row in range(ROWS)], pa.decimal128(38, 2)),
        "moment": pa.array([MIDNIGHT + dt.timedelta(seconds=row) for row in range(ROWS)], pa.timestamp("ns")),
        "wider": pa.array([Decimal(10) ** 30 + row for row in range(ROWS)], pa.decimal128(38, 2)),
        "same": [1] * ROWS,
        "nothing": pa.nulls(ROWS, pa.string()),
        "sometimes": [None if row % 2 else "x" for row in range(ROWS)],
        "attributes": pa.array([[("k", "v")]] * ROWS, pa.map_(pa.string(), pa.string())),
        "list": [[1]] * ROWS,
        "a,b": range(ROWS),
        "user.name": [f"user {row}" for row in range(ROWS)],
        "_SEQUENCE_NUMBER": range(ROWS),
        "_KEY_user": range(ROWS),
    }
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> DataFile:
    path = tmp_path_factory.mktemp("advice") / "data.parquet"
    return DataFile.open(write_data_file(path, TABLE, DataFormat.PARQUET))


@pytest.fixture(scope="module")
def advice(file: DataFile) -> dict[str, ColumnAdvice]:
    return {each.column: each for each in advise(file, ColumnTypes(file, {}))}


@pytest.mark.parametrize(
    ("column", "kind", "distinct"),
    [
        *(("city", "bitmap", 40), ("user", "bloom-filter", 8473), ("score", "range-bitmap", 9_000)),
        *(("flag", "bitmap", 2), ("wide", "bsi", ROWS), ("wider", None, None)),
        *(("moment", "bloom-filter", ROWS), ("same", None, 1), ("nothing", None, 0)),
        *(("sometimes", "bitmap", 1), ("attributes", None, None), ("list", None, None)),
        *(("a,b", None, ROWS), ("user.name", None, ROWS)),
    ],
)
def test_proposals(
    advice: dict[str, ColumnAdvice], column: str, kind: str | None, distinct: int | None
) -> None:
    found = advice[column]

    assert (found.index.kind if found.index else None, found.distinct) == (kind, distinct)
    assert found.reason


def test_columns_of_the_engine_are_passed_over(advice: dict[str, ColumnAdvice]) -> None:
    assert not any(column.startswith("_") for column in advice)


def test_reasons_tell_what_to_do(advice: dict[str, ColumnAdvice]) -> None:
    assert "attributes[key]" in advice["attributes"].reason
    assert "column 'wider', row 0: expected an unscaled value of 64 bits" in advice["wider"].reason
    assert "cannot list" in advice["a,b"].reason
    assert "with a dot" in advice["user.name"].reason


def test_bloom_filters_are_made_for_the_values_and_what_that_saves_is_told(
    advice: dict[str, ColumnAdvice],
) -> None:
    user = advice["user"]

    assert user.index is not None
    assert user.index.options == BloomFilterOptions(8_500)
    assert user.warning is not None
    assert "made for 1,000,000 values and waste 594 KB beside the 10,000 rows" in user.warning


def test_a_large_range_bitmap_is_told(advice: dict[str, ColumnAdvice]) -> None:
    assert "a bloom-filter of 9,000 items takes 5 KB" in str(advice["score"].warning)


@pytest.mark.parametrize("size_bytes", [100_000_000, 100_000, 10_000, 1_000])
def test_no_index_larger_than_a_third_of_its_data_file_is_proposed_without_a_word(
    file: DataFile, size_bytes: int
) -> None:
    of_size = replace(file, size_bytes=size_bytes)

    advice = advise(of_size, ColumnTypes(of_size, {}))

    large = [each for each in advice if each.size_bytes > size_bytes / 3]
    assert bool(large) == (size_bytes < 100_000_000)
    for each in large:
        assert f"{each.size_bytes / size_bytes:.0%} of the" in str(each.warning)
    together = size_warning(of_size, advice)
    assert (together is None) == (size_bytes == 100_000_000)


def test_the_options_build_indexes_of_the_sizes_that_were_told(
    file: DataFile, advice: dict[str, ColumnAdvice]
) -> None:
    options = FileIndexOptions.parse(table_options(tuple(advice.values())), ColumnTypes(file, {}))

    built = build(read_columns(file, {index.column for index in options.indexes}), options)

    sizes = {column: listed[0].length for column, listed in FileIndex.read(built.content).entries.items()}
    assert sizes == {each.column: each.size_bytes for each in advice.values() if each.index}


def test_a_file_without_rows_needs_no_index(tmp_path: Path) -> None:
    empty = DataFile.open(write_data_file(tmp_path / "data", TABLE.slice(0, 0), DataFormat.PARQUET))

    assert [each.index for each in advise(empty, ColumnTypes(empty, {})) if each.index] == []


def test_types_that_a_file_does_not_tell_are_asked_for(tmp_path: Path) -> None:
    table = TABLE.slice(0, 100).select(["moment"])
    file = DataFile.open(write_data_file(tmp_path / "data", table, DataFormat.ORC))

    (found,) = advise(file, ColumnTypes(file, {}))

    assert found.index is None
    assert "declare its type" in found.reason
