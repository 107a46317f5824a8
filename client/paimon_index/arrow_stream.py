"""An Arrow IPC stream, read as its bytes come in.

::

    message   int32 -1, int32 length of the metadata, metadata (a flatbuffer), body
    end       int32 -1, int32 0

pyarrow reads streams from files that block; here bytes are pushed, so that one reader serves both clients.
Where a body ends is told by ``bodyLength``, the fourth member of the table Message ("Encapsulated message
format" and ``Message.fbs`` of the Arrow specification). A stream without its end was cut and is an error.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_index.errors import IncompleteAnswerError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX: Final = struct.Struct("<iI")
_CONTINUATION: Final = -1
_BODY_LENGTH_SLOT: Final = 4 + 2 * 3
"""In a vtable two lengths come first, then an offset of 16 bits for each member."""


class ArrowStream:
    """Record batches of the bytes that were fed.

    Attributes:
        schema: None until it has come.
        received_bytes: so far.
    """

    def __init__(self) -> None:
        self.schema: pa.Schema | None = None
        self.received_bytes = 0
        self._buffer = bytearray()
        self._is_ended = False

    def feed(self, piece: bytes) -> Iterator[pa.RecordBatch]:
        """The batches that are whole now.

        Raises:
            IncompleteAnswerError: the bytes are no Arrow stream.
        """
        self.received_bytes += len(piece)
        self._buffer += piece
        while (length := self._message_bytes()) is not None:
            message = bytes(memoryview(self._buffer)[:length])
            del self._buffer[:length]
            if length == _PREFIX.size:
                self._is_ended = True
            elif (batch := self._read(message)) is not None:
                yield batch

    def check_ended(self) -> None:
        """States that all bytes were fed.

        Raises:
            IncompleteAnswerError: the stream's end is not among them.
        """
        if not self._is_ended or self._buffer:
            raise IncompleteAnswerError(
                f"the plan ended early, after {self.received_bytes} bytes: it is not whole, ask again"
            )

    def _message_bytes(self) -> int | None:
        """Length of the first message, once all of it is there."""
        buffer = self._buffer
        if len(buffer) < _PREFIX.size:
            return None
        mark, metadata_bytes = _PREFIX.unpack_from(buffer)
        if mark != _CONTINUATION or metadata_bytes < 0 or self._is_ended:
            raise IncompleteAnswerError(
                "the answer is no Arrow stream; is the base URL that of paimon-index?"
            )
        whole = _PREFIX.size + metadata_bytes
        if metadata_bytes == 0 or len(buffer) < whole:
            return whole if len(buffer) >= whole else None
        whole += _body_bytes(buffer, _PREFIX.size)
        return whole if len(buffer) >= whole else None

    def _read(self, written: bytes) -> pa.RecordBatch | None:
        try:
            message = pa.ipc.read_message(written)
            if self.schema is not None:
                return pa.ipc.read_record_batch(message, self.schema)
            self.schema = pa.ipc.read_schema(message)
        except pa.ArrowException as error:
            raise IncompleteAnswerError(f"the answer is no Arrow stream: {error}") from error
        return None


def _body_bytes(buffer: bytearray, start: int) -> int:
    """``bodyLength`` of the flatbuffer that begins at ``start``; 0 where it is left out."""
    try:
        (to_table,) = struct.unpack_from("<I", buffer, start)
        table = start + to_table
        (to_vtable,) = struct.unpack_from("<i", buffer, table)
        vtable = table - to_vtable
        (vtable_bytes,) = struct.unpack_from("<H", buffer, vtable)
        if vtable_bytes <= _BODY_LENGTH_SLOT:
            return 0
        (slot,) = struct.unpack_from("<H", buffer, vtable + _BODY_LENGTH_SLOT)
        length: int = struct.unpack_from("<q", buffer, table + slot)[0] if slot else 0
    except struct.error as error:
        raise IncompleteAnswerError("the answer is no Arrow stream: a message lies outside of it") from error
    if length < 0:
        raise IncompleteAnswerError("the answer is no Arrow stream: a body has a negative length")
    return length
