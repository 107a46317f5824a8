"""Avro object container files, as manifests and their lists are stored.

======== ============= =====================================================================
offset   type          meaning
======== ============= =====================================================================
0        4 bytes       ``Obj`` and 0x01
4        map<bytes>    ``avro.schema``: the records' schema; ``avro.codec``: ``null`` if absent
..       16 bytes      sync marker
..       blocks        until the end of the file
======== ============= =====================================================================

A block is ``long`` count of records, ``long`` length in bytes, the (compressed) records, and the sync
marker again. A ``long`` is a zigzag number of seven bits a byte; a map is a series of ``long`` count and
that many pairs of string and bytes, ended by a count of 0, where a negative count is followed by the
``long`` length of its pairs.

Blocks are expanded here, each within a bound (:mod:`app.table.records.expansion`), and decoded together
(:mod:`app.table.avro.blocks`), by the schema that the file names, once that is found harmless
(:mod:`app.table.avro.schema`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from app.errors import CorruptMetadataError
from app.table.avro.blocks import Block, decode_blocks
from app.table.avro.schema import BRANCH, ReadingSchema, reading_schema
from app.table.records.columns import RecordColumns, RecordOf, memory_of
from app.table.records.expansion import block_bytes, blocks_bytes, check_columns, claim, expand
from app.types.roaring import Buffer

if TYPE_CHECKING:
    import pyarrow as pa


_MAX_LONG_BYTES = 10


class VarintCursor:
    """A position in a file; every step is checked against what is left."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes from here to the end."""
        return len(self.data) - self.at

    def take(self, length: int, what: str) -> memoryview:
        """The next ``length`` bytes, not copied."""
        if not 0 <= length <= self.left:
            raise CorruptMetadataError(
                f"expected {what} of {length} bytes, found {self.left} to the end", offset=self.at
            )
        taken = self.data[self.at : self.at + length]
        self.at += length
        return taken

    def long(self) -> int:
        """The number that stands here."""
        value = 0
        for position in range(min(_MAX_LONG_BYTES, self.left)):
            byte = self.data[self.at + position]
            value |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:  # noqa: PLR2004 - the continuation bit
                self.at += position + 1
                return (value >> 1) ^ -(value & 1)
        raise CorruptMetadataError("expected a number of at most ten bytes", offset=self.at)


MAGIC = b"Obj\x01"
SYNC_BYTES = 16
_MAX_HEADER_PAIRS = 100
# Decoding has an overhead for each time, but pieces that are small use the same memory again and again.
_DECODED_TOGETHER_BYTES = 2 << 20
# A list of empty names has one byte for each. The decoder makes four of it, in buffers that grow by doubling.
_MEMORY_PER_EXPANDED_BYTE = 12


def read_columns(data: Buffer, expected: RecordOf) -> RecordColumns:
    """All records of a file, column by column; the expected fields are there, but for nullable ones."""
    records = RecordColumns(list(read_pieces(data, expected)))
    claim(records.nbytes_with_copies)
    return records


def read_pieces(data: Buffer, expected: RecordOf) -> Iterator[pa.StructArray]:
    """The same records in pieces, at least one, as they are decoded; memory is claimed for all of them."""
    file = open_encoded(data, expected)
    columns_bytes = 0
    for blocks in _pieces(file.blocks):
        expanded_bytes = sum(len(block.expanded) for block in blocks)
        claim(columns_bytes + _MEMORY_PER_EXPANDED_BYTE * expanded_bytes)
        piece = _decode_piece(blocks, file.schema)
        columns_bytes += memory_of(piece)
        check_columns(columns_bytes, len(data), blocks[0].offset)
        yield piece


class EncodedFile(NamedTuple):
    """A file whose records are encoded still; what is damaged in blocks is found as they are read."""

    schema_text: bytes
    schema: ReadingSchema
    blocks: Iterator[Block]


def open_encoded(data: Buffer, expected: RecordOf) -> EncodedFile:
    """A file whose records are not decoded; errors are those of :func:`read_columns`."""
    cursor = VarintCursor(memoryview(data))
    check_magic(cursor)
    header = read_header(cursor)
    sync = bytes(cursor.take(SYNC_BYTES, "a sync marker"))
    codec = header.get("avro.codec", b"null").decode(errors="replace")
    schema_text = header.get("avro.schema", b"")
    return EncodedFile(schema_text, reading_schema(schema_text, expected), _read_blocks(cursor, codec, sync))


def _pieces(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """As many blocks at a time as are good for caches; an empty one if there is none."""
    together: list[Block] = []
    size = 0
    block = None
    for block in blocks:
        together.append(block)
        size += len(block.expanded)
        if size >= _DECODED_TOGETHER_BYTES:
            yield together
            together, size = [], 0
    if together or block is None:
        yield together or [Block(0, 0, b"")]


def _decode_piece(blocks: Sequence[Block], schema: ReadingSchema) -> pa.StructArray:
    """The records of blocks that are decoded together, none of which may be null."""
    records = decode_blocks(blocks, schema.text)
    for union in schema.unions:
        column = records
        for name in union.path:
            column = column.field(name)
        branches = np.asarray(column.field(BRANCH))
        for branch in branches[branches != union.branch][:1]:
            what = ".".join(("record", *union.path))
            raise CorruptMetadataError(
                f"expected no {what} to be null, found branch {branch} of its union", offset=blocks[0].offset
            )
    return records


def _read_blocks(cursor: VarintCursor, codec: str, sync: bytes) -> Iterator[Block]:
    size = len(cursor.data)
    room = blocks_bytes(size)
    records = 0
    while cursor.left:
        start = cursor.at
        count, length = cursor.long(), cursor.long()
        # Every record names a file of its own, which no codec can shrink below a byte.
        if not 0 <= count <= size - records:
            raise CorruptMetadataError(f"a block of {count} records in a file this small", offset=start)
        packed = cursor.take(length, "a block")
        if cursor.take(SYNC_BYTES, "a sync marker") != sync:
            raise CorruptMetadataError("expected the file's sync marker after a block", offset=cursor.at - 16)
        try:
            expanded = expand(codec, packed, min(room, block_bytes(length)))
        except CorruptMetadataError as error:
            raise CorruptMetadataError(error.expectation, offset=start) from error
        if count > len(expanded):
            raise CorruptMetadataError(f"{count} records in a block of {len(expanded)} bytes", offset=start)
        yield Block(start, count, expanded)
        records += count
        room -= len(expanded)


def check_magic(cursor: VarintCursor) -> None:
    """Reads the magic."""
    magic = bytes(cursor.take(len(MAGIC), "an Avro file"))
    if magic != MAGIC:
        raise CorruptMetadataError(
            f"expected an Avro file to begin with {MAGIC!r}, found {magic!r}", offset=0
        )


def read_header(cursor: VarintCursor) -> dict[str, bytes]:
    """The metadata of a file whose magic has been read."""
    header: dict[str, bytes] = {}
    while count := cursor.long():
        if count < 0:
            count = -count
            cursor.long()
        if len(header) + count > _MAX_HEADER_PAIRS:
            raise CorruptMetadataError(f"a header of {count} entries", offset=cursor.at)
        for _ in range(count):
            key = bytes(cursor.take(cursor.long(), "a header key")).decode(errors="replace")
            header[key] = bytes(cursor.take(cursor.long(), "a header value"))
    return header
