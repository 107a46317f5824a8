"""Writes Avro object container files as the engine does; :mod:`app.table.avro.container` has their layout.

Records are also copied as encoded, so that fields of later releases survive. Only blocks that are copied in
part are decoded, since nothing else marks where a record ends. Records of several schemas that go into one
file are read whole instead (:mod:`app.table.avro.whole_records`), with unknown fields after the known ones.
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, assert_never

import fastavro
import numpy as np
import orjson
from numpy.typing import NDArray

from app.errors import CorruptMetadataError, RequestError, UnsupportedFormatError
from app.table.avro.container import MAGIC, SYNC_BYTES, AvroBlock, encode_long, open_encoded
from app.table.avro.whole_records import decode_block, parsed
from app.table.records.columns import ArrayOf, AsWritten, Expected, Nullable, RecordOf
from app.table.records.expansion import WrittenCodec, compress
from app.types.roaring import Buffer

_NAME: Final = "record"
_NAMESPACE: Final = "org.apache.paimon.avro.generated"
# The engine closes a block at this many bytes of records.
_BLOCK_BYTES: Final = 64_000
_CODECS: Final[Mapping[str, WrittenCodec]] = {
    "zstd": "zstandard",
    "deflate": "deflate",
    "snappy": "snappy",
    "null": "null",
}
_END: Final = encode_long(0)
_NULL, _NOT_NULL = map(encode_long, (0, 1))
_BOUNDS: Final = {"int": 1 << 31, "long": 1 << 63}
# Logical types that the engine annotates, and the types that store them.
_LOGICAL: Final = {"timestamp-millis": "long"}


def write_avro(records: Iterable[Mapping[str, object]], fields: RecordOf, compression: str) -> bytes:
    """Write a whole file.

    ``compression`` is a value of ``manifest.compression``: ``zstd``, ``deflate``, ``snappy`` or ``null``.
    Every record has a value for each field that is not nullable.
    """
    file = GrowingFile(orjson.dumps(avro_schema(fields)), compression)
    try:
        encoded = _encode(list(records), fields, _NAME)
    except UnicodeEncodeError as error:
        raise RequestError(f"a text does not fit UTF-8: {error}") from error
    for block in encoded:
        file.add(1, block)
    return file.content()


class GrowingFile:
    """File to which encoded records are appended."""

    def __init__(self, schema_text: bytes, compression: str) -> None:
        codec = _CODECS.get(compression)
        if codec is None:
            raise UnsupportedFormatError(
                f"expected manifest.compression to be one of {', '.join(_CODECS)}, found {compression!r}"
            )
        self.schema_text = schema_text
        self._codec = codec
        self._sync = secrets.token_bytes(SYNC_BYTES)
        # Like the engine, write the schema first, and the codec always.
        header = (b"avro.schema", schema_text, b"avro.codec", codec.encode())
        self._parts = [MAGIC, encode_long(len(header) // 2), *map(_sized, header), _END, self._sync]
        self._block: list[Buffer] = []
        self._block_records = 0
        self._block_bytes = 0
        # Bytes of the file without its open block.
        self.closed_bytes = sum(map(len, self._parts))

    def add(self, count: int, records: Buffer) -> None:
        """Append ``count`` encoded records to the open block."""
        self._block.append(records)
        self._block_records += count
        self._block_bytes += len(records)
        if self._block_bytes >= _BLOCK_BYTES:
            self._close_block()

    def content(self) -> bytes:
        """Close the last block, and return the whole file."""
        if self._block_records:
            self._close_block()
        return b"".join(self._parts)

    def _close_block(self) -> None:
        block = compress(self._codec, b"".join(self._block))
        parts = [encode_long(self._block_records), _sized(block), self._sync]
        self._parts += parts
        self.closed_bytes += sum(map(len, parts))
        self._block, self._block_records, self._block_bytes = [], 0, 0


def avro_schema(fields: RecordOf) -> dict[str, Any]:
    """Return the schema of records with these fields."""
    described = _describe_fields(fields, _NAME)
    return {"type": "record", "name": _NAME, "namespace": _NAMESPACE, "fields": described}


def _describe(expected: Expected, name: str) -> Any:
    match expected:
        case str() if expected in _LOGICAL:
            return {"type": _LOGICAL[expected], "logicalType": expected}
        case str():
            return expected
        case Nullable(inner):
            return ["null", _describe(inner, name)]
        case ArrayOf(items):
            return {"type": "array", "items": _describe(items, name)}
        case RecordOf():
            return {"type": "record", "name": name, "fields": _describe_fields(expected, name)}
        case AsWritten(schema):
            return orjson.loads(schema)
        case _:
            assert_never(expected)


def _describe_fields(record: RecordOf, name: str) -> list[dict[str, Any]]:
    return [
        # The engine names nested records after their path, and gives nullable fields the default null.
        {"name": field, "type": _describe(expected, f"{name}_{field}")}
        | ({"default": None} if isinstance(expected, Nullable) else {})
        for field, expected in record.fields.items()
    ]


def _encode(values: Sequence[Any], expected: Expected, name: str) -> list[bytes]:
    match expected:
        case "string":
            return [_sized(value.encode()) for value in values]
        case "bytes":
            return [_sized(value) for value in values]
        case str():
            integer = _LOGICAL.get(expected, expected)
            for value in values:
                if not -_BOUNDS[integer] <= value < _BOUNDS[integer]:
                    raise RequestError(f"{value} does not fit {name} of type {integer}")
            return list(map(encode_long, values))
        case Nullable(inner):
            encoded = iter(_encode([value for value in values if value is not None], inner, name))
            return [_NULL if value is None else _NOT_NULL + next(encoded) for value in values]
        case ArrayOf(items):
            encoded = iter(_encode([item for value in values for item in value], items, name))
            return [_array(list(islice(encoded, len(value)))) for value in values]
        case RecordOf(fields):
            columns = [
                _encode([value.get(field) for value in values], member, f"{name}_{field}")
                for field, member in fields.items()
            ]
            return list(map(b"".join, zip(*columns, strict=True)))
        case AsWritten(schema):
            return [_as_written(value, schema) for value in values]
        case _:
            assert_never(expected)


def _as_written(value: Any, schema: bytes) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, parsed(schema), value)
    return stream.getvalue()


def _array(items: Sequence[bytes]) -> bytes:
    return b"".join((encode_long(len(items)), *items, _END)) if items else _END


def _sized(part: bytes) -> bytes:
    return encode_long(len(part)) + part


class CopiedFrom(NamedTuple):
    """File and its rows to copy: int64, ascending."""

    data: Buffer
    rows: NDArray[np.int64]
    record_count: int


def copy_records(
    files: Iterable[CopiedFrom], expected: RecordOf, compression: str, target_bytes: int
) -> Iterator[bytes]:
    """Copy records of files, in order, into new files. Nullable expected fields may be missing.

    A new file begins at ``target_bytes``, and where the schema of the records changes.
    """
    output: GrowingFile | None = None
    for file in files:
        encoded = open_encoded(file.data, expected)
        # A file has one schema: a record encoded by another would be misread.
        if output is not None and output.schema_text != encoded.schema_text:
            yield output.content()
            output = None
        is_copied = np.zeros(file.record_count, np.bool_)
        is_copied[file.rows] = True
        position = 0
        for block in encoded.blocks:
            copied = is_copied[position : position + block.count]
            position += block.count
            if position > file.record_count:
                break
            if not copied.any():
                continue
            if output is None:
                output = GrowingFile(encoded.schema_text, compression)
            records = block.expanded if copied.all() else _copied_part(block, copied, encoded.schema.text)
            output.add(int(np.count_nonzero(copied)), records)
            if output.closed_bytes >= target_bytes:
                yield output.content()
                output = None
        if position != file.record_count:
            raise CorruptMetadataError(f"expected {file.record_count} records, found {position} or more")
    if output is not None:
        yield output.content()


def _copied_part(block: AvroBlock, copied: NDArray[np.bool_], schema: bytes) -> bytes:
    ends = [end for _, end in decode_block(block, schema)]
    view, starts = memoryview(block.expanded), [0, *ends[:-1]]
    return b"".join(view[starts[row] : ends[row]] for row in np.flatnonzero(copied).tolist())
