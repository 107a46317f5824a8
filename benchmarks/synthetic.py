"""Writes the metadata and the indexes of tables; they have no data files, since nothing here reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from app.types import DataField
from benchmarks.avro_files import write_encoded, write_records
from benchmarks.avro_schemas import MANIFEST, MANIFEST_LIST
from benchmarks.events import CAT, DATABASE, DAY, ID, SCORE, TABLE, Indexed, Layout
from benchmarks.index_bodies import write_bodies
from benchmarks.manifest_records import (
    VERSION,
    WRITTEN_MILLIS,
    day_of,
    file_name,
    heads,
    index_and_tail,
    partition_row,
)

MANIFESTS: Final = 10

IDENTIFIER: Final = f"{DATABASE}.{TABLE}"

Manifest = dict[str, Any]


def write_table(warehouse: Path, layout: Layout, files: int, manifests: int = MANIFESTS) -> list[Manifest]:
    """Write the table into an empty warehouse.

    ``warehouse``: the warehouse's directory; indexes that files share lie beside it.
    ``layout``: of the table.
    ``files``: how many data files the table has.
    ``manifests``: how many manifests share them evenly.

    Returns:
        Records of the manifests, for a list of them.
    """
    table = table_directory(warehouse)
    make_table(table, schema_json(layout.columns, [DAY], options=_index_options(layout)))
    bounds = [files * number // manifests for number in range(manifests + 1)]
    written = [write_manifest(warehouse, layout, start, stop) for start, stop in pairwise(bounds)]
    write_snapshot(table, 1, [], written, rows=files * layout.rows)
    return written


def table_directory(warehouse: Path, name: str = TABLE) -> Path:
    """Return the directory of a table."""
    return warehouse / f"{DATABASE}.db" / name


def make_table(table: Path, schema: dict[str, Any]) -> None:
    """Make the directory of a table that has a schema, and no snapshot."""
    for directory in ("schema", "snapshot", "manifest", "index"):
        (table / directory).mkdir(parents=True)
    (table / "schema" / "schema-0").write_text(json.dumps(schema))


def schema_json(
    columns: Sequence[DataField],
    partitioned_by: Sequence[DataField] = (),
    primary_key: Sequence[DataField] = (),
    options: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return the schema of a table without fixed buckets."""
    return {
        "version": 3,
        "id": 0,
        "fields": [{"id": each.id, "name": each.name, "type": str(each.type)} for each in columns],
        "highestFieldId": max(each.id for each in columns),
        "partitionKeys": [each.name for each in partitioned_by],
        "primaryKeys": [each.name for each in primary_key],
        "options": {"bucket": "-1", **(options or {})},
        "timeMillis": WRITTEN_MILLIS,
    }


def write_manifest(warehouse: Path, layout: Layout, start: int, stop: int) -> Manifest:
    """Write the manifest of the files ``start`` to ``stop``, and their side files; return its record."""
    table = table_directory(warehouse)
    path = table / "manifest" / f"manifest-{start}"
    for day in range(day_of(start, layout.files_per_day), day_of(stop - 1, layout.files_per_day) + 1):
        (table / f"day={day}").mkdir(exist_ok=True)
    has_index = layout.indexed is not Indexed.NOTHING
    bodies = write_bodies(warehouse.parent / "indexes", layout, layout.bodies) if has_index else []
    if has_index and layout.is_embedded:
        tails = [index_and_tail(body.read_bytes()) for body in bodies]
    else:
        tails = [index_and_tail(None)]
        _link_side_files(table, layout, bodies, start, stop)
    records = (
        (head, tails[number % len(tails)]) for number, head in enumerate(heads(layout, start, stop), start)
    )
    size = write_encoded(path, MANIFEST, records)
    return {
        "_VERSION": VERSION,
        "_FILE_NAME": path.name,
        "_FILE_SIZE": size,
        "_NUM_ADDED_FILES": stop - start,
        "_NUM_DELETED_FILES": 0,
        "_PARTITION_STATS": {
            "_MIN_VALUES": partition_row(day_of(start, layout.files_per_day)),
            "_MAX_VALUES": partition_row(day_of(stop - 1, layout.files_per_day)),
            "_NULL_COUNTS": [0],
        },
        "_SCHEMA_ID": 0,
        "_MIN_BUCKET": 0,
        "_MAX_BUCKET": 0,
        "_MIN_LEVEL": 0,
        "_MAX_LEVEL": 0,
    }


def write_snapshot(
    table: Path,
    number: int,
    base: Sequence[Manifest],
    delta: Sequence[Manifest],
    index_manifest: str | None = None,
    *,
    rows: int,
) -> None:
    """Make a version of the table the newest.

    ``table``: the table's directory.
    ``number``: of the snapshot.
    ``base``: records of the manifests of the version before.
    ``delta``: records of the manifests that this version adds.
    ``index_manifest``: the name of the file that lists hash indexes and deletion vectors.
    ``rows``: of all its files.
    """
    lists = {"base": base, "delta": delta}
    for name, manifests in lists.items():
        write_records(table / "manifest" / f"manifest-list-{name}-{number}", MANIFEST_LIST, manifests)
    snapshot = {
        "version": 3,
        "id": number,
        "schemaId": 0,
        "baseManifestList": f"manifest-list-base-{number}",
        "deltaManifestList": f"manifest-list-delta-{number}",
        "indexManifest": index_manifest,
        "commitUser": "benchmark",
        "commitIdentifier": number,
        "commitKind": "APPEND",
        "timeMillis": WRITTEN_MILLIS + number,
        "totalRecordCount": rows,
        "deltaRecordCount": 0,
    }
    present = {name: value for name, value in snapshot.items() if value is not None}
    (table / "snapshot" / f"snapshot-{number}").write_text(json.dumps(present))
    (table / "snapshot" / "LATEST").write_text(str(number))


def _index_options(layout: Layout) -> dict[str, str]:
    match layout.indexed:
        case Indexed.NOTHING:
            return {}
        case Indexed.KEYS:
            return {"file-index.bloom-filter.columns": ID.name}
        case Indexed.VALUES:
            return {
                "file-index.bitmap.columns": CAT.name,
                "file-index.range-bitmap.columns": SCORE.name,
            }


def _link_side_files(table: Path, layout: Layout, bodies: Sequence[Path], start: int, stop: int) -> None:
    """Put an index beside each data file; files of equal content share it on the disk."""
    if not bodies:
        return
    for number in range(start, stop):
        bucket = table / f"day={day_of(number, layout.files_per_day)}" / "bucket-0"
        bucket.mkdir(parents=True, exist_ok=True)
        (bucket / f"{file_name(number)}.index").hardlink_to(bodies[number % len(bodies)])
