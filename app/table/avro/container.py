"""Reads Avro object container files, the format of manifests and their lists.

======== ============= =====================================================================
offset   type          meaning
======== ============= =====================================================================
0        4 bytes       ``Obj`` and 0x01
4        map<bytes>    ``avro.schema``: the records' schema; ``avro.codec``: ``null`` if absent
..       16 bytes      sync marker
..       blocks        until the end of the file
======== ============= =====================================================================

A block is ``long`` count of records, ``long`` length in bytes, the (compressed) records, and the sync marker
again. A ``long`` is a zigzag number of seven bits a byte. A map is a series of ``long`` count and that many
pairs of string and bytes, ended by a count of 0, where a negative count is followed by the ``long`` length of
its pairs.

This module expands blocks within limits (:mod:`app.table.records.expansion`) and checks the file's schema
(:mod:`app.table.avro.schema`). Apache's Rust reader (``arrow-avro``, as packaged by ``polars-avro``) decodes
them.
"""

from __future__ import annotations

import importlib.util
import io
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from app.errors import CorruptMetadataError
from app.table.avro.schema import BRANCH, ReadingSchema, reading_schema
from app.table.records.columns import RecordColumns, RecordOf, memory_of
from app.table.records.expansion import block_bytes, blocks_bytes, check_columns, claim, expand
from app.types.roaring import Buffer

if TYPE_CHECKING:
    from polars_avro._avro_rs import AvroSource

_MARK_BYTES = 16
# The Rust reader silently drops bytes that remain after a block's records. To notice them, the blocks of a
# file become records of one file in memory: an array of the block's records, and a random mark. The array's
# end and the mark are found only if the records fill their block exactly, and no writer of a block can know
# the mark.
_SCHEMA = (
    b'{"type":"record","name":"block","fields":['
    b'{"name":"records","type":{"type":"array","items":%b}},'
    b'{"name":"mark","type":{"type":"fixed","name":"mark","size":16}}]}'
)
_SYNC = bytes(16)
# Unused room in the buffers of more records is small compared with the records.
_MOVED_BYTES: Final = 1 << 20
_END = b"\x00"

_MAX_LONG_BYTES = 10

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
_MAX_HEADER_PAIRS = 100
# Each call of the decoder has a fixed cost, but small pieces use the same memory again and again.
_DECODED_TOGETHER_BYTES = 2 << 20
# A list of empty names has one byte for each. The decoder makes four of it, in buffers that grow by doubling.
_MEMORY_PER_EXPANDED_BYTE = 12


@dataclass(frozen=True, slots=True)
class AvroBlock:
    """Expanded block of records."""

    offset: int
    count: int
    expanded: Buffer


class Lifting(Protocol):
    """Takes strings out of blocks before these are decoded."""

    nbytes: int
    """Bytes of all strings so far."""

    def without_strings(self, block: AvroBlock) -> AvroBlock:
        """Return a block without its strings."""
        ...


def decode_blocks(blocks: Sequence[AvroBlock], schema: bytes) -> pa.StructArray:
    """Decode the records of blocks, in order. Errors name the offset of the first block."""
    try:
        return _decode(blocks, schema)
    except CorruptMetadataError as error:
        raise CorruptMetadataError(error.expectation, offset=blocks[0].offset) from error


def _decode(blocks: Sequence[AvroBlock], schema: bytes) -> pa.StructArray:
    mark = secrets.token_bytes(_MARK_BYTES)
    file = _file(blocks, schema, mark)
    try:
        source = _AVRO_SOURCE([lambda: nullcontext(io.BytesIO(file))], strict=False, utf8_view=False)
        # A batch of exactly these records ends the reading: nothing after them is looked at.
        batches = source.batch_iter(len(blocks), None)
        batch = pa.record_batch(next(batches))
    except Exception as error:
        raise CorruptMetadataError(f"records cannot be decoded: {error}") from error
    except BaseException as error:
        # A Rust panic is a BaseException, meant to end the program; here it concerns this file only.
        if type(error).__name__ != "PanicException":
            raise
        raise CorruptMetadataError(f"records cannot be decoded: {error}") from error
    records, marks = batch.column("records"), batch.column("mark")
    counts = np.diff(np.asarray(records.offsets))
    if marks.to_pylist() != [mark] * len(blocks) or counts.tolist() != [block.count for block in blocks]:
        raise CorruptMetadataError("the claimed records do not fill their block exactly")
    arrays = records.flatten()
    return _moved(arrays) if arrays.get_total_buffer_size() <= _MOVED_BYTES else arrays


