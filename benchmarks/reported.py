"""Tables of the shape of planning problems that users reported, planned by the service and by the engine.

``python -m benchmarks.reported`` prints what the service takes, and with ``--classpath`` (of the engine and
the catalog's jar) what the engine takes alone and through the catalog; ``docs/tables.md`` has the figures.

A table has the primary key ``p, k``, partitions by ``p``, buckets by ``k``, and statistics of a thousand
columns, so that manifests are large. Each bucket of a partition has a file of the highest level and one or
two newer ones, which overlap it. Manifests list files in no order, as commits of a stream leave them.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import httpx
import numpy as np
from numpy.typing import NDArray

from app.types import DataField, parse_type
from benchmarks.avro_files import long, write_encoded
from benchmarks.avro_schemas import MANIFEST
from benchmarks.events import DATABASE, TABLE
from benchmarks.manifest_records import VERSION, WRITTEN_MILLIS, file_name
from benchmarks.servers import server
from benchmarks.services import WAREHOUSE, read_manifests
from benchmarks.synthetic import Manifest, make_table, schema_json, table_directory, write_snapshot

_ROWS: Final = 100_000
_MOST_KEY: Final = 1 << 62
_MOST_VALUE: Final = 1 << 48
_RUNS: Final = 7
_HIGHEST_LEVEL: Final = 5
_PRESENT: Final = long(1)
_ABSENT: Final = long(0)
_PROGRAM: Final = Path(__file__).with_name("PlannedSplits.java")


@dataclass(frozen=True, slots=True)
class Shape:
    """A table.

    Attributes:
        partitions: how many there are.
        buckets: of each partition.
        newer: partitions whose buckets have two files of level 0; others have one.
        manifests: how many share the files.
    """

    partitions: int
    buckets: int
    newer: int
    manifests: int
    columns: int = 1_000


SHAPES: Final = {
    "136 manifests": Shape(partitions=25, buckets=500, newer=4, manifests=136),
    "14 manifests": Shape(partitions=21, buckets=200, newer=0, manifests=14),
}


def write(warehouse: Path, shape: Shape) -> int:
    """Write a table; how many files it has."""
    key, partition = (
        DataField(0, "k", parse_type("BIGINT NOT NULL")),
        DataField(1, "p", parse_type("INT NOT NULL")),
    )
    values = [DataField(at, f"c{at}", parse_type("BIGINT")) for at in range(2, shape.columns)]
    options = {"bucket": str(shape.buckets), "bucket-key": key.name}
    table = table_directory(warehouse)
    make_table(table, schema_json([key, partition, *values], [partition], [partition, key], options))
    files = [
        (p, bucket, level)
        for p in range(shape.partitions)
        for bucket in range(shape.buckets)
        for level in (_HIGHEST_LEVEL, 0, *((0,) if p < shape.newer else ()))
    ]
    Random(1).shuffle(files)
    bounds = [len(files) * number // shape.manifests for number in range(shape.manifests + 1)]
    listed = [_write_manifest(table, shape, start, files[start:stop]) for start, stop in pairwise(bounds)]
    write_snapshot(table, 1, [], listed, rows=len(files) * _ROWS)
    return len(files)


def _write_manifest(table: Path, shape: Shape, start: int, files: Sequence[tuple[int, int, int]]) -> Manifest:
    path = table / "manifest" / f"manifest-{start}"
    random = np.random.default_rng(start)
    low = random.integers(0, _MOST_VALUE, (len(files), shape.columns))
    low[:, 0], low[:, 1] = 0, [p for p, _, _ in files]
    high = low + _ROWS
    high[:, 0], high[:, 1] = _MOST_KEY, low[:, 1]
    least, most = _row(np.array([0])), _row(np.array([_MOST_KEY]))
    key_statistics = _bytes(least) + _bytes(most) + _PRESENT + long(1) + _PRESENT + long(0) + long(0)
    counts = _PRESENT + long(shape.columns) + shape.columns * (_PRESENT + long(0)) + long(0)
    records = (
        (
            long(VERSION) + long(0) + _bytes(_row(np.array([p]))) + long(bucket) + long(shape.buckets),
            _bytes(file_name(start + at).encode()) + long(90 << 20) + long(_ROWS),
            _bytes(least) + _bytes(most) + key_statistics,
            _bytes(_row(low[at])) + _bytes(_row(high[at])) + counts,
            long(0) + long(_ROWS - 1) + long(0) + long(level) + long(0),
            _PRESENT + long(WRITTEN_MILLIS) + _PRESENT + long(0) + _ABSENT + _PRESENT + long(0) + 4 * _ABSENT,
        )
        for at, (p, bucket, level) in enumerate(files)
    )
    size = write_encoded(path, MANIFEST, records)
    partitions = [p for p, _, _ in files]
    return {
        "_VERSION": VERSION,
        "_FILE_NAME": path.name,
        "_FILE_SIZE": size,
        "_NUM_ADDED_FILES": len(files),
        "_NUM_DELETED_FILES": 0,
        "_PARTITION_STATS": {
            "_MIN_VALUES": _row(np.array([min(partitions)])),
            "_MAX_VALUES": _row(np.array([max(partitions)])),
            "_NULL_COUNTS": [0],
        },
        "_SCHEMA_ID": 0,
        "_MIN_BUCKET": min(bucket for _, bucket, _ in files),
        "_MAX_BUCKET": max(bucket for _, bucket, _ in files),
        "_MIN_LEVEL": 0,
        "_MAX_LEVEL": _HIGHEST_LEVEL,
    }


def _row(numbers: NDArray[np.int64]) -> bytes:
    """Return a serialized row of numbers, none of them null."""
    return len(numbers).to_bytes(4) + bytes((len(numbers) + 71) // 64 * 8) + numbers.astype("<i8").tobytes()


def _bytes(content: bytes) -> bytes:
    return long(len(content)) + content


def ask(port: int, written: str | None) -> tuple[float, int, int]:
    """Return a plan over HTTP: seconds, files and bytes of the answer."""
    place = f"http://127.0.0.1:{port}/v1/{WAREHOUSE}/databases/{DATABASE}/tables/{TABLE}/plan"
    begun = time.perf_counter()
    with httpx.stream(
        "POST", place, json={"filter": written}, headers={"Accept": "application/x-ndjson"}, timeout=600
    ) as answer:
        content = answer.read()
    seconds = time.perf_counter() - begun
    answer.raise_for_status()
    return seconds, sum(b'"file_name"' in line for line in content.splitlines()), len(content)


def by_service(port: int) -> Iterator[str]:
    """Plans over HTTP, in the words of :func:`by_engine`; the first one reads and decodes the table."""
    random = Random(7)

    def keys(count: int) -> str:
        return f"k IN ({', '.join(str(random.randrange(_MOST_KEY)) for _ in range(count))})"

    filters: dict[str, Callable[[], str | None]] = {
        "k": lambda: keys(1),
        "100 k": lambda: keys(100),
        "p": lambda: "p < 5",
        "all": lambda: None,
    }
    for name, write_filter in filters.items():
        found = [ask(port, write_filter()) for _ in range(_RUNS + 1)]
        first, later = found[0], found[1:]
        seconds = median(each[0] for each in later)
        yield (
            f"service, {name}: first {first[0] * 1000:.0f} ms, later {seconds * 1000:.1f} ms, "
            f"{first[1]} files, {first[2]} bytes"
        )


def by_engine(classpath: str, warehouse: Path, uri: str) -> list[str]:
    """Return what ``PlannedSplits.java`` prints."""
    finished = subprocess.run(  # noqa: S603 - fixed words
        ["java", "-Xmx4g", "-cp", classpath, str(_PROGRAM), str(warehouse), uri],  # noqa: S607
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return finished.stdout.splitlines()


def main() -> None:
    """Print a line for each table, filter and planner."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reported", description=__doc__)
    parser.add_argument("--classpath", help="of the engine and the catalog's jar")
    classpath = parser.parse_args().classpath
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as temporary:
            warehouse = Path(temporary) / "warehouse"
            files = write(warehouse, shape)
            size = sum(path.stat().st_size for path in warehouse.rglob("manifest-*"))
            print(f"{name}: {files:,} files, {size >> 20} MiB of manifests", flush=True)
            read_manifests(warehouse)
            with server(warehouse, has_own_core=False) as port:
                for line in by_service(port):
                    print(f"  {line}", flush=True)
                if classpath:
                    for line in by_engine(classpath, warehouse, f"http://127.0.0.1:{port}"):
                        print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
