"""Metadata in Parquet files, as tables have it under ``manifest.format=parquet``.

========== =========== =====================================================================
offset     type        value
========== =========== =====================================================================
0          4 bytes     ``PAR1``
..         row groups  a series of pages per column (:mod:`app.table.parquet_pages`)
..         footer      schema, and where the columns of each row group lie, in Thrift
-8         u32 LE      length of the footer
-4         4 bytes     ``PAR1``
========== =========== =====================================================================

pyarrow reads them. Before that the footer is held to a size, and the pages to what they may expand to.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import CorruptMetadataError
from app.table.arrow_records import column_paths, decoding, fit_records, is_chosen
from app.table.parquet_pages import check_pages
from app.table.record_columns import RecordColumns

if TYPE_CHECKING:
    from app.table.avro_schema import RecordOf
    from app.types.roaring import Buffer

MAGIC: Final = b"PAR1"

_TAIL: Final = struct.Struct("<I4s")
_MAX_FOOTER_BYTES: Final = 4 << 20
# Room is made for as many items as a list of the footer claims to have, before they are read.
_MAX_FOOTER_ITEMS: Final = 10_000


def read_parquet(data: Buffer, expected: RecordOf) -> RecordColumns:
    """All records of a file, column by column.

    Args:
        data: the whole file.
        expected: the fields that every record must have; nullable ones may be absent.

    Raises:
        CorruptMetadataError: the bytes are not such a file.
        UnsupportedFormatError: the file is compressed by an unknown codec.
    """
    _check_footer(data)
    wanted = list(column_paths(expected))
    with decoding("Parquet"):
        file = pq.ParquetFile(
            pa.BufferReader(data),
            pre_buffer=False,
            thrift_string_size_limit=_MAX_FOOTER_BYTES,
            thrift_container_size_limit=_MAX_FOOTER_ITEMS,
        )
        paths = [file.schema.column(number).path for number in range(len(file.schema))]
        chosen = (at for at, path in enumerate(paths) if is_chosen(path, wanted))
        check_pages(data, file.metadata, frozenset(chosen))
        table = file.read(wanted, use_threads=False)
    return RecordColumns([fit_records(table, expected)])


def _check_footer(data: Buffer) -> None:
    size = len(data)
    if size < len(MAGIC) + _TAIL.size:
        raise CorruptMetadataError(f"expected a Parquet file, found {size} bytes")
    length, magic = _TAIL.unpack_from(data, size - _TAIL.size)
    if magic != MAGIC:
        raise CorruptMetadataError(
            f"expected a Parquet file to end with {MAGIC!r}, found {magic!r}", offset=size - len(MAGIC)
        )
    if length > min(size - len(MAGIC) - _TAIL.size, _MAX_FOOTER_BYTES):
        raise CorruptMetadataError(f"a Parquet footer of {length} bytes", offset=size - _TAIL.size)
