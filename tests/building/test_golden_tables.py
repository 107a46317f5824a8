"""The indexes of the golden tables are right, and those built of their data files say the same."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import pytest

from app.building.builder import build
from app.building.columns import ColumnTypes, read_columns
from app.building.data_files import DataFile
from app.building.verification import verify
from app.file_index.keys.key_column import KeyColumn
from app.file_index.table_options import FileIndexOptions, indexed_type
from app.types import DataType
from tests import golden_tables
from tests.containers import meanings
from tests.golden_data_files import indexed_files
from tests.golden_tables import GoldenWarehouse

# Written with the options of another version than the file's.
_OTHER_OPTIONS = ("evolve_append", "evolve_sidecar")
# Files of one table differ little, and each is asked for all of its values.
_VERIFIED_FILES = 4
INDEXED = [
    name
    for name in golden_tables.tables()
    if any(option.startswith("file-index.") for option in golden_tables.expected(name)["options"])
]


@pytest.mark.parametrize("table", INDEXED)
def test_verifies_what_the_engine_wrote(golden: GoldenWarehouse, table: str) -> None:
    for each in islice(indexed_files(golden, table), _VERIFIED_FILES):
        file = DataFile.open(each.path)
        types = ColumnTypes(file, {name: field.type for name, field in each.schema.by_name.items()})

        def column_of(name: str, file: DataFile = file, types: ColumnTypes = types) -> KeyColumn:
            return KeyColumn.of(read_columns(file, [name])[name], indexed_type(name, types), name)

        found = verify(each.index, column_of, file.row_count)

        assert [entry.problem for entry in found.entries] == [None] * len(found.entries)
        assert found.entries
        assert found.unused_bytes == 0


@pytest.mark.parametrize("table", [name for name in INDEXED if name not in _OTHER_OPTIONS])
def test_builds_what_the_engine_wrote(golden: GoldenWarehouse, table: str) -> None:
    for each in indexed_files(golden, table):
        file = DataFile.open(each.path)
        types = {name: field.type for name, field in each.schema.by_name.items()}
        options = FileIndexOptions.parse(each.schema.options.values, types)

        built = build(read_columns(file, {index.column for index in options.indexes}), options)

        def type_of(name: str, types: Mapping[str, DataType] = types) -> DataType:
            return indexed_type(name, types)

        assert len(built.content) == len(each.index)
        assert meanings(built.content, type_of) == meanings(each.index, type_of)
