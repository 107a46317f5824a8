"""``python -m benchmarks.avro_readers``: how long readers of Avro take for the entries of a manifest.

Every reader is given the same uncompressed blocks in memory, and gives what it gives: dictionaries, a frame
or Arrow columns. The last lines are what the service does with files as they are stored, in each format that
manifests have.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
import orjson
import polars as pl
import polars_avro
from rich import box
from rich.console import Console
from rich.table import Table

from app.table.avro.container import AvroBlock, decode_blocks
from app.table.manifests.manifest import Manifest
from benchmarks.avro_schemas import MANIFEST
from benchmarks.columnar_files import write_orc, write_parquet
from benchmarks.manifest_formats import entries_of, write_avro

_ENTRIES_PER_BLOCK = 200


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
    manifests = [entries_of(asked.entries, index_bytes) for index_bytes in asked.index_bytes]
    measured = [_readers(entries) for entries in manifests]
    for name in measured[0]:
        table.add_row(name, *(f"{_best(readers[name], asked.runs) * 1e3:.1f}" for readers in measured))
    Console(width=100).print(table)


def _readers(entries: Sequence[dict[str, Any]]) -> dict[str, Callable[[], object]]:
    plain, stored = write_avro(entries, "null"), write_avro(entries)
    stored_orc, stored_parquet = write_orc(entries, MANIFEST), write_parquet(entries, MANIFEST)
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
        "the stored file to columns (Manifest.read)": lambda: Manifest.read(stored),
        "the same of an ORC file": lambda: Manifest.read(stored_orc),
        "the same of a Parquet file": lambda: Manifest.read(stored_parquet),
    }


def _block(entries: Sequence[dict[str, Any]]) -> AvroBlock:
    out = io.BytesIO()
    for entry in entries:
        fastavro.schemaless_writer(out, MANIFEST, entry)
    return AvroBlock(0, len(entries), out.getvalue())


def _best(read: Callable[[], object], runs: int) -> float:
    """Seconds of the quickest run; ORC and Parquet are decoded by a process whose time is not this one's."""
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        read()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
