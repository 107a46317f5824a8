"""Golden tables of other writers than the Java engine; the README beside the archive says what is in them."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from app.types import DataField, Value
from app.types.data_types import TIMESTAMP_ROOTS, TypeRoot

TABLES: Final = (
    ("pypaimon", "parquet_files"),
    ("pypaimon", "orc_files"),
    ("pypaimon", "keyed"),
    ("rust", "parquet_files"),
)

_ARCHIVE: Final = Path(__file__).parent / "golden" / "other_writers" / "warehouse.tar.xz"


def unpack(directory: Path) -> Path:
    """Unpacks the warehouse into ``directory``, and returns it."""
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    return directory / "warehouse"


def rows_of(file: Path, fields: Sequence[DataField]) -> Mapping[str, Sequence[Value | None]]:
    """The values in a data file by column, as predicates have them."""
    read = pyarrow.orc.read_table if file.suffix == ".orc" else pyarrow.parquet.read_table
    table = read(file)
    return {field.name: _values(table.column(field.name), field) for field in fields}


def _values(column: pa.ChunkedArray, field: DataField) -> list[Value | None]:
    root = field.type.root
    if root in TIMESTAMP_ROOTS:
        zone = column.type.tz
        column = column.cast(pa.timestamp("ns", tz=zone)).cast(pa.int64())
    elif root is TypeRoot.DATE:
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    match root:
        case TypeRoot.DECIMAL:
            return [None if each is None else int(each.scaleb(field.type.scale)) for each in values]
        case TypeRoot.VARCHAR:
            return [None if each is None else each.encode() for each in values]
        case _:
            return values
