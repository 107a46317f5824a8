"""An Arrow IPC stream, read as its bytes come in.

::

    message   int32 -1, int32 length of the metadata, metadata (a flatbuffer), body
    end       int32 -1, int32 0

Bytes are pushed into the reader, so that it serves both clients. Pyarrow reads only from blocking files. A
stream without its end was cut and is an error.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from paimon_index.errors import IncompleteAnswerError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX: Final = struct.Struct("<ii")
_CONTINUATION: Final = -1
_MOST_METADATA_BYTES: Final = 64 << 20


class ArrowStream:
    """Decodes the record batches of a stream. ``schema`` is None until it has arrived."""

    def __init__(self) -> None:
        self.schema: pa.Schema | None = None
        self.received_bytes = 0
        self._buffer = bytearray()
        self._is_ended = False

    def feed(self, piece: bytes) -> Iterator[pa.RecordBatch]:
        """Add bytes, and yield the batches that are complete now.

        Raises IncompleteAnswerError if the bytes are not an Arrow stream.
        """
        self.received_bytes += len(piece)
        self._buffer += piece
        try:
            while (content := self._next_message()) is not None:
                message = pa.ipc.read_message(content)
                if self.schema is None:
                    self.schema = pa.ipc.read_schema(message)
                else:
                    yield pa.ipc.read_record_batch(message, self.schema)
        except pa.ArrowException as error:
            raise IncompleteAnswerError(f"the answer is not an Arrow stream: {error}") from error

    def check_ended(self) -> None:
        """Raise :class:`IncompleteAnswerError` unless the stream's end came last."""
        if not self._is_ended or self._buffer:
            raise IncompleteAnswerError(
                f"the plan ended early, after {self.received_bytes} bytes: it is incomplete, ask again"
            )

    def _next_message(self) -> bytes | None:
        """Take the first message from the buffer. Return None until it is complete."""
        if len(self._buffer) < _PREFIX.size:
            return None
        mark, metadata_bytes = _PREFIX.unpack_from(self._buffer)
        if mark != _CONTINUATION or metadata_bytes < 0 or self._is_ended:
            raise IncompleteAnswerError(
                "the answer is not an Arrow stream; is the base URL that of paimon-index?"
            )
        if metadata_bytes > _MOST_METADATA_BYTES:
            raise IncompleteAnswerError(
                f"the answer announces {metadata_bytes} bytes of Arrow metadata, and no plan has more than "
                f"{_MOST_METADATA_BYTES}; is the base URL that of paimon-index?"
            )
        if metadata_bytes == 0:
            self._is_ended = True
            del self._buffer[: _PREFIX.size]
            return None
        if len(self._buffer) < _PREFIX.size + metadata_bytes:
            return None
        length = _message_bytes(self._buffer)
        if length is None:
            return None
        message = bytes(self._buffer[:length])
        del self._buffer[:length]
        return message


def _message_bytes(buffer: bytearray) -> int | None:
    """Return the length of the first message. Return None until it is complete."""
    # In a function of its own: the buffer cannot shrink while the reader lives.
    source = pa.BufferReader(buffer)
    try:
        pa.ipc.read_message(source)
    except OSError:
        return None  # the body is incomplete
    return int(source.tell())
