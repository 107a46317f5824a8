"""What runs in Spark's Python workers for Avro data files: the container, block after block.

Pickled by value together with :mod:`paimon_index.spark.worker`. Blocks are expanded here, with codecs of
pyarrow, and their records are read by :mod:`paimon_index.spark.worker_avro_rows`.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from paimon_index.spark.worker_avro_rows import avro_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_BUFFER_BYTES: Final = 1 << 20
_LONGEST: Final = 10
"""Bytes of a 64-bit number."""
_MORE: Final = 0x80
"""Bit of a byte after which more of a number follow."""


def avro_blocks(
    source: Any,
    wanted: pa.Schema,
) -> Iterator[tuple[int, Callable[[], pa.Table]]]:
    """Row counts of the blocks of a file, and functions that read them.

    Args:
        source: the file, opened.
        wanted: the columns to read; those that the file lacks are left out. Values come in the file's types.

    Raises:
        ValueError: it is no Avro file as Paimon writes it, or it is damaged.
        ModuleNotFoundError: fastavro is not installed here.
    """
    stream = pa.BufferedInputStream(source, _BUFFER_BYTES)
    if _take(stream, len(_MAGIC)) != _MAGIC:
        raise ValueError("expected an Avro file, which begins with Obj")
    header = _header(stream)
    sync = _take(stream, _SYNC_BYTES)
    schema, codec = json.loads(header.get("avro.schema", b"null")), header.get("avro.codec", b"null").decode()
    decode = avro_rows(schema, wanted)
    while (count := _number(stream, may_end=True)) is not None:
        content = _take(stream, _number(stream) or 0)
        if _take(stream, _SYNC_BYTES) != sync:
            raise ValueError("expected the file's sync marker after a block of Avro")

        def load(count: int = count, content: bytes = content) -> pa.Table:
            return decode(count, _expanded(codec, content))

        yield count, load


def _expanded(codec: str, content: bytes) -> bytes:
    """A block without its compression."""
    match codec:
        case "null":
            return content
        case "deflate":
            return zlib.decompress(content, -zlib.MAX_WBITS)
        case "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
                return bytes(stream.read())
        case "bzip2":
            with pa.CompressedInputStream(pa.BufferReader(content), "bz2") as stream:
                return bytes(stream.read())
        case "snappy":
            # Snappy begins with the length, seven bits a byte, and Avro ends it with a checksum.
            length = shift = 0
            for byte in content[:_LONGEST]:
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < _MORE:
                    break
            return bytes(pa.decompress(content[:-4], length, "snappy", asbytes=True))
    raise ValueError(f"Avro files compressed as {codec} are not read")


def _header(stream: Any) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    while count := _number(stream) or 0:
        if count < 0:  # its bytes are counted, too
            _number(stream)
        for _ in range(abs(count)):
            name = _take(stream, _number(stream) or 0).decode()
            entries[name] = _take(stream, _number(stream) or 0)
    return entries


def _number(stream: Any, *, may_end: bool = False) -> int | None:
    """A number as Avro writes it; None at the end of the file where that may be."""
    packed = 0
    for place in range(_LONGEST):
        byte: bytes = stream.read(1)
        if not byte and not place and may_end:
            return None
        if not byte:
            break
        packed |= (byte[0] & 0x7F) << (7 * place)
        if byte[0] < _MORE:
            return (packed >> 1) ^ -(packed & 1)
    raise ValueError("expected a number in an Avro file, found its end")


def _take(stream: Any, length: int) -> bytes:
    content: bytes = stream.read(length) if length >= 0 else b""
    if length < 0 or len(content) != length:
        raise ValueError(f"expected {length} bytes more in an Avro file, found {len(content)}")
    return content
