"""PyIceberg plans a table from Iceberg's own metadata, and the same files by asking the service, in one run.

The metadata are written by PyIceberg itself: the files of the table that the service plans, with the bounds
that its manifests have. Iceberg's have no place for indexes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType

from benchmarks.events import CAT, DATABASE, DAY, ID, IDS, NUMBER_SPAN, SCORE, SCORES, TABLE
from benchmarks.manifest_records import WRITTEN_MILLIS, day_of, file_name, lowest_number
from benchmarks.runner import percentile
from benchmarks.servers import server
from benchmarks.services import KEYS, WAREHOUSE, prepare, warehouse_of
from benchmarks.synthetic import MANIFESTS
from benchmarks.workload import Figure, Suite, Unit

_SNAPSHOT: Final = 1
_FILE_BYTES: Final = 1 << 26
_METADATA: Final = "iceberg-metadata"
_RUNS: Final = 3
_DEADLINE_SECONDS: Final = "600"
_TYPES: Final = {"BIGINT": LongType(), "INT": IntegerType(), "DATE": DateType(), "VARCHAR": StringType()}
_SPEC: Final = PartitionSpec(PartitionField(DAY.id, 1000, IdentityTransform(), DAY.name), spec_id=1)
_NUMBERS: Final = slice(DAY.id + 1, None)


def suites(files: int) -> Iterator[Suite]:
    """One table, planned both ways."""
    yield Suite("Iceberg clients", partial(_figures, files=files), partial(_prepare, files))


def _prepare(files: int, directory: Path) -> None:
    prepare(KEYS, files, directory)
    metadata = warehouse_of(directory, KEYS, files) / _METADATA
    if not metadata.exists():
        metadata.mkdir()
        _write_metadata(metadata, files)


def _figures(directory: Path, files: int) -> Iterator[Figure]:
    warehouse = warehouse_of(directory, KEYS, files)
    metadata = warehouse / _METADATA
    random = Random(files)
    table = StaticTable.from_metadata(str(metadata / "v1.metadata.json"))
    size = sum(each.stat().st_size for each in metadata.iterdir())

    def one_id() -> BooleanExpression:
        return EqualTo(ID.name, random.randrange(IDS))

    yield from _measured("`id =`, from Iceberg's metadata", files, one_id, table.scan, lambda: size)
    yield from _measured("every file, from Iceberg's metadata", files, AlwaysTrue, table.scan, lambda: size)
    # The first plan reads every index file, on a machine that others may use.
    with server(warehouse, iceberg="true", deadline_seconds=_DEADLINE_SECONDS) as port:
        received = [0]

        def count(response: Any, **_: object) -> None:
            received[0] += len(response.content)

        catalog = RestCatalog("bench", uri=f"http://127.0.0.1:{port}/iceberg", warehouse=WAREHOUSE)
        catalog._session.hooks["response"].append(count)  # noqa: SLF001 - there is no other place for it

        def scan(wanted: BooleanExpression) -> DataScan:
            received[0] = 0
            return catalog.load_table(f"{DATABASE}.{TABLE}").scan(wanted)

        list(scan(one_id()).plan_files())
        yield from _measured("`id =`, through the service", files, one_id, scan, lambda: received[0])
        yield from _measured("every file, through the service", files, AlwaysTrue, scan, lambda: received[0])


def _measured(
    how: str,
    files: int,
    wanted: Callable[[], BooleanExpression],
    scan: Callable[[BooleanExpression], DataScan],
    read: Callable[[], int],
) -> Iterator[Figure]:
    """Plans of new conditions, each with loading the table where that is a request."""
    took, worked, kept = [], [], []
    for _ in range(_RUNS):
        started, before = time.perf_counter(), time.process_time()
        planned = list(scan(wanted()).plan_files())
        took.append(time.perf_counter() - started)
        worked.append(time.process_time() - before)
        kept.append(len(planned))
    name = f"PyIceberg plans {how}"
    # What the client works itself is the same on a machine that others use, too.
    for what, seconds in ((name, took), (f"{name}: processor time of the client", worked)):
        yield Figure(
            what,
            files,
            Unit.MILLISECONDS,
            percentile(sorted(seconds), 0.5) * 1e3,
            percentile(sorted(seconds), 0.99) * 1e3,
            runs=_RUNS,
            kept=sorted(kept)[_RUNS // 2],
        )
    yield Figure(f"{name}: bytes read by the client", files, Unit.BYTES_EACH, read() / files)


def _write_metadata(directory: Path, files: int) -> None:
    schema = Schema(
        *(NestedField(each.id, each.name, _TYPES[each.type.root], required=False) for each in KEYS.columns)
    )
    io = PyArrowFileIO()
    manifests = []
    for number in range(MANIFESTS):
        start, stop = files * number // MANIFESTS, files * (number + 1) // MANIFESTS
        output = io.new_output(str(directory / f"manifest-{number}.avro"))
        with write_manifest(2, _SPEC, schema, output, _SNAPSHOT, "zstandard") as writer:
            for entry in _entries(directory, start, stop):
                writer.add_entry(entry)
        manifests.append(writer.to_manifest_file())
    listed = str(directory / "manifest-list.avro")
    with write_manifest_list(2, io.new_output(listed), _SNAPSHOT, None, 1, "zstandard") as writer:
        writer.add_manifests(manifests)
    (directory / "v1.metadata.json").write_text(json.dumps(_metadata(directory, schema, listed)))


def _entries(directory: Path, start: int, stop: int) -> Iterator[ManifestEntry]:
    numbers = np.arange(start, stop)
    columns = KEYS.columns[_NUMBERS]
    lowest = [lowest_number(KEYS, number, numbers).tolist() for number in range(len(columns))]
    wide = {ID: IDS, CAT: 1_000_000_000, SCORE: SCORES}
    same_low = {each.id: to_bytes(_TYPES[each.type.root], 0) for each in wide}
    same_high = {each.id: to_bytes(_TYPES[each.type.root], bound) for each, bound in wide.items()}
    number_type = IntegerType()
    for at, number in enumerate(range(start, stop)):
        lows = {column.id: low[at] for column, low in zip(columns, lowest, strict=True)}
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{directory.parent}/{file_name(number)}",
            file_format=FileFormat.PARQUET,
            partition=Record(day_of(number)),
            record_count=KEYS.rows,
            file_size_in_bytes=_FILE_BYTES,
            value_counts={each.id: KEYS.rows for each in KEYS.columns},
            null_value_counts={each.id: 0 for each in KEYS.columns},
            lower_bounds=same_low | {key: to_bytes(number_type, low) for key, low in lows.items()},
            upper_bounds=same_high
            | {key: to_bytes(number_type, low + NUMBER_SPAN - 1) for key, low in lows.items()},
        )
        file.spec_id = _SPEC.spec_id
        yield ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=_SNAPSHOT, data_file=file)


def _metadata(directory: Path, schema: Schema, manifest_list: str) -> dict[str, Any]:
    return {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": str(directory),
        "last-sequence-number": 1,
        "last-updated-ms": WRITTEN_MILLIS,
        "last-column-id": schema.highest_field_id,
        "current-schema-id": 0,
        "schemas": [json.loads(schema.model_dump_json())],
        "default-spec-id": _SPEC.spec_id,
        "partition-specs": [json.loads(_SPEC.model_dump_json())],
        "last-partition-id": 1000,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "current-snapshot-id": _SNAPSHOT,
        "refs": {"main": {"type": "branch", "snapshot-id": _SNAPSHOT}},
        "snapshots": [
            {
                "snapshot-id": _SNAPSHOT,
                "sequence-number": 1,
                "timestamp-ms": WRITTEN_MILLIS,
                "manifest-list": manifest_list,
                "schema-id": 0,
                "summary": {"operation": "append"},
            }
        ],
    }
