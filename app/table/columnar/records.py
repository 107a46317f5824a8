"""Records of ORC and Parquet files, as tables have them under ``manifest.format`` ``orc`` and ``parquet``.

``_CREATION_TIME`` of ORC is left out: it is a timestamp, for which the reader opens a file of time zones that
the writer names, and nothing asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from app.errors import CorruptMetadataError
from app.table.columnar.decoder import DECODER
from app.table.records.arrow_records import column_paths, decoding, fit_records
from app.table.records.columns import RecordColumns, memory_of
from app.table.records.expansion import Allowance, allowed_bytes
from app.table.records.expected import RecordOf
from app.types.roaring import Buffer

KINDS: Final[Mapping[bytes, str]] = {b"ORC": "ORC", b"PAR1": "Parquet"}
"""Formats by what their files begin with."""

_LEFT_OUT: Final = ("ORC", "_FILE._CREATION_TIME")
# What nearly every file is content with: to read one record of ORC takes 32 MiB.
_USUAL_BYTES: Final = 64 << 20
_USUAL_EXPANSION: Final = 16


def read_columnar(kind: str, data: Buffer, expected: RecordOf) -> RecordColumns:
    """All records of a file, column by column.

    Args:
        kind: one of :data:`KINDS`.
        data: the whole file.
        expected: the fields that every record must have; nullable ones may be absent.

    Raises:
        CorruptMetadataError: the bytes are not such a file, or it takes more memory than any of its size, or
            too long.
        MemoryShortError: there is no memory for it now.
    """
    columns = [path for path in column_paths(expected) if (kind, path) != _LEFT_OUT]
    allowance = Allowance(len(data))
    stream = _decode(kind, data, columns, allowance)
    with decoding(kind):
        table = pa.ipc.open_stream(stream).read_all()
        # Every record names a file of its own, which no codec can shrink below a byte.
        if table.num_rows > len(data):
            raise CorruptMetadataError(f"{table.num_rows} records in {len(data)} bytes")
        pieces = table.to_struct_array().chunks or [pa.array([], pa.struct(table.schema))]
        fitted = [fit_records(piece, expected) for piece in pieces]
        allowance.take(sum(map(memory_of, fitted)), "records")
        # A copy: of columns that share the memory of a stream, one keeps all of it.
        return RecordColumns([pa.concat_arrays([fitted[0].slice(0, 0), *fitted])])


def _decode(kind: str, data: Buffer, columns: Sequence[str], allowance: Allowance) -> bytes:
    """The columns as an Arrow stream."""
    most = allowed_bytes(len(data))
    usual = min(max(_USUAL_BYTES, _USUAL_EXPANSION * len(data)), most)
    allowance.hold(usual)
    answer = DECODER.decode(kind, data, columns, usual)
    if answer.may_be_short and usual < most:
        # A library that has no memory says so in as many ways as it names damage.
        allowance.hold(most)
        answer = DECODER.decode(kind, data, columns, most)
    if answer.fault:
        raise CorruptMetadataError(
            f"the {kind} file cannot be decoded: {answer.fault}; if the engine reads the table, report this "
            "file, else roll the table back to a snapshot before it"
        )
    return answer.stream
