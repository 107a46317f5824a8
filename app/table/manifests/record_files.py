"""Files of metadata records, in whichever format a table has them.

A table has one format for all of them, its option ``manifest.format``. The files themselves tell which: what
they begin with is what the reader needs to be right about, a version of long ago may have had another option,
and index manifests are read where no schema is known.

=========  ============================
bytes      format
=========  ============================
``Obj``    :mod:`app.table.avro.container`
``ORC``    :mod:`app.table.orc.records`
``PAR1``   :mod:`app.table.parquet.records`
=========  ============================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.errors import CorruptMetadataError
from app.table.avro import container as avro
from app.table.orc.records import MAGIC as ORC_MAGIC
from app.table.orc.records import read_orc
from app.table.parquet.footer import MAGIC as PARQUET_MAGIC
from app.table.parquet.records import read_parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from app.table.avro.apart import ColumnApart
    from app.table.records.columns import RecordColumns
    from app.table.records.expected import RecordOf
    from app.types.bytes_column import BytesColumn
    from app.types.roaring import Buffer

_COLUMNAR: Final[Mapping[bytes, Callable[[Buffer, RecordOf], RecordColumns]]] = {
    ORC_MAGIC: read_orc,
    PARQUET_MAGIC: read_parquet,
}
_MAGIC_BYTES: Final = 4


def is_orc(data: Buffer) -> bool:
    """Whether a file is one of ORC."""
    return data[: len(ORC_MAGIC)] == ORC_MAGIC


def read_columns(data: Buffer, expected: RecordOf) -> RecordColumns:
    """All records of a file, column by column.

    Args:
        data: the whole file.
        expected: the fields that every record must have; nullable ones may be absent.

    Raises:
        CorruptMetadataError: the bytes are not such a file.
        UnsupportedFormatError: the file is compressed by an unknown codec.
    """
    columnar = _columnar_reader(data)
    return avro.read_columns(data, expected) if columnar is None else columnar(data, expected)


def read_columns_apart(
    data: Buffer, expected: RecordOf, column: ColumnApart
) -> tuple[RecordColumns, BytesColumn]:
    """As :func:`read_columns`, but one column of large values apart; records are without it."""
    columnar = _columnar_reader(data)
    if columnar is None:
        return avro.read_columns_apart(data, expected, column)
    return column.take_out(columnar(data, expected))


def _columnar_reader(data: Buffer) -> Callable[[Buffer, RecordOf], RecordColumns] | None:
    """What reads a file of ORC or Parquet; None for Avro."""
    start = bytes(data[:_MAGIC_BYTES])
    if start == avro.MAGIC:
        return None
    for magic, read in _COLUMNAR.items():
        if start.startswith(magic):
            return read
    raise CorruptMetadataError(f"expected an Avro, ORC or Parquet file, found one of {start!r}", offset=0)
