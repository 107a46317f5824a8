"""Reads columns of local data files, batch by batch, with Paimon's types where the file determines them.

==================================  ===================================================================
Arrow type                          Paimon type
==================================  ===================================================================
bool                                BOOLEAN
int8, int16, int32, int64           TINYINT, SMALLINT, INT, BIGINT
float, double                       FLOAT, DOUBLE
decimal of p digits, scale s        DECIMAL(p, s)
string and its large and view form  STRING
binary, its large and view form     BYTES
fixed_size_binary of n bytes        BINARY(n)
date32                              DATE
time32, time64                      TIME(0), TIME(3), TIME(6), TIME(9) by its unit
timestamp, with a zone              TIMESTAMP(0), (3), (6), (9) by its unit, WITH LOCAL TIME ZONE
map                                 MAP of these
dictionary                          the type of its values
==================================  ===================================================================

CHAR and VARCHAR appear as STRING, BINARY and VARBINARY as BYTES. Their indexes are equal. ORC has timestamps
of one precision only, and Avro no integers below INT: such columns must be declared, since an index of a
guessed type loses rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc
from pyarrow import parquet as pq

from app.errors import (
    CorruptFileError,
    FileMissingError,
    IndexWriteError,
    RequestError,
    StorageError,
    UnsupportedFormatError,
)
from app.options import split_map_key
from app.options.file_indexes import map_key_name
from app.table import AvroFile
from app.types import DataType, TypeRoot, parse_type

Advance: TypeAlias = "Callable[[int], None]"
"""Receives the amount of work done, in the caller's unit."""

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_SIMPLE: Final = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int8, "TINYINT"),
    (pa.types.is_int16, "SMALLINT"),
    (pa.types.is_int32, "INT"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_float32, "FLOAT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_date32, "DATE"),
    (pa.types.is_string, "STRING"),
    (pa.types.is_large_string, "STRING"),
    (pa.types.is_string_view, "STRING"),
    (pa.types.is_binary, "BYTES"),
    (pa.types.is_large_binary, "BYTES"),
    (pa.types.is_binary_view, "BYTES"),
)

_BATCH_ROWS: Final = 1 << 16


def ignore_progress(_done: int) -> None:
    """Drop progress."""


def read_columns(
    file: DataFile, names: Collection[str], advance: Advance = ignore_progress
) -> dict[str, pa.ChunkedArray]:
    """Read columns, one value a row.

    ``names``: columns, or ``column[key]`` for the values of a map column under one key. Raises
    IndexWriteError if a map has a key twice, CorruptFileError or StorageError if the file cannot be read.
    """
    places = {name: split_map_key(name) for name in names}
    chunks: dict[str, list[pa.Array]] = {name: [] for name in places}
    row = 0
    for batch in file.batches(sorted({column for column, _ in places.values()})):
        for name, (column, key) in places.items():
            values = batch.column(column)
            if key is not None:
                values = values_under(values, key, column=column, first_row=row)
            chunks[name].append(values)
        row += batch.num_rows
        advance(batch.num_rows)
    if row != file.row_count:
        raise CorruptFileError(f"expected {file.row_count} rows, found {row}").at(str(file.path))
    return {
        name: pa.chunked_array(parts) if parts else pa.chunked_array([], _declared_type(file, *places[name]))
        for name, parts in chunks.items()
    }


def _declared_type(file: DataFile, column: str, key: str | None) -> pa.DataType:
    arrow_type = file.schema.field(column).type
    return arrow_type if key is None else arrow_type.item_type


def values_under(maps: pa.MapArray, key: str, *, column: str, first_row: int) -> pa.Array:
    """Return one value a row: null if the map is null, lacks the key or has null under it.

    ``first_row``: row of the first map in the file, for errors. Raises IndexWriteError if a map has the key
    twice.
    """
    offsets = np.asarray(maps.offsets)
    entries = np.flatnonzero(np.asarray(pc.equal(maps.keys, pa.scalar(key, maps.keys.type))))
    entries = entries[(entries >= offsets[0]) & (entries < offsets[-1])]
    rows = np.searchsorted(offsets, entries, side="right") - 1
    # A null map may have entries between its offsets, which belong to no row.
    held = np.asarray(maps.is_valid())[rows]
    entries, rows = entries[held], rows[held]
    repeated = np.flatnonzero(rows[1:] == rows[:-1])
    if len(repeated):
        raise IndexWriteError(
            "expected each key once in a map, found it twice",
            column=map_key_name(column, key),
            row=first_row + int(rows[repeated[0]]),
        )
    places = np.full(len(maps), -1)
    places[rows] = entries
    return maps.items.take(pa.array(places, mask=places < 0))


@dataclass(frozen=True, slots=True, eq=False)
class ColumnTypes(Mapping[str, DataType]):
    """Types by column, declared or else the file's. Raises RequestError if the file determines none."""

    file: DataFile
    declared: Mapping[str, DataType]  # Types by column. Names that the file lacks are ignored.

    def __getitem__(self, column: str) -> DataType:
        at = self.file.schema.get_field_index(column)
        if at < 0:
            raise KeyError(column)
        if column in self.declared:
            return self.declared[column]
        return _paimon_type(self.file.schema.field(at).type, column, self.file.format)

    def __iter__(self) -> Iterator[str]:
        return iter(self.file.schema.names)

    def __len__(self) -> int:
        return len(self.file.schema.names)


