"""Metadata in ORC files, as tables have it under ``manifest.format=orc``.

pyarrow reads them, once what it would take is known (:mod:`app.table.orc.streams`). ``_CREATION_TIME`` is
left out: it is a timestamp, for which the reader opens a file of time zones that the writer names, and
nothing asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import orc

from app.table.orc.streams import check_streams
from app.table.records.arrow_records import column_paths, decoding, fit_records
from app.table.records.columns import RecordColumns

if TYPE_CHECKING:
    from app.table.records.expected import RecordOf
    from app.types.roaring import Buffer

MAGIC: Final = b"ORC"

_LEFT_OUT: Final = "_FILE._CREATION_TIME"


def read_orc(data: Buffer, expected: RecordOf) -> RecordColumns:
    """All records of a file, column by column.

    Args:
        data: the whole file.
        expected: the fields that every record must have; nullable ones may be absent.

    Raises:
        CorruptMetadataError: the bytes are not such a file.
        UnsupportedFormatError: the file is compressed by an unknown codec, or of an encoding of long ago.
    """
    wanted = [path for path in column_paths(expected) if path != _LEFT_OUT]
    check_streams(data, wanted)
    with decoding("ORC"):
        file = orc.ORCFile(pa.BufferReader(data))
        table = file.read(_present(file.schema, wanted))
    return RecordColumns([fit_records(table, expected)])


def _present(schema: pa.Schema, wanted: list[str]) -> list[str]:
    """Names of the columns that are there; the reader takes no other."""
    present = []
    for path in wanted:
        inside: pa.Schema | pa.StructType = schema
        *parents, name = path.split(".")
        for parent in parents:
            inside = inside.field(parent).type
        if inside.get_field_index(name) >= 0:
            present.append(path)
    return present
