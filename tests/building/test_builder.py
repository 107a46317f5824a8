"""Index files built of data files say what those say that the engine built of the same rows."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from app.building import BuiltIndex, ColumnTypes, DataFile, build, read_columns, verify, write_file
from app.building.builder import BuiltEntry
from app.building.columns import DataFormat
from app.errors import IndexWriteError, RequestError, StorageError
from app.file_index.keys.key_column import KeyColumn
from app.file_index.stacked_index import FileIndex
from app.file_index.table_options import FileIndexOptions, indexed_type
from app.types import DataField, DataType, TypeRoot, parse_json
from tests import golden_cases
from tests.containers import meanings
from tests.data_files import write_data_file
from tests.examples import share
from tests.golden_cases import GoldenWarehouse, indexed_files
from tests.key_columns import arrow_array

DATA_FILES = [
    name
    for name in golden_cases.index_names()
    if golden_cases.document("file-index", name)["writer"] == "data-file"
]


def _arrow(golden: golden_cases.GoldenIndex, at: int, field: DataField) -> pa.Array:
    if field.type.root is not TypeRoot.MAP:
        return arrow_array(golden.columns[field.name], field.type)
    value_type = field.type.children[1]
    written = [golden_cases.expand(row[at]) for row in golden.document["rows"]]
    entries = [pair for entry in written if entry for pair in entry["$map"]]
    items = arrow_array([parse_json(value, value_type) for _, value in entries], value_type)
    offsets, end = [], 0
    for entry in written:
        offsets.append(None if entry is None else end)
        end += len(entry["$map"]) if entry else 0
    keys = pa.array([key for key, _ in entries], pa.string())
    return pa.MapArray.from_arrays(pa.array([*offsets, end], pa.int32()), keys, items)


def _options(document: Mapping[str, Any]) -> dict[str, str]:
    columns: dict[str, list[str]] = {}
    options = {}
    for column, described in document["indexes"].items():
        for index in described:
            columns.setdefault(index["name"], []).append(column)
            for option, value in index["options"].items():
                options[f"file-index.{index['name']}.{column}.{option}"] = value
    return options | {f"file-index.{kind}.columns": ",".join(names) for kind, names in columns.items()}


def _build(file: DataFile, options: dict[str, str]) -> BuiltIndex:
    requested = FileIndexOptions.parse(options, ColumnTypes(file, {}))
    return build(read_columns(file, {index.column for index in requested.indexes}), requested)


@pytest.mark.parametrize("name", DATA_FILES)
def test_builds_what_the_engine_built(tmp_path: Path, name: str) -> None:
    golden = golden_cases.load_index(name)
    table = pa.table({field.name: _arrow(golden, at, field) for at, field in enumerate(golden.fields)})
    file = DataFile.open(write_data_file(tmp_path / "data.parquet", table, DataFormat.PARQUET))

    built = _build(file, _options(golden.document)).content

    def type_of(column: str) -> DataType:
        return golden.field(column).type

    assert len(built) == len(golden.content)
    assert meanings(built, type_of) == meanings(golden.content, type_of)


def test_columns_and_kinds_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    table = pa.table({"b": [1, 2], "a": [1, 2]})
    file = DataFile.open(write_data_file(tmp_path / "data", table, DataFormat.PARQUET))
    options = {"file-index.bsi.columns": "b,a", "file-index.bitmap.columns": "b"}

    entries = FileIndex.read(_build(file, options).content).entries

    assert [(column, [entry.kind for entry in listed]) for column, listed in entries.items()] == [
        ("a", ["bsi"]),
        ("b", ["bitmap", "bsi"]),
    ]


def test_tells_what_it_built_and_where_the_engine_would_put_it(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([1, 2, 2]), "city": ["a", None, "b"]})
    file = DataFile.open(write_data_file(tmp_path / "data", table, DataFormat.PARQUET))
    options = {
        "file-index.bitmap.columns": "city,id",
        "file-index.bloom-filter.columns": "id",
        "file-index.bloom-filter.id.items": "2",
    }
    advanced: list[int] = []

    requested = FileIndexOptions.parse(options, ColumnTypes(file, {}))
    built = build(read_columns(file, ["city", "id"]), requested, advanced.append)

    index = FileIndex.read(built.content)
    assert sorted(built.entries, key=str) == sorted(
        (
            BuiltEntry(entry.column, entry.kind, entry.length)
            for listed in index.entries.values()
            for entry in listed
        ),
        key=str,
    )
    assert (len(built.entries), sum(advanced)) == (3, 3)
    size = len(built.content)
    for threshold, in_manifest in ((size, True), (size - 1, False)):
        again = _build(file, options | {"file-index.in-manifest-threshold": f"{threshold} b"})
        assert (again.content, again.in_manifest) == (built.content, in_manifest)


def test_nothing_to_index_is_an_error() -> None:
    with pytest.raises(RequestError, match=r"set file-index\.<type>\.columns"):
        build({}, FileIndexOptions(()))


def test_a_value_that_an_index_cannot_hold_names_its_row(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([1, -(1 << 63)], pa.int64())})
    file = DataFile.open(write_data_file(tmp_path / "data", table, DataFormat.PARQUET))

    with pytest.raises(IndexWriteError, match="column 'n', row 1"):
        _build(file, {"file-index.bsi.columns": "n"})


def test_writes_a_file_and_nothing_else(tmp_path: Path) -> None:
    write_file(tmp_path / "data.index", b"content")

    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("data.index", b"content")]


def test_keeps_a_file_that_is_there_already(tmp_path: Path) -> None:
    target = tmp_path / "data.index"
    target.write_bytes(b"old")

    with pytest.raises(RequestError, match=r"data\.index exists"):
        write_file(target, b"new")

    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


def test_replaces_a_file_if_allowed_to(tmp_path: Path) -> None:
    target = tmp_path / "data.index"
    target.write_bytes(b"old")

    write_file(target, b"new", replace=True)

    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"new"]


def test_targets_that_cannot_be_written_leave_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()

    with pytest.raises(
        StorageError, match=r"nowhere/data\.index cannot be written: No such file or directory"
    ):
        write_file(tmp_path / "nowhere" / "data.index", b"content")
    with pytest.raises(StorageError, match="directory cannot be written"):
        write_file(directory, b"content", replace=True)

    assert list(tmp_path.iterdir()) == [directory]
    assert list(directory.iterdir()) == []


# Written with the options of another version than the file's.
_OTHER_OPTIONS = ("evolve_append", "evolve_sidecar")


# Files of one table differ little, and each is asked for all of its values.
_VERIFIED_FILES = 4
INDEXED = [
    name
    for name in golden_cases.tables()
    if any(option.startswith("file-index.") for option in golden_cases.expected(name)["options"])
]


@pytest.mark.parametrize("table", share(INDEXED, 2))
def test_verifies_what_the_engine_wrote(golden: GoldenWarehouse, table: str) -> None:
    for each in share([*islice(indexed_files(golden, table), _VERIFIED_FILES)], 4):
        file = DataFile.open(each.path)
        types = ColumnTypes(file, {name: field.type for name, field in each.schema.by_name.items()})

        def column_of(name: str, file: DataFile = file, types: ColumnTypes = types) -> KeyColumn:
            return KeyColumn.of(read_columns(file, [name])[name], indexed_type(name, types), name)

        found = verify(each.index, column_of, file.row_count)

        assert [entry.problem for entry in found.entries] == [None] * len(found.entries)
        assert found.entries
        assert found.unused_bytes == 0


@pytest.mark.parametrize("table", share([name for name in INDEXED if name not in _OTHER_OPTIONS], 2))
def test_builds_what_the_engine_wrote(golden: GoldenWarehouse, table: str) -> None:
    for each in share([*indexed_files(golden, table)], 3):
        file = DataFile.open(each.path)
        types = {name: field.type for name, field in each.schema.by_name.items()}
        options = FileIndexOptions.parse(each.schema.options.values, types)

        built = build(read_columns(file, {index.column for index in options.indexes}), options)

        def type_of(name: str, types: Mapping[str, DataType] = types) -> DataType:
            return indexed_type(name, types)

        assert len(built.content) == len(each.index)
        assert meanings(built.content, type_of) == meanings(each.index, type_of)
