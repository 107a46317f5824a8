"""Files of metadata records, in whichever format a table has them.

A table has one format for all of them, its option ``manifest.format``. The files themselves tell which: what
they begin with is what the reader needs to be right about, a version of long ago may have had another option,
and index manifests are read where no schema is known.

=========  ============================
bytes      format
=========  ============================
``Obj``    :mod:`app.table.avro.container`
``ORC``    :mod:`app.table.columnar.records`
``PAR1``   the same
=========  ============================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.avro import container as avro
from app.table.avro import whole_records
from app.table.avro.whole_records import WholeRecords
from app.table.columnar.records import KINDS, read_columnar
from app.table.records.columns import RecordColumns, RecordOf
from app.types.roaring import Buffer

_MAGIC_BYTES: Final = 4


def read_columns(data: Buffer, expected: RecordOf) -> RecordColumns:
    """All records of a file, column by column."""
    kind = _columnar_kind(data)
    return avro.read_columns(data, expected) if kind is None else read_columnar(kind, data, expected)


def read_pieces(data: Buffer, expected: RecordOf) -> Iterable[pa.StructArray]:
    """The same records in pieces, each as it is decoded if the format allows."""
    kind = _columnar_kind(data)
    if kind is None:
        return avro.read_pieces(data, expected)
    return read_columnar(kind, data, expected).pieces


def read_whole(data: Buffer, expected: RecordOf) -> WholeRecords:
    """All records of a file with all of their fields.

    Of ORC and Parquet the expected fields are all: the releases that write other ones write Avro alone.
    """
    if _columnar_kind(data) is None:
        return whole_records.read_whole(data, expected)
    columns = read_columns(data, expected)
    values = zip(*(columns.objects(name) for name in expected.fields), strict=True)
    return WholeRecords(expected, [dict(zip(expected.fields, row, strict=True)) for row in values])


def _columnar_kind(data: Buffer) -> str | None:
    """Whether a file is one of ORC or of Parquet; None for Avro."""
    start = bytes(data[:_MAGIC_BYTES])
    if start == avro.MAGIC:
        return None
    for magic, kind in KINDS.items():
        if start.startswith(magic):
            return kind
    raise CorruptMetadataError(f"expected an Avro, ORC or Parquet file, found one of {start!r}", offset=0)


def is_orc(data: Buffer) -> bool:
    """Whether a file is one of ORC."""
    return _columnar_kind(data) == "ORC"


def check_version(records: RecordColumns, version: int, what: str) -> None:
    """Refuses records of a version that is not known."""
    versions = records.integers("_VERSION", np.int32)
    for row in np.flatnonzero(versions != version)[:1]:
        raise UnsupportedFormatError(f"{what} of version {versions[row]} cannot be read")
