"""A table of events with data: Parquet files with indexes beside them, which the engine reads as well.

Events come in the order of their time, so each file covers a part of a day; every other column is spread
over all files. Indexes are written by the product, and committed by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.building import build
from app.file_index.table_options import FileIndexOptions
from app.jobs.job_table import JobTable
from app.table.commits import Changes, CommitKind
from app.table.manifests.manifest_entry import (
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    RowStatistics,
)
from app.types import parse_type
from app.types.binary_row.row import serialize_row
from benchmarks.synthetic import make_table

NAME: Final = "events"
PER_FILE: Final = 4_615
"""Rows, where nothing else is asked for: 3,000,000 in 650 files."""

_DATABASE: Final = "db"
_FIRST_MICROS: Final = 1_740_787_200_000_000
_DAY_MICROS: Final = 86_400_000_000
_DAYS: Final = 30
_USERS: Final = 200_000
_COUNTRIES: Final = 200
_RAREST: Final = _COUNTRIES - 1
_WRITTEN_MILLIS: Final = 1_750_000_000_000
_TYPES: Final = {
    "event_id": "BIGINT",
    "user_id": "STRING",
    "country": "STRING",
    "amount": "DECIMAL(10, 2)",
    "ts": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "dt": "STRING",
}
_ARROW: Final = pa.schema(
    [
        pa.field(name, data_type, metadata={"PARQUET:field_id": str(number)})
        for number, (name, data_type) in enumerate(
            {
                "event_id": pa.int64(),
                "user_id": pa.string(),
                "country": pa.string(),
                "amount": pa.decimal128(10, 2),
                "ts": pa.timestamp("us", tz="UTC"),
                "dt": pa.string(),
            }.items()
        )
    ]
)
_OPTIONS: Final = {
    "bucket": "-1",
    "file.format": "parquet",
    "file-index.in-manifest-threshold": "1 B",
    "file-index.bloom-filter.columns": "event_id,user_id",
    "file-index.bloom-filter.event_id.items": "5000",
    "file-index.bloom-filter.event_id.fpp": "0.01",
    "file-index.bloom-filter.user_id.items": "5000",
    "file-index.bloom-filter.user_id.fpp": "0.01",
    "file-index.bitmap.columns": "country",
    "file-index.range-bitmap.columns": "amount",
}


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of the table.

    Attributes:
        name: in results.
        where: the condition; None for all rows.
        keys: values of ``event_id`` in a small table, with which the table is joined; none without a join.
    """

    name: str
    where: str | None = None
    keys: tuple[int, ...] = ()


def write_table(warehouse: Path, files: int, rows: int) -> list[Query]:
    """Write the table, and say what to ask of it."""
    table = warehouse / f"{_DATABASE}.db" / NAME
    make_table(
        table,
        {
            "version": 3,
            "id": 0,
            "fields": [
                {"id": number, "name": name, "type": written}
                for number, (name, written) in enumerate(_TYPES.items())
            ],
            "highestFieldId": len(_TYPES) - 1,
            "partitionKeys": ["dt"],
            "primaryKeys": [],
            "options": _OPTIONS,
            "timeMillis": _WRITTEN_MILLIS,
        },
    )
    types = {name: parse_type(written) for name, written in _TYPES.items()}
    options = FileIndexOptions.parse(_OPTIONS, types)
    known: list[tuple[int, str]] = []
    amounts: list[pa.Array] = []
    entries = []
    for number, events in enumerate(_events(files, rows)):
        known.append((events["event_id"][0].as_py(), events["user_id"][0].as_py()))
        amounts.append(pc.drop_null(events["amount"].combine_chunks()))
        entries.append(_write_file(table, number, events, options))
    job = JobTable.open(str(warehouse), f"{_DATABASE}.{NAME}")
    job.committer().commit(Changes(CommitKind.APPEND, tuple(entries)))
    return _queries(known, pa.concat_arrays(amounts))


def write_large_file(path: Path, rows: int) -> None:
    """One data file with this many events."""
    pq.write_table(next(_events(1, rows)), path, compression="zstd")


