"""A manifest from its stored bytes to columns, in each of the formats that ``manifest.format`` names."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import fastavro

from app.table.manifests.manifest import Manifest
from app.types.binary_row.row import serialize_row
from benchmarks.avro_schemas import MANIFEST
from benchmarks.columnar_files import write_orc, write_parquet
from benchmarks.workload import Suite, Workload

ENTRIES: Final = 10_000
FORMATS: Final = ("avro", "orc", "parquet")

_INDEX_BYTES: Final = 400
_COLUMNS: Final = 4
_EMPTY_ROW: Final = serialize_row((), ())


def suites() -> Iterator[Suite]:
    """One manifest in all formats."""
    yield Suite("manifest formats", _workloads)


def decode_name(stored_as: str) -> str:
    """Return what results call the decoding of a format."""
    return f"manifest to columns, {stored_as}"


def _workloads(directory: Path) -> Iterator[Workload]:  # noqa: ARG001 - suites are alike
    entries = entries_of(ENTRIES, _INDEX_BYTES)
    files = (write_avro(entries), write_orc(entries, MANIFEST), write_parquet(entries, MANIFEST))
    for stored_as, content in zip(FORMATS, files, strict=True):
        yield Workload(decode_name(stored_as), ENTRIES, partial(Manifest.read, content))


def write_avro(entries: Sequence[dict[str, Any]], codec: str = "zstandard") -> bytes:
    """Return the manifest in blocks as large as the engine's."""
    out = io.BytesIO()
    fastavro.writer(out, MANIFEST, entries, codec=codec, sync_interval=64_000)
    return out.getvalue()


def entries_of(count: int, index_bytes: int) -> list[dict[str, Any]]:
    """Return records of a manifest of ``count`` entries, each with any embedded index of some bytes."""
    random = Random(count)
    return [_entry(number, random, index_bytes) for number in range(count)]


def _entry(number: int, random: Random, index_bytes: int) -> dict[str, Any]:
    counts = {"_NULL_COUNTS": [0] * _COLUMNS}
    return {
        "_VERSION": 2,
        "_KIND": 0,
        "_PARTITION": _EMPTY_ROW,
        "_BUCKET": 0,
        "_TOTAL_BUCKETS": -1,
        "_FILE": {
            "_FILE_NAME": f"data-{random.getrandbits(128):032x}-{number}.parquet",
            "_FILE_SIZE": random.randrange(1 << 27),
            "_ROW_COUNT": random.randrange(1 << 20),
            "_MIN_KEY": _EMPTY_ROW,
            "_MAX_KEY": _EMPTY_ROW,
            "_KEY_STATS": {"_MIN_VALUES": _EMPTY_ROW, "_MAX_VALUES": _EMPTY_ROW, "_NULL_COUNTS": []},
            "_VALUE_STATS": {"_MIN_VALUES": _row(random), "_MAX_VALUES": _row(random), **counts},
            "_MIN_SEQUENCE_NUMBER": number << 20,
            "_MAX_SEQUENCE_NUMBER": (number + 1) << 20,
            "_SCHEMA_ID": 0,
            "_LEVEL": 0,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": 1_700_000_000_000 + number,
            "_DELETE_ROW_COUNT": 0,
            "_EMBEDDED_FILE_INDEX": random.randbytes(index_bytes) if index_bytes else None,
            "_FILE_SOURCE": 0,
        },
    }


def _row(random: Random) -> bytes:
    """Return a serialized row: its arity, eight bytes of null bits, eight bytes a column."""
    return _COLUMNS.to_bytes(4, "big") + bytes(8) + random.randbytes(8 * _COLUMNS)
