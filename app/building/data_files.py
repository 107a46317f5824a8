"""Data files of this machine: their columns, a batch of rows at a time.

What a file says about types is Arrow's; :mod:`app.building.columns` tells what Paimon calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, Self, assert_never

import pyarrow as pa
from pyarrow import orc
from pyarrow import parquet as pq

from app.errors import CorruptFileError, FileMissingError, StorageError, UnsupportedFormatError
from app.table.avro.data_files import AvroFile

_BATCH_ROWS: Final = 1 << 16


class DataFormat(StrEnum):
    """Formats by their names in ``file.format``."""

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"


_MAGICS: Final = {b"PAR1": DataFormat.PARQUET, b"ORC": DataFormat.ORC, b"Obj\x01": DataFormat.AVRO}
_MAGIC_BYTES: Final = max(map(len, _MAGICS))


@dataclass(frozen=True, slots=True, eq=False)
class DataFile:
    """A data file.

    ``schema``: its columns; what is a timestamp of nanoseconds here may come in batches as one of
    microseconds.
    """

    path: Path
    format: DataFormat
    size_bytes: int
    schema: pa.Schema
    row_count: int
    _batches: Callable[[list[str]], Iterator[pa.RecordBatch]]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Reads what the file says about itself.

        Raises:
            FileMissingError: there is no such file.
            StorageError: it cannot be read.
            UnsupportedFormatError: it is of another format.
            CorruptFileError: it is damaged.
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
        """All rows, in their order.

        Args:
            columns: names of the columns to read; batches may have others as well.

        Raises:
            CorruptFileError: the file is damaged, or has a value that Arrow cannot hold.
            StorageError: it cannot be read.
        """
        with _blame(self.path):
            yield from self._batches(list(columns))


def _parquet(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    # INT96 reaches further than nanoseconds in 64 bits do, and no index holds more than microseconds.
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
    except OSError as error:
        # Arrow's readers raise it without a number for what they find inside of a file.
        if error.errno is None:
            raise CorruptFileError(_one_line(error)).at(str(path)) from error
        raise StorageError(f"{path}: {error.strerror}", path=str(path)) from error
    except pa.ArrowException as error:
        raise CorruptFileError(_one_line(error)).at(str(path)) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
