"""Metadata in Parquet files, as tables have it under ``manifest.format=parquet``.

pyarrow reads them, once the footer and the headers of pages have been read and what they claim has been added
up (:mod:`app.table.parquet.footer`, :mod:`app.table.parquet.pages`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from app.table.parquet.footer import ParquetFooter
from app.table.parquet.pages import check_pages
from app.table.parquet.thrift import MOST_ITEMS
from app.table.records.arrow_records import column_paths, decoding, fit_records
from app.table.records.columns import RecordColumns

if TYPE_CHECKING:
    from app.table.records.expected import RecordOf
    from app.types.roaring import Buffer


def read_parquet(data: Buffer, expected: RecordOf) -> RecordColumns:
    """All records of a file, column by column.

    Args:
        data: the whole file.
        expected: the fields that every record must have; nullable ones may be absent.

    Raises:
        CorruptMetadataError: the bytes are not such a file.
        UnsupportedFormatError: the file is compressed by an unknown codec.
    """
    wanted = list(column_paths(expected))
    footer = ParquetFooter.read(data)
    check_pages(data, footer, wanted)
    with decoding("Parquet"):
        file = pq.ParquetFile(
            pa.BufferReader(data),
            pre_buffer=False,
            thrift_string_size_limit=footer.nbytes,
            thrift_container_size_limit=MOST_ITEMS,
        )
        table = file.read(wanted, use_threads=False)
    return RecordColumns([fit_records(table, expected)])
