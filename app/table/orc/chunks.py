"""Streams of an ORC file, which are compressed in chunks.

A chunk is three bytes and its content. They are a number, little endian: twice the bytes of the content, plus
one where that is not compressed. What a chunk expands to is no larger than the file's block size.

====  =======  =========================
code  codec    content
====  =======  =========================
0     none     there are no chunks
1     zlib     raw deflate
2     snappy   raw snappy
4     lz4      a block of LZ4
5     zstd     one zstd frame
====  =======  =========================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import cramjam
import numpy as np

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.records.codecs import expand, expand_raw_snappy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.types.roaring import Buffer

_NONE, _ZLIB, _SNAPPY, _LZ4, _ZSTD = 0, 1, 2, 4, 5
_STREAMED: Final = {_ZLIB: "deflate", _ZSTD: "zstandard"}
_CODES: Final = frozenset({_NONE, _ZLIB, _SNAPPY, _LZ4, _ZSTD})
_HEAD_BYTES: Final = 3
_MAX_BLOCK_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class ChunkCodec:
    """How the streams of a file are compressed.

    Attributes:
        code: see above.
        block_bytes: most bytes that a chunk expands to.
    """

    code: int
    block_bytes: int

    def __post_init__(self) -> None:
        """Checks both.

        Raises:
            CorruptMetadataError: chunks that no writer makes as large.
            UnsupportedFormatError: another codec.
        """
        if self.code not in _CODES:
            raise UnsupportedFormatError(f"ORC codec {self.code} is not supported")
        if self.code != _NONE and not 0 < self.block_bytes <= _MAX_BLOCK_BYTES:
            raise CorruptMetadataError(f"an ORC file with blocks of {self.block_bytes} bytes")

    def expand(self, stream: Buffer, limit: int) -> bytes:
        """A stream without its compression.

        Raises:
            CorruptMetadataError: a chunk is damaged, or all expand to more than ``limit`` bytes.
        """
        if self.code == _NONE:
            return bytes(stream)
        parts: list[Buffer] = []
        left = limit
        for is_plain, content in _chunks(stream):
            part = content if is_plain else self._expand(content)
            left -= len(part)
            if left < 0:
                raise CorruptMetadataError(f"a stream that expands to more than {limit} bytes")
            parts.append(part)
        return b"".join(parts)

    def _expand(self, content: Buffer) -> Buffer:
        if self.code in _STREAMED:
            return expand(_STREAMED[self.code], content, self.block_bytes)
        if self.code == _SNAPPY:
            return expand_raw_snappy(content, self.block_bytes)
        expanded = np.empty(self.block_bytes, np.uint8).data
        try:
            size = cramjam.lz4.decompress_block_into(content, expanded, self.block_bytes)
        except cramjam.DecompressionError as error:
            raise CorruptMetadataError(f"expected a block of LZ4, found damage: {error}") from error
        return expanded[:size]


def _chunks(stream: Buffer) -> Iterator[tuple[bool, Buffer]]:
    """Whether a chunk is plain, and its content."""
    at = 0
    while at < len(stream):
        head = int.from_bytes(stream[at : at + _HEAD_BYTES], "little")
        start, length = at + _HEAD_BYTES, head >> 1
        if length > len(stream) - start:
            raise CorruptMetadataError(f"a chunk of {length} bytes beyond the end of its stream")
        yield bool(head & 1), stream[start : start + length]
        at = start + length