def _moved(records: pa.StructArray) -> pa.StructArray:
    """Copy records into one buffer of their exact size."""
    # One column of records, since records that are a batch themselves cannot be null.
    batch = pa.record_batch([records], ["records"])
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema).column(0)


def _file(blocks: Sequence[AvroBlock], schema: bytes, mark: bytes) -> bytes:
    text = _SCHEMA % schema
    size = sum(
        len(encode_long(block.count)) + len(block.expanded) + len(mark) + bool(block.count)
        for block in blocks
    )
    parts: list[Buffer] = [
        b"Obj\x01",
        encode_long(1),
        encode_long(11),
        b"avro.schema",
        encode_long(len(text)),
        text,
        _END,
        _SYNC,
    ]
    parts += [encode_long(len(blocks)), encode_long(size)]
    for block in blocks:
        # An empty array consists of its end alone.
        parts += [encode_long(block.count), block.expanded, _END if block.count else b"", mark]
    return b"".join([*parts, _SYNC])


@lru_cache(maxsize=4096)
def encode_long(number: int) -> bytes:
    """Encode a number of up to 64 bits as an Avro long: zigzag, seven bits a byte."""
    encoded, rest = bytearray(), number << 1 ^ number >> 63
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _load() -> type[AvroSource]:
    # Load the native module alone. Its package imports polars, which would cost every process 25 MB and 0.1 s
    # for nothing: batches arrive through Arrow's own interface.
    package = importlib.util.find_spec("polars_avro")
    spec = PathFinder.find_spec("_avro_rs", package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        raise ImportError("polars-avro 0.13 is not installed, or has no module _avro_rs")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    source: type[AvroSource] = module.AvroSource
    return source


_AVRO_SOURCE: Final = _load()


class VarintCursor:
    """Position in a file. Every step is checked against the bytes left."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes from here to the end."""
        return len(self.data) - self.at

    def take(self, length: int, label: str) -> memoryview:
        """Return the next ``length`` bytes without a copy."""
        if not 0 <= length <= self.left:
            raise CorruptMetadataError(
                f"expected {label} of {length} bytes, found {self.left} to the end", offset=self.at
            )
        taken = self.data[self.at : self.at + length]
        self.at += length
        return taken

    def long(self) -> int:
        """Read an Avro long."""
        value = 0
        for position in range(min(_MAX_LONG_BYTES, self.left)):
            byte = self.data[self.at + position]
            value |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:  # noqa: PLR2004 - the continuation bit
                self.at += position + 1
                return (value >> 1) ^ -(value & 1)
        raise CorruptMetadataError("expected a number of at most ten bytes", offset=self.at)


def read_columns(data: Buffer, expected: RecordOf) -> RecordColumns:
    """Read all records of a file, column by column. Every expected field exists, unless it is nullable."""
    records = RecordColumns(list(read_pieces(data, expected)))
    claim(records.nbytes_with_copies)
    return records


def read_pieces(data: Buffer, expected: RecordOf, lifted: Lifting | None = None) -> Iterator[pa.StructArray]:
    """Yield records in pieces, at least one, as they are decoded. Memory is claimed before each.

    ``lifted``: takes strings out of the blocks.
    """
    file = open_encoded(data, expected)
    columns_bytes = 0
    for blocks in _pieces(file.blocks if lifted is None else map(lifted.without_strings, file.blocks)):
        expanded_bytes = sum(len(block.expanded) for block in blocks)
        lifted_bytes = 0 if lifted is None else lifted.nbytes
        claim(columns_bytes + lifted_bytes + _MEMORY_PER_EXPANDED_BYTE * expanded_bytes)
        piece = _decode_piece(blocks, file.schema)
        columns_bytes += memory_of(piece)
        check_columns(columns_bytes + lifted_bytes, len(data), blocks[0].offset)
        yield piece


class EncodedFile(NamedTuple):
    """File whose records are still encoded. Damage is found as its blocks are read."""

    schema_text: bytes
    schema: ReadingSchema
    blocks: Iterator[AvroBlock]


def open_encoded(data: Buffer, expected: RecordOf) -> EncodedFile:
    """Open a file without decoding its records. Raises the errors of :func:`read_columns`."""
    cursor = VarintCursor(memoryview(data))
    check_magic(cursor)
    header = read_header(cursor)
    sync = bytes(cursor.take(SYNC_BYTES, "a sync marker"))
    codec = header.get("avro.codec", b"null").decode(errors="replace")
    schema_text = header.get("avro.schema", b"")
    return EncodedFile(schema_text, reading_schema(schema_text, expected), _read_blocks(cursor, codec, sync))


def _pieces(blocks: Iterable[AvroBlock]) -> Iterator[list[AvroBlock]]:
    together: list[AvroBlock] = []
    size = 0
    block = None
    for block in blocks:
        together.append(block)
        size += len(block.expanded)
        if size >= _DECODED_TOGETHER_BYTES:
            yield together
            together, size = [], 0
    if together or block is None:
        # A file without blocks yields an empty one, so that its records have a type.
        yield together or [AvroBlock(0, 0, b"")]


def _decode_piece(blocks: Sequence[AvroBlock], schema: ReadingSchema) -> pa.StructArray:
    records = decode_blocks(blocks, schema.text)
    for union in schema.unions:
        column = records
        for name in union.path:
            column = column.field(name)
        branches = np.asarray(column.field(BRANCH))
        for branch in branches[branches != union.branch][:1]:
            label = ".".join(("record", *union.path))
            raise CorruptMetadataError(
                f"expected no {label} to be null, found branch {branch} of its union", offset=blocks[0].offset
            )
    return records


def _read_blocks(cursor: VarintCursor, codec: str, sync: bytes) -> Iterator[AvroBlock]:
    size = len(cursor.data)
    room = blocks_bytes(size)
    records = 0
    while cursor.left:
        start = cursor.at
        count, length = cursor.long(), cursor.long()
        # Every record names a file of its own, which no codec can shrink below a byte.
        if not 0 <= count <= size - records:
            raise CorruptMetadataError(
                f"a block claims {count} records in a file of {size} bytes", offset=start
            )
        packed = cursor.take(length, "a block")
        if cursor.take(SYNC_BYTES, "a sync marker") != sync:
            raise CorruptMetadataError("expected the file's sync marker after a block", offset=cursor.at - 16)
        try:
            expanded = expand(codec, packed, min(room, block_bytes(length)))
        except CorruptMetadataError as error:
            raise CorruptMetadataError(error.expectation, offset=start) from error
        if count > len(expanded):
            raise CorruptMetadataError(
                f"a block of {len(expanded)} bytes claims {count} records", offset=start
            )
        yield AvroBlock(start, count, expanded)
        records += count
        room -= len(expanded)


def check_magic(cursor: VarintCursor) -> None:
    """Read the magic, and check it."""
    magic = bytes(cursor.take(len(MAGIC), "an Avro file"))
    if magic != MAGIC:
        raise CorruptMetadataError(
            f"expected an Avro file to begin with {MAGIC!r}, found {magic!r}", offset=0
        )


def read_header(cursor: VarintCursor) -> dict[str, bytes]:
    """Read the metadata that follows the magic."""
    header: dict[str, bytes] = {}
    while count := cursor.long():
        if count < 0:
            count = -count
            cursor.long()
        if len(header) + count > _MAX_HEADER_PAIRS:
            raise CorruptMetadataError(
                f"expected at most {_MAX_HEADER_PAIRS} header entries, found {count}", offset=cursor.at
            )
        for _ in range(count):
            key = bytes(cursor.take(cursor.long(), "a header key")).decode(errors="replace")
            header[key] = bytes(cursor.take(cursor.long(), "a header value"))
    return header
