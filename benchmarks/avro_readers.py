"""``python -m benchmarks.avro_readers``: how long readers of Avro take for the entries of a manifest.

Every reader is given the same uncompressed blocks in memory, and gives what it gives: dictionaries, a frame
or Arrow columns. The last line is what the service does with the file as it is stored.
"""

from __future__ import annotations

import argparse
import io
import time
from random import Random
from typing import TYPE_CHECKING, Any

import fastavro
import orjson
import polars as pl
import polars_avro
from rich import box
from rich.console import Console
from rich.table import Table

from app.table.avro_blocks import Block, decode_blocks
from app.table.manifest import Manifest
from app.types.binary_row import serialize_row
from benchmarks.avro_schemas import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_COLUMNS = 4
_ENTRIES_PER_BLOCK = 200
_EMPTY_ROW = serialize_row((), ())


def main() -> None:
    """Measures, and prints one line a reader."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.avro_readers", description=__doc__)
    parser.add_argument("--entries", type=int, default=10_000, help="entries of the manifest")
    parser.add_argument("--index-bytes", type=int, nargs="+", default=[0, 400], help="of each embedded index")
    parser.add_argument("--runs", type=int, default=9, help="times that each reader reads; the best counts")
    asked = parser.parse_args()
    table = Table("reader", box=box.MARKDOWN)
    for index_bytes in asked.index_bytes:
        table.add_column(f"ms, indexes of {index_bytes} bytes", justify="right")
    manifests = [_entries(asked.entries, index_bytes) for index_bytes in asked.index_bytes]
    measured = [_readers(entries) for entries in manifests]
    for name in measured[0]:
        table.add_row(name, *(f"{_best(readers[name], asked.runs) * 1e3:.1f}" for readers in measured))
    Console(width=100).print(table)


def _entries(count: int, index_bytes: int) -> list[dict[str, Any]]:
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
    """A serialized row: its arity, eight bytes of null bits, eight bytes a column."""
    return _COLUMNS.to_bytes(4, "big") + bytes(8) + random.randbytes(8 * _COLUMNS)


def _readers(entries: Sequence[dict[str, Any]]) -> dict[str, Callable[[], object]]:
    plain, stored = _file(entries, "null"), _file(entries, "zstandard")
    schema = orjson.dumps(MANIFEST)
    blocks = [
        _block(entries[start : start + _ENTRIES_PER_BLOCK])
        for start in range(0, len(entries), _ENTRIES_PER_BLOCK)
    ]
    return {
        "fastavro": lambda: list(fastavro.reader(io.BytesIO(plain))),
        "polars.read_avro": lambda: pl.read_avro(io.BytesIO(plain)),
        "polars_avro.read_avro": lambda: polars_avro.read_avro(io.BytesIO(plain)),
        "polars_avro, Arrow batches (decode_blocks)": lambda: decode_blocks(blocks, schema),
        "the stored file to columns (Manifest.parse)": lambda: Manifest.parse(stored),
    }


def _file(entries: Sequence[dict[str, Any]], codec: str) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, MANIFEST, entries, codec=codec, sync_interval=64_000)
    return out.getvalue()


def _block(entries: Sequence[dict[str, Any]]) -> Block:
    out = io.BytesIO()
    for entry in entries:
        fastavro.schemaless_writer(out, MANIFEST, entry)
    return Block(0, len(entries), out.getvalue())


def _best(read: Callable[[], object], runs: int) -> float:
    """Seconds of processor time of the quickest run."""
    seconds = []
    for _ in range(runs):
        started = time.process_time()
        read()
        seconds.append(time.process_time() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
