"""The tables that are asked about, of one database.

=================  =========================================================================================
table              has
=================  =========================================================================================
``one``, ``many``  ``FILES`` files with 7 KB of embedded indexes, in one manifest of 430 MB or in 100
``blooms``         ``FILES`` files with a bloom filter of 12 KB embedded, in 100 manifests of 12 MB
``beside``         the files of ``many`` with an index beside each of them
``orc``,           a tenth of them in one manifest of this format
``parquet``
``plain``          ``FILES`` files without an index
``small``          100 files without an index, in one manifest
``pipe``           the same, with a pipe where its newest snapshot is named
``wide``           one data file of 300 MB, for which there is never memory below 4 GiB
``middle``         one of 60 MB
``wider``          20 data files of 14 MB
=================  =========================================================================================
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq

from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from benchmarks.avro_files import write_records
from benchmarks.avro_schemas import MANIFEST
from benchmarks.columnar_files import write_orc, write_parquet
from benchmarks.events import DATABASE, TABLE, Indexed, Layout
from benchmarks.manifest_records import EMPTY_ROW, VERSION
from benchmarks.synthetic import Manifest, make_table, schema_json, write_snapshot, write_table

FILES: Final = 100_000
COLUMNAR_FILES: Final = FILES // 10
BODIES: Final = 250
"""Different indexes: of a category that only one of them has, a file in so many is kept."""

LAYOUT: Final = Layout(Indexed.VALUES, bodies=BODIES, numbers=4)
BLOOMS: Final = Layout(Indexed.KEYS, bodies=BODIES, numbers=4)
_BESIDE: Final = Layout(Indexed.VALUES, is_embedded=False, bodies=BODIES, numbers=4)
_PLAIN: Final = Layout(Indexed.NOTHING, numbers=4)
_LONG: Final = parse_type("BIGINT")
_COLUMNS: Final = tuple(DataField(number, f"n{number}", _LONG) for number in range(4))
_ROWS_PER_MB: Final = (1 << 20) // (8 * len(_COLUMNS))


def write_tables(directory: Path) -> Path:
    """Write all tables, unless they are there, and return the warehouse."""
    warehouse = directory / "warehouse"
    if not warehouse.exists():
        database = directory / "new" / f"{DATABASE}.db"
        _synthetic(database / "one", LAYOUT, FILES, 1)
        _synthetic(database / "many", LAYOUT, FILES, 100)
        _synthetic(database / "blooms", BLOOMS, FILES, 100)
        _synthetic(database / "beside", _BESIDE, FILES, 10)
        _synthetic(database / "plain", _PLAIN, FILES, 10)
        _synthetic(database / "small", _PLAIN, 100, 1)
        _synthetic(database / "pipe", _PLAIN, 100, 1)
        latest = database / "pipe" / "snapshot" / "LATEST"
        latest.unlink()
        os.mkfifo(latest)
        for name, write in (("orc", write_orc), ("parquet", write_parquet)):
            _columnar(database / name, write)
        _data(database / "wide", 1, 300)
        _data(database / "middle", 1, 60)
        _data(database / "wider", 20, 14)
        database.parent.rename(warehouse)
    return warehouse


def _synthetic(table: Path, layout: Layout, files: int, manifests: int) -> list[Manifest]:
    """Return a table of a layout, at a place of its own.

    Indexes that tables share stay where they are written.
    """
    apart = table.parent.parent.parent / "written" / table.name
    apart.parent.mkdir(exist_ok=True)
    table.parent.mkdir(parents=True, exist_ok=True)
    written = write_table(apart, layout, files, manifests)
    (apart / f"{DATABASE}.db" / TABLE).rename(table)
    shutil.rmtree(apart)
    return written


def _columnar(table: Path, write: Callable[[list[dict[str, Any]], dict[str, Any]], bytes]) -> None:
    (written,) = _synthetic(table, LAYOUT, COLUMNAR_FILES, 1)
    manifest = table / "manifest" / "manifest-0"
    with manifest.open("rb") as file:
        records = [record for record in fastavro.reader(file) if isinstance(record, dict)]
    manifest.write_bytes(write(records, MANIFEST))
    written["_FILE_SIZE"] = manifest.stat().st_size
    write_snapshot(table, 1, [], [written], rows=COLUMNAR_FILES * LAYOUT.rows)


def _data(table: Path, files: int, megabytes: int) -> None:
    """Write a table whose data files hold numbers that no codec can shrink.

    They share one file of the disk.
    """
    make_table(table, schema_json(_COLUMNS))
    bucket = table / "bucket-0"
    bucket.mkdir()
    chance = np.random.default_rng(megabytes)
    rows = megabytes * _ROWS_PER_MB
    with pq.ParquetWriter(
        bucket / "data-0.parquet",
        pa.schema([(each.name, pa.int64()) for each in _COLUMNS]),
        use_dictionary=False,
    ) as writer:
        for _ in range(megabytes):
            numbers = [chance.integers(0, 1 << 62, _ROWS_PER_MB) for _ in _COLUMNS]
            writer.write_table(pa.table(numbers, names=[each.name for each in _COLUMNS]))
    for number in range(1, files):
        (bucket / f"data-{number}.parquet").hardlink_to(bucket / "data-0.parquet")
    size = (bucket / "data-0.parquet").stat().st_size
    manifest = table / "manifest" / "manifest-0"
    written = write_records(manifest, MANIFEST, [_entry(number, size, rows) for number in range(files)])
    record = {
        "_VERSION": VERSION,
        "_FILE_NAME": manifest.name,
        "_FILE_SIZE": written,
        "_NUM_ADDED_FILES": files,
        "_NUM_DELETED_FILES": 0,
        "_PARTITION_STATS": {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": []},
        "_SCHEMA_ID": 0,
        "_MIN_BUCKET": 0,
        "_MAX_BUCKET": 0,
        "_MIN_LEVEL": 0,
        "_MAX_LEVEL": 0,
    }
    write_snapshot(table, 1, [], [record], rows=files * rows)


def _entry(number: int, size: int, rows: int) -> dict[str, Any]:
    types = tuple(each.type for each in _COLUMNS)
    low, high = (serialize_row((value,) * len(_COLUMNS), types) for value in (0, 1 << 62))
    return {
        "_VERSION": VERSION,
        "_KIND": 0,
        "_PARTITION": EMPTY_ROW,
        "_BUCKET": 0,
        "_TOTAL_BUCKETS": -1,
        "_FILE": {
            "_FILE_NAME": f"data-{number}.parquet",
            "_FILE_SIZE": size,
            "_ROW_COUNT": rows,
            "_MIN_KEY": EMPTY_ROW,
            "_MAX_KEY": EMPTY_ROW,
            "_KEY_STATS": {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": []},
            "_VALUE_STATS": {"_MIN_VALUES": low, "_MAX_VALUES": high, "_NULL_COUNTS": [0] * len(_COLUMNS)},
            "_MIN_SEQUENCE_NUMBER": number * rows,
            "_MAX_SEQUENCE_NUMBER": (number + 1) * rows - 1,
            "_SCHEMA_ID": 0,
            "_LEVEL": 0,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": 1_700_000_000_000 + number,
            "_DELETE_ROW_COUNT": 0,
            "LAYOUT_FILE_INDEX": None,
            "_FILE_SOURCE": 0,
        },
    }
