"""Reads files of metadata records in Avro, ORC or Parquet, identified by their magic bytes.

Magic bytes are more reliable than the table's option ``manifest.format``: an old version may have had another
option, and index manifests are read where no schema is at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.avro import container as avro
from app.table.avro import whole_records
from app.table.avro.lifting import Lifted
from app.table.avro.whole_records import WholeRecords
from app.table.columnar.records import KINDS, read_columnar
from app.table.records.columns import RecordColumns, RecordOf, take_out
from app.types import BytesColumn
from app.types.roaring import Buffer

_MAGIC_BYTES: Final = 4


def read_columns(data: Buffer, expected: RecordOf) -> RecordColumns:
    """Read all records of a file, column by column."""
    kind = _columnar_kind(data)
    return avro.read_columns(data, expected) if kind is None else read_columnar(kind, data, expected)


def read_apart(
    data: Buffer, expected: RecordOf, path: Sequence[str], start: bytes
) -> tuple[RecordColumns, BytesColumn]:
    """Read all records, and apart from them a column of nullable byte strings, which mostly begin alike."""
    kind = _columnar_kind(data)
    if kind is not None:
        return take_out(read_columnar(kind, data, expected).pieces, *path)
    found = _read_lifted(data, expected, path, start)
    # Otherwise another field has the bytes with which the column's strings begin, or the file is damaged.
    return found or take_out(avro.read_pieces(data, expected), *path)


def _read_lifted(
    data: Buffer, expected: RecordOf, path: Sequence[str], start: bytes
) -> tuple[RecordColumns, BytesColumn] | None:
    """Read records without decoding the strings of the column. Return None if one of them cannot be found."""
    lifted = Lifted(start, len(data))
    with suppress(CorruptMetadataError):
        records, column = take_out(avro.read_pieces(data, expected, lifted), *path)
        if (whole := lifted.put_back(column)) is not None:
            return records, whole
    return None


def read_whole(data: Buffer, expected: RecordOf) -> WholeRecords:
    """Read all records with all of their fields, also unknown ones."""
    if _columnar_kind(data) is None:
        return whole_records.read_whole(data, expected)
    # Releases that add fields write Avro alone: in ORC and Parquet the expected fields are all.
    columns = read_columns(data, expected)
    values = zip(*(columns.objects(name) for name in expected.fields), strict=True)
    return WholeRecords(expected, [dict(zip(expected.fields, row, strict=True)) for row in values])


def _columnar_kind(data: Buffer) -> str | None:
    start = bytes(data[:_MAGIC_BYTES])
    if start == avro.MAGIC:
        return None
    for magic, kind in KINDS.items():
        if start.startswith(magic):
            return kind
    raise CorruptMetadataError(
        f"expected an Avro, ORC or Parquet file, found one that begins with {start!r}", offset=0
    )


def is_orc(data: Buffer) -> bool:
    """Return True if a file is in ORC."""
    return _columnar_kind(data) == "ORC"


def check_version(records: RecordColumns, version: int, label: str) -> None:
    """Refuse records of an unknown version."""
    versions = records.integers("_VERSION", np.int32)
    for row in np.flatnonzero(versions != version)[:1]:
        raise UnsupportedFormatError(f"{label} of version {versions[row]} cannot be read")
