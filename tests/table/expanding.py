"""Manifests block by block, for tests of how far they may expand."""

import io
from typing import Any, Final

import fastavro

from app.table.avro.container import encode_long
from app.table.records.expansion import compress
from benchmarks.avro_schemas import MANIFEST
from tests.tables import entry, record

_MARK: Final = "Q"
_ONE_NAME: Final = encode_long(1) + b"\x02Q\x00"


def encoded(**changes: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(MANIFEST), record(entry(**changes)))
    return out.getvalue()


def with_empty_extra_files(count: int) -> bytes:
    """Return a record whose list of extra files has so many names without a letter."""
    before, after = encoded(extra_files=(_MARK,)).split(_ONE_NAME)
    return before + encode_long(count) + bytes(count) + b"\x00" + after


def manifest_of(*blocks: bytes) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, MANIFEST, [], codec="zstandard")
    head = out.getvalue()
    parts = [head]
    for block in blocks:
        packed = compress("zstandard", block)
        parts += [encode_long(1), encode_long(len(packed)), packed, head[-16:]]
    return b"".join(parts)
