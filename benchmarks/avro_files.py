"""Writes Avro files out of records that are encoded already, quicker than a library encodes them.

A library writes the head of the file, with schema, codec and sync marker. Blocks are cut and compressed as
the engine's are: at 64,000 bytes, as zstd frames of level 1.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa

_CODEC: Final = "zstandard"
_SYNC_BYTES: Final = 16
_BLOCK_BYTES: Final = 64_000
_ZSTD: Final = pa.Codec("zstd", compression_level=1)


def write_records(path: Path, schema: dict[str, Any], records: Sequence[dict[str, Any]]) -> int:
    """Write a file of records that the library encodes; return its bytes."""
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, codec=_CODEC)
    return path.stat().st_size


def write_encoded(path: Path, schema: dict[str, Any], records: Iterable[Sequence[bytes]]) -> int:
    """Write a file of records that are encoded by ``schema``, each in pieces; return its bytes."""
    head = io.BytesIO()
    fastavro.writer(head, schema, [], codec=_CODEC)
    sync = head.getvalue()[-_SYNC_BYTES:]
    with path.open("wb") as file:
        file.write(head.getvalue())
        for count, block in _blocks(records):
            compressed = _ZSTD.compress(block, asbytes=True)
            file.write(long(count) + long(len(compressed)) + compressed + sync)
        return file.tell()


def long(number: int) -> bytes:
    """Return a number as Avro has it: zigzag, seven bits a byte, lowest first."""
    left = number << 1 if number >= 0 else ~number << 1 | 1
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def _blocks(records: Iterable[Sequence[bytes]]) -> Iterable[tuple[int, bytes]]:
    """Numbers of records, and their bytes; no block is empty."""
    count, size = 0, 0
    pieces: list[bytes] = []
    for record in records:
        pieces += record
        count += 1
        size += sum(map(len, record))
        if size >= _BLOCK_BYTES:
            yield count, b"".join(pieces)
            count, size, pieces = 0, 0, []
    if count:
        yield count, b"".join(pieces)
