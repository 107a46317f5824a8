"""Copies records from file to file as they are encoded.

What a reader here does not know of, a field of a later release perhaps, comes along, and nothing is decoded
but the records of blocks that stay in part: where one record ends and the next begins, only decoding tells.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import fastavro
import numpy as np
import orjson
from numpy.typing import NDArray

from app.errors import CorruptMetadataError
from app.table.avro.blocks import Block
from app.table.avro.container import open_encoded
from app.table.avro.writing import GrowingFile
from app.table.records.expected import RecordOf
from app.types.roaring import Buffer


class CopiedFrom(NamedTuple):
    """A file and what is copied of it.

    Attributes:
        data: the whole file.
        rows: int64, ascending: which of its records.
        record_count: how many records it has.
    """

    data: Buffer
    rows: NDArray[np.int64]
    record_count: int


def copy_records(
    files: Iterable[CopiedFrom], expected: RecordOf, compression: str, target_bytes: int
) -> Iterator[bytes]:
    """Records of some files one behind the other in new ones.

    A new file is begun once one has grown to a size, and where the schema of the records changes.

    Args:
        files: what is copied, in order.
        expected: the fields that every record must have; nullable ones may be absent.
        compression: of the new files, as the option ``manifest.compression`` names it.
        target_bytes: the size at which a file is closed.

    Raises:
        CorruptMetadataError: a file is damaged, or has not as many records as are expected.
        UnsupportedFormatError: a file is compressed by an unknown codec, or the compression is another one.
    """
    grown: GrowingFile | None = None
    for file in files:
        encoded = open_encoded(file.data, expected)
        if grown is not None and grown.schema_text != encoded.schema_text:
            yield grown.content()
            grown = None
        is_copied = np.zeros(file.record_count, np.bool_)
        is_copied[file.rows] = True
        seen = 0
        for block in encoded.blocks:
            copied = is_copied[seen : seen + block.count]
            seen += block.count
            if seen > file.record_count:
                break
            if not copied.any():
                continue
            if grown is None:
                grown = GrowingFile(encoded.schema_text, compression)
            records = block.expanded if copied.all() else _some_of(block, copied, encoded.schema.text)
            grown.add(int(np.count_nonzero(copied)), records)
            if grown.closed_bytes >= target_bytes:
                yield grown.content()
                grown = None
        if seen != file.record_count:
            raise CorruptMetadataError(f"expected {file.record_count} records, found {seen} or more")
    if grown is not None:
        yield grown.content()


def _some_of(block: Block, copied: NDArray[np.bool_], schema: bytes) -> bytes:
    """Some records of a block, as they are encoded."""
    stream, parsed = io.BytesIO(block.expanded), _parsed(schema)
    ends = []
    try:
        for _ in range(block.count):
            fastavro.schemaless_reader(stream, parsed, None)
            ends.append(stream.tell())
    except Exception as error:
        raise CorruptMetadataError(f"records cannot be decoded: {error}", offset=block.offset) from error
    if ends[-1] != len(block.expanded):
        raise CorruptMetadataError("a block has more than the records it claims", offset=block.offset)
    view, starts = memoryview(block.expanded), [0, *ends[:-1]]
    return b"".join(view[starts[row] : ends[row]] for row in np.flatnonzero(copied).tolist())


@lru_cache(maxsize=16)
def _parsed(schema: bytes) -> Any:  # noqa: ANN401 - the library's own form of a schema
    return fastavro.parse_schema(orjson.loads(schema))