def _queries(known: list[tuple[int, str]], amounts: pa.Array) -> list[Query]:
    event, user = known[len(known) // 2][0], known[len(known) // 3][1]
    highest = amounts.take(pc.select_k_unstable(amounts, 10, [("", "descending")]))
    keys = tuple(event for event, _ in known[:: max(1, len(known) // 10)][:10])
    return [
        Query("point, bloom filter", f"event_id = {event}"),
        Query("absent value", "event_id = 4242424242424242"),
        Query("OR of two bloom filters", f"event_id = {event} OR user_id = '{user}'"),
        Query("rare amount, range bitmap", f"amount >= {pc.min(highest).as_py()}"),
        Query("rare country, rows in most files", f"country = '{_country(_RAREST)}'"),
        Query("narrow range, rows in most files", "amount BETWEEN 20.00 AND 20.10"),
        Query("IN of ten keys", f"event_id IN ({', '.join(map(str, keys))})"),
        Query("join with ten events", keys=keys),
        Query("everything"),
    ]


def _events(files: int, rows: int) -> Iterator[pa.Table]:
    """Yield the rows of each file, with the same values in every run."""
    chance = np.random.default_rng(42)
    for number in range(files):
        count = rows * (number + 1) // files - rows * number // files
        day = number * _DAYS // files
        first, after = (-(-each * files // _DAYS) for each in (day, day + 1))
        place = (number - first + np.sort(chance.random(count))) / (after - first)
        micros = (_FIRST_MICROS + day * _DAY_MICROS + place * _DAY_MICROS).astype(np.int64)
        cents = np.exp(chance.standard_normal(count) * 1.5 + 3) * 100
        cents = np.where(chance.random(count) < 0.02, -cents, cents).astype(np.int64)
        users = chance.random(count) ** 2 * _USERS
        countries = chance.random(count) ** 3 * _COUNTRIES
        yield pa.table(
            [
                pa.array(chance.integers(1 << 48, 1 << 62, count)),
                pa.array([f"u{user:07.0f}" for user in np.floor(users)]),
                pa.array([_country(int(each)) for each in countries], mask=chance.random(count) < 0.01),
                _decimals(cents, chance.random(count) < 0.005),
                pa.array(micros, pa.timestamp("us", tz="UTC")),
                pa.array([f"2025-03-{day + 1:02}"] * count),
            ],
            schema=_ARROW,
        )


def _country(number: int) -> str:
    return f"C{number:03}"


def _decimals(cents: np.ndarray, is_null: np.ndarray) -> pa.Array:
    """Hundredths as DECIMAL(10, 2)."""
    whole = pc.cast(pa.array(cents, mask=is_null), pa.decimal128(19, 0))
    return pc.cast(pc.multiply(whole, pa.scalar(Decimal("0.01"))), pa.decimal128(10, 2))


def _write_file(table: Path, number: int, events: pa.Table, options: FileIndexOptions) -> ManifestEntry:
    """Write a data file and its index."""
    day = events["dt"][0].as_py()
    bucket = table / f"dt={day}" / "bucket-0"
    bucket.mkdir(parents=True, exist_ok=True)
    name = f"data-{number:08}-0000-4000-8000-{number:012}-0.parquet"
    pq.write_table(events, bucket / name, compression="zstd")
    columns = {column: events[column] for column in {index.column for index in options.indexes}}
    index = build(columns, options).content
    (bucket / f"{name}.index").write_bytes(index)
    types = [parse_type(written) for written in _TYPES.values()]
    nothing = serialize_row((), ())
    bounds = [_bounds(events[column]) for column in _TYPES]
    return ManifestEntry(
        FileKind.ADD,
        serialize_row((day.encode(),), (types[-1],)),
        0,
        -1,
        DataFileMeta(
            name,
            (bucket / name).stat().st_size,
            events.num_rows,
            nothing,
            nothing,
            RowStatistics(nothing, nothing, ()),
            RowStatistics(
                serialize_row([least for least, _ in bounds], types),
                serialize_row([most for _, most in bounds], types),
                tuple(events[column].null_count for column in _TYPES),
            ),
            min_sequence_number=0,
            max_sequence_number=events.num_rows - 1,
            schema_id=0,
            level=0,
            extra_files=(f"{name}.index",),
            creation_time_millis=_WRITTEN_MILLIS,
            delete_row_count=0,
            file_source=FileSource.APPEND,
        ),
    )


def _bounds(column: pa.ChunkedArray) -> tuple[int | bytes, int | bytes]:
    """Least and greatest value, as the product holds them."""
    found = pc.min_max(column)
    least, most = (found[end] for end in ("min", "max"))
    if pa.types.is_timestamp(column.type):
        return least.value * 1000, most.value * 1000
    if pa.types.is_decimal(column.type):
        return int(least.as_py().scaleb(2)), int(most.as_py().scaleb(2))
    if pa.types.is_string(column.type):
        return least.as_py().encode(), most.as_py().encode()
    return least.as_py(), most.as_py()
