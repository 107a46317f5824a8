"""Entries of decoded columns: an Arrow IPC stream that verifies itself, in memory, on disk or in a store.

=========================  ================  =====================================================
offset                     type              meaning
=========================  ================  =====================================================
0                          Arrow IPC stream  the schema, then one batch of one row with *c* columns. A
                                             column's item is a list that holds its array, or a struct
                                             of lists. The buffers begin after *h* bytes.
*t*                        u64, little       xxh3_64 of the buffers of each column
*k*                        ASCII             the key of the entry
*end* - 40                 4 u64, little     *h*, *t*, *k*, *end*
*end* - 8                  u64, big          xxh3_64 of the *h* bytes, and of all from *t* to here
=========================  ================  =====================================================

Opening an entry verifies all but the buffers. A column is verified on first access, since most readers need
few columns, and untouched pages of a mapped file take no memory.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from app.work import MappedBytes

_PLACES: Final = struct.Struct("<4Q")
_CHECKSUM: Final = struct.Struct("<Q")
# Beginning of a stream's message: a mark, and the number of bytes before the buffers.
_MESSAGE_HEAD: Final = struct.Struct("<II")
# Memory of an opened batch.
_BATCH_BYTES: Final = 40 << 10


class DamagedEntryError(Exception):
    """An entry was altered after it was written. Its reader takes the original instead."""


def write_columns(key: bytes, columns: Mapping[str, pa.Array]) -> list[bytes | pa.Buffer]:
    """Encode an entry, in pieces. ``key``: ASCII. ``columns``: arrays of one item each."""
    batch, stream = pa.record_batch(dict(columns)), _Pieces()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    head = b"".join(takewhile(lambda piece: isinstance(piece, bytes), stream.pieces))
    start = sum(map(len, stream.pieces))
    tail = b"".join(_CHECKSUM.pack(_checksum(column)) for column in batch.columns)
    key_start = start + len(tail)
    end = key_start + len(key) + _PLACES.size + _CHECKSUM.size
    tail += key + _PLACES.pack(len(head), start, key_start, end)
    return [*stream.pieces, tail, xxhash.xxh3_64_digest(head + tail)]


class _Pieces(io.RawIOBase):
    """Collects a stream as Arrow writes it: bytes, and buffers without a copy."""

    def __init__(self) -> None:
        self.pieces: list[bytes | pa.Buffer] = []

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self.pieces.append(piece)
        return len(piece)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The columns of an entry, over its bytes."""

    data: NDArray[np.uint8]  # All bytes of the entry, shape (n,).
    checksums: NDArray[np.uint64]  # One per column.
    held: int  # Bytes of memory; 0 for a mapped file.
    _address: int
    _batch: list[pa.RecordBatch] = field(default_factory=list)

    @classmethod
    def read(cls, key: bytes, data: NDArray[np.uint8], *, held: int = 0) -> Self:
        """Read an entry. Raises DamagedEntryError if it is altered, or was written under another key."""
        places = len(data) - _CHECKSUM.size - _PLACES.size
        if places < 0:
            raise DamagedEntryError(f"expected at least {len(data) - places} bytes, found {len(data)}")
        head, start, key_start, end = _PLACES.unpack_from(data.data, places)
        if not head <= start <= key_start <= places or end != len(data):
            raise DamagedEntryError("cut, or its end is damaged")
        checksum = xxhash.xxh3_64(data[:head].data)
        checksum.update(data[start : -_CHECKSUM.size].data)
        if checksum.digest() != data[-_CHECKSUM.size :].tobytes():
            raise DamagedEntryError("its schema or its end is damaged")
        if data[key_start:places].tobytes() != key:
            raise DamagedEntryError("another entry")
        return cls(data, np.frombuffer(data[start:key_start], "<u8"), held, data.ctypes.data)

    def length(self, name: str) -> int:
        """Return the number of items in a list column, without verifying them."""
        return len(self._opened()[name].values)

    def __getitem__(self, name: str) -> pa.Array:
        """Return a column. Raises DamagedEntryError if it was altered after it was written."""
        batch = self._opened()
        at = batch.schema.get_field_index(name)
        column = batch.column(at)
        if _checksum(column) != self.checksums[at]:
            raise DamagedEntryError(f"column {name!r} is damaged")
        return column

    def _opened(self) -> pa.RecordBatch:
        # The batch is the only memory of a small mapped entry, so only the last few are cached. That cache
        # must not hold larger entries: a temporary file would stay on the disk as long as its mapping.
        if isinstance(self.data, MappedBytes) and self.held < _BATCH_BYTES:
            return _opened_last(self)
        if not self._batch:
            self._batch.append(_read_batch(self))
        return self._batch[0]

    def view(self, values: pa.Array) -> NDArray[Any]:
        """Return the numbers of a column as an array over ``data``."""
        kind = np.bool_ if isinstance(values, pa.Bool8Array) else values.type.to_pandas_dtype()
        if not len(values):
            return np.zeros(0, kind)
        return np.ndarray((len(values),), kind, self.data, values.buffers()[-1].address - self._address)


def _checksum(column: pa.Array) -> int:
    checksum = xxhash.xxh3_64()
    for buffer in column.buffers():
        if buffer is not None:
            checksum.update(buffer)
    return checksum.intdigest()


@lru_cache(1 << 8)
def _opened_last(columns: Columns) -> pa.RecordBatch:
    # Cached, since callers take several columns in a row.
    return _read_batch(columns)


def _read_batch(columns: Columns) -> pa.RecordBatch:
    _, size = _MESSAGE_HEAD.unpack_from(columns.data.data)
    size += _MESSAGE_HEAD.size
    message = pa.ipc.read_message(pa.py_buffer(columns.data).slice(size))
    return pa.ipc.read_record_batch(message, _schema(columns.data[:size].tobytes()))


@lru_cache(1 << 6)
def _schema(message: bytes) -> pa.Schema:
    # Many entries share a schema, and decoding it takes more time and memory than the rest.
    return pa.ipc.read_schema(pa.py_buffer(message))
