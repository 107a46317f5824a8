"""Expanded blocks of Avro records, decoded into columns by Apache's Rust reader.

The reader (``arrow-avro``, as packaged by ``polars-avro``) takes whole files and gives Arrow record batches.
It trusts what it reads in one point: bytes that are left when a block's records are read are dropped
silently. So all blocks of a file become *records* of one file in memory:

======= ===============================================================
field   value
======= ===============================================================
records array: the block's count, its bytes as they are, an end
mark    16 bytes, drawn at random for this one file
======= ===============================================================

An Avro array is a count, that many items, and a count of 0, so a block becomes one without being touched. If
the records of a block fill it exactly, the end and the mark are found behind them; if they do not, no
writer of the block can have known what would be read as the mark.
"""

from __future__ import annotations

import importlib.util
import io
import secrets
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from app.errors import CorruptMetadataError
from app.types.roaring import Buffer

if TYPE_CHECKING:
    from polars_avro._avro_rs import AvroSource


@dataclass(frozen=True, slots=True)
class Block:
    """Some records."""

    offset: int
    count: int
    expanded: Buffer


_MARK_BYTES = 16
_SCHEMA = (
    b'{"type":"record","name":"block","fields":['
    b'{"name":"records","type":{"type":"array","items":%b}},'
    b'{"name":"mark","type":{"type":"fixed","name":"mark","size":16}}]}'
)
_SYNC = bytes(16)
_MOVED_BYTES: Final = 1 << 20
"""Of more records than this the room left over is small beside them."""
_END = b"\x00"


def decode_blocks(blocks: Sequence[Block], schema: bytes) -> pa.StructArray:
    """All records of some blocks, in order; errors name the offset of the first one."""
    try:
        return _decode(blocks, schema)
    except CorruptMetadataError as error:
        raise CorruptMetadataError(error.expectation, offset=blocks[0].offset) from error


def _decode(blocks: Sequence[Block], schema: bytes) -> pa.StructArray:
    mark = secrets.token_bytes(_MARK_BYTES)
    file = _file(blocks, schema, mark)
    try:
        source = _AVRO_SOURCE([lambda: nullcontext(io.BytesIO(file))], strict=False, utf8_view=False)
        # A batch of exactly these records ends the reading: whatever is left is not looked at.
        batches = source.batch_iter(len(blocks), None)
        batch = pa.record_batch(next(batches))
    except Exception as error:
        raise CorruptMetadataError(f"records cannot be decoded: {error}") from error
    except BaseException as error:
        # Panics of Rust code are meant to end a program; these are only about the file.
        if type(error).__name__ != "PanicException":
            raise
        raise CorruptMetadataError(f"records cannot be decoded: {error}") from error
    records, marks = batch.column("records"), batch.column("mark")
    counts = np.diff(np.asarray(records.offsets))
    if marks.to_pylist() != [mark] * len(blocks) or counts.tolist() != [block.count for block in blocks]:
        raise CorruptMetadataError("as many records as are claimed do not fill their block")
    arrays = records.flatten()
    return _moved(arrays) if arrays.get_total_buffer_size() <= _MOVED_BYTES else arrays


def _moved(records: pa.StructArray) -> pa.StructArray:
    """The records in one buffer of their size."""
    # One column of records, since records that are a batch themselves cannot be null.
    batch = pa.record_batch([records], ["records"])
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema).column(0)


def _file(blocks: Sequence[Block], schema: bytes, mark: bytes) -> bytes:
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
        # No items and the end are one and the same zero.
        parts += [encode_long(block.count), block.expanded, _END if block.count else b"", mark]
    return b"".join([*parts, _SYNC])


@lru_cache(maxsize=4096)
def encode_long(number: int) -> bytes:
    """A number of up to 64 bits as an Avro long: zigzag, seven bits a byte."""
    encoded, rest = bytearray(), number << 1 ^ number >> 63
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _load() -> type[AvroSource]:
    """The native reader, without the package around it.

    The package would import polars, which costs every process 25 MB and a tenth of a second, to no use:
    batches come through Arrow's own interface.
    """
    package = importlib.util.find_spec("polars_avro")
    spec = PathFinder.find_spec("_avro_rs", package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        raise ImportError("polars-avro 0.13 is not installed, or has no module _avro_rs")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    source: type[AvroSource] = module.AvroSource
    return source


_AVRO_SOURCE: Final = _load()
