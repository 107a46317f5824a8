"""Reads Avro data files, whose records may have any schema.

Manifests are read whole and must match a known schema. Data files are large and their schema is the table's,
so blocks are mapped into memory and decoded a few at a time. Types must not refer to others by name: Paimon
writes every type where it is used, and a type that contains itself would never end. Up to release 1.0 the
outermost record is a union with null. No row is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final, Self

import pyarrow as pa

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.storage.stores.local_files import opened
from app.table.avro.container import (
    SYNC_BYTES,
    AvroBlock,
    VarintCursor,
    check_magic,
    decode_blocks,
    read_header,
)
from app.table.avro.schema import MAX_DEPTH, PRIMITIVES, read_schema
from app.table.records.expansion import MAX_BLOCK_BYTES, expand

_DECODED_TOGETHER_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class _PackedBlock:
    """Location of a compressed block: offset of its count, the count, and the range of its records."""

    offset: int
    count: int
    start: int
    length: int


@dataclass(frozen=True, slots=True, eq=False)
class AvroFile:
    """File whose blocks have been located, but not decoded."""

    data: mmap
    schema: pa.Schema
    row_count: int
    _avro_schema: bytes
    _codec: str
    _blocks: tuple[_PackedBlock, ...]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map a file, and locate its blocks."""
        with opened(path) as (descriptor, _):
            data = mmap(descriptor, 0, access=ACCESS_READ)
        cursor = VarintCursor(memoryview(data))
        check_magic(cursor)
        header = read_header(cursor)
        sync = bytes(cursor.take(SYNC_BYTES, "a sync marker"))
        avro_schema = _checked(header.get("avro.schema", b""))
        blocks = tuple(_find_blocks(cursor, sync))
        return cls(
            data,
            pa.schema(decode_blocks([AvroBlock(cursor.at, 0, b"")], avro_schema).type.fields),
            sum(block.count for block in blocks),
            avro_schema,
            header.get("avro.codec", b"null").decode(errors="replace"),
            blocks,
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all records in order."""
        together: list[AvroBlock] = []
        held_bytes = 0
        for packed in self._blocks:
            content = self.data[packed.start : packed.start + packed.length]
            expanded = expand(self._codec, content, MAX_BLOCK_BYTES)
            if packed.count > len(expanded):
                raise CorruptMetadataError(
                    f"a block of {len(expanded)} bytes claims {packed.count} records", offset=packed.offset
                )
            together.append(AvroBlock(packed.offset, packed.count, expanded))
            held_bytes += len(expanded)
            if held_bytes >= _DECODED_TOGETHER_BYTES:
                yield self._decode(together)
                together, held_bytes = [], 0
        if together:
            yield self._decode(together)

    def _decode(self, blocks: list[AvroBlock]) -> pa.RecordBatch:
        records = decode_blocks(blocks, self._avro_schema)
        if records.null_count:
            raise CorruptMetadataError("expected rows, found null", offset=blocks[0].offset)
        return pa.RecordBatch.from_struct_array(records)


def _find_blocks(cursor: VarintCursor, sync: bytes) -> Iterator[_PackedBlock]:
    while cursor.left:
        offset, count, length = cursor.at, cursor.long(), cursor.long()
        if count < 0 or not 0 <= length <= cursor.left:
            raise CorruptMetadataError(
                f"expected a block within {cursor.left} bytes, found {count} records in {length} bytes",
                offset=offset,
            )
        yield _PackedBlock(offset, count, cursor.at, length)
        cursor.at += length
        if cursor.take(SYNC_BYTES, "a sync marker") != sync:
            raise CorruptMetadataError("expected the file's sync marker after a block", offset=offset)


def _checked(text: bytes) -> bytes:
    written = read_schema(text)
    match written:
        case {"type": "record"} | ["null", {"type": "record"}] | [{"type": "record"}, "null"]:
            _check(written, 0)
        case _:
            raise UnsupportedFormatError(f"expected an Avro file of records, found {written!r:.100}")
    return text


def _check(written: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise UnsupportedFormatError(f"the Avro schema is nested deeper than {MAX_DEPTH} levels")
    match written:
        case str() if written == "null" or written in PRIMITIVES:
            return
        case [*branches]:
            for branch in branches:
                _check(branch, depth + 1)
        case {"type": "record", "fields": [*fields]}:
            for field in fields:
                _check(field.get("type") if isinstance(field, dict) else field, depth + 1)
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            _check(inner, depth + 1)
        case {"type": "enum" | "fixed"}:
            return
        case {"type": inner}:
            _check(inner, depth + 1)
        case _:
            raise UnsupportedFormatError(
                f"the Avro schema has a type {written!r:.100} that Paimon does not write"
            )