def _paimon_type(arrow_type: pa.DataType, column: str, data_format: DataFormat) -> DataType:
    if data_format is DataFormat.ORC and pa.types.is_timestamp(arrow_type):
        raise _untold(column, "the precision of a timestamp", "TIMESTAMP(3)")
    if data_format is DataFormat.AVRO and pa.types.is_int32(arrow_type):
        raise _untold(column, "TINYINT and SMALLINT from INT", "INT")
    if pa.types.is_dictionary(arrow_type):
        return _paimon_type(arrow_type.value_type, column, data_format)
    if pa.types.is_map(arrow_type):
        key, value = (
            _paimon_type(part, column, data_format) for part in (arrow_type.key_type, arrow_type.item_type)
        )
        return DataType(TypeRoot.MAP, children=(key, value), text=f"MAP<{key}, {value}>")
    text = _type_text(arrow_type)
    return DataType(TypeRoot.OTHER, text=str(arrow_type)) if text is None else parse_type(text)


def _type_text(arrow_type: pa.DataType) -> str | None:
    for matches, text in _SIMPLE:
        if matches(arrow_type):
            return text
    if pa.types.is_decimal(arrow_type):
        return f"DECIMAL({arrow_type.precision}, {arrow_type.scale})"
    if pa.types.is_fixed_size_binary(arrow_type):
        return f"BINARY({arrow_type.byte_width})"
    if pa.types.is_time(arrow_type):
        return f"TIME({_DIGITS[arrow_type.unit]})"
    if pa.types.is_timestamp(arrow_type):
        zone = "" if arrow_type.tz is None else " WITH LOCAL TIME ZONE"
        return f"TIMESTAMP({_DIGITS[arrow_type.unit]}){zone}"
    return None


def _untold(column: str, label: str, example: str) -> RequestError:
    return RequestError(
        f"column {column!r}: its file does not tell {label}: declare its type as the table has it, such as "
        f"{column}={example}"
    )


class DataFormat(StrEnum):
    """Formats by their names in ``file.format``."""

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"


_MAGICS: Final = {b"PAR1": DataFormat.PARQUET, b"ORC": DataFormat.ORC, b"Obj\x01": DataFormat.AVRO}
_MAGIC_BYTES: Final = max(map(len, _MAGICS))


@dataclass(frozen=True, slots=True, eq=False)
class DataFile:
    """A local data file."""

    path: Path
    format: DataFormat
    size_bytes: int
    schema: pa.Schema  # Batches may have timestamps in microseconds where this has nanoseconds.
    row_count: int
    _batches: Callable[[list[str]], Iterator[pa.RecordBatch]]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read schema and row count.

        Raises FileMissingError, StorageError, CorruptFileError, or UnsupportedFormatError for other formats.
        """
        with _blame(path):
            data_format, size_bytes = _format(path), path.stat().st_size
            match data_format:
                case DataFormat.PARQUET:
                    with pq.ParquetFile(path) as file:
                        schema, row_count = file.schema_arrow, file.metadata.num_rows
                    return cls(path, data_format, size_bytes, schema, row_count, partial(_parquet, path))
                case DataFormat.ORC:
                    stripes = orc.ORCFile(path)
                    schema, row_count = stripes.schema, stripes.nrows
                    return cls(path, data_format, size_bytes, schema, row_count, partial(_orc, path))
                case DataFormat.AVRO:
                    avro = AvroFile.open(path)
                    schema, row_count = avro.schema, avro.row_count
                    return cls(path, data_format, size_bytes, schema, row_count, lambda _: avro.batches())
                case _:
                    assert_never(data_format)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order. Batches may have more columns than requested.

        Raises StorageError, or CorruptFileError for a damaged file or a value that Arrow cannot hold.
        """
        with _blame(self.path):
            yield from self._batches(list(columns))


def _parquet(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    # INT96 has a wider range than nanoseconds in 64 bits, and no index holds more than microseconds.
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        yield from file.iter_batches(_BATCH_ROWS, columns=columns)


def _orc(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    file = orc.ORCFile(path)
    for stripe in range(file.nstripes):
        yield file.read_stripe(stripe, columns)


def _format(path: Path) -> DataFormat:
    with path.open("rb") as file:
        start = file.read(_MAGIC_BYTES)
    data_format = next((name for magic, name in _MAGICS.items() if start.startswith(magic)), None)
    if data_format is None:
        raise UnsupportedFormatError(f"{path}: expected a Parquet, ORC or Avro file, found {start!r}")
    return data_format


@contextmanager
def _blame(path: Path) -> Iterator[None]:
    try:
        yield
    except CorruptFileError as error:
        raise CorruptFileError(error.expectation, offset=error.offset).at(str(path)) from error
    except FileNotFoundError as error:
        raise FileMissingError(f"{path}: there is no such file", path=str(path)) from error
    except IsADirectoryError as error:
        raise StorageError(f"{path} is a directory: give one data file", path=str(path)) from error
    except OSError as error:
        # Arrow's readers raise OSError without a number for damaged content.
        if error.errno is None:
            raise CorruptFileError(_one_line(error)).at(str(path)) from error
        raise StorageError(f"{path}: {error.strerror}", path=str(path)) from error
    except pa.ArrowException as error:
        raise CorruptFileError(_one_line(error)).at(str(path)) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
