"""Writes the metadata of an append table without buckets: any number of files, each with an embedded index.

Statistics of the indexed columns cover every literal that is asked for, so that only the indexes can skip a
file; those of ``day`` are narrow. There are no data files, since nothing here reads them.
"""

from __future__ import annotations

import json
from datetime import date
from random import Random
from typing import TYPE_CHECKING, Any, Final

import fastavro

from app.types.binary_row import serialize_row
from benchmarks.avro_schemas import MANIFEST, MANIFEST_LIST
from benchmarks.columns import (
    CAT,
    CATEGORIES,
    DAY,
    DISTINCT_INDEXES,
    ID,
    IDS,
    ROWS,
    SCORE,
    SCORES,
    file_index,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DATABASE: Final = "bench"
TABLE: Final = "events"
FILES_PER_DAY: Final = 20
FIRST_DAY: Final = date(2020, 1, 1)

_COLUMNS: Final = (ID, CAT, SCORE, DAY)
_TYPES: Final = [column.type for column in _COLUMNS]
_ENTRIES_PER_MANIFEST: Final = 2_000
_VERSION: Final = 2
_WRITTEN_MILLIS: Final = 1_700_000_000_000
_EPOCH: Final = date(1970, 1, 1)
_NO_COLUMNS: Final = {
    "_MIN_VALUES": serialize_row((), ()),
    "_MAX_VALUES": serialize_row((), ()),
    "_NULL_COUNTS": [],
}


def write_table(warehouse: Path, files: int) -> None:
    """Writes the table into an empty warehouse.

    Args:
        warehouse: the warehouse's directory.
        files: how many data files the table has.
    """
    table = warehouse / f"{DATABASE}.db" / TABLE
    for directory in ("schema", "snapshot", "manifest"):
        (table / directory).mkdir(parents=True)
    (table / "schema" / "schema-0").write_text(json.dumps(_schema()))
    random = Random(files)
    indexes = [file_index((ID, CAT, SCORE), random) for _ in range(DISTINCT_INDEXES)]
    entries = [_entry(number, indexes[number % DISTINCT_INDEXES]) for number in range(files)]
    manifests = [
        _write_manifest(
            table / "manifest" / f"manifest-{start}", entries[start : start + _ENTRIES_PER_MANIFEST]
        )
        for start in range(0, files, _ENTRIES_PER_MANIFEST)
    ]
    _write_avro(table / "manifest" / "manifest-list-base", MANIFEST_LIST, [])
    _write_avro(table / "manifest" / "manifest-list-delta", MANIFEST_LIST, manifests)
    (table / "snapshot" / "snapshot-1").write_text(json.dumps(_snapshot(files)))
    (table / "snapshot" / "LATEST").write_text("1")


def _schema() -> dict[str, Any]:
    return {
        "version": 3,
        "id": 0,
        "fields": [{"id": each.id, "name": each.name, "type": str(each.type)} for each in _COLUMNS],
        "highestFieldId": max(each.id for each in _COLUMNS),
        "partitionKeys": [],
        "primaryKeys": [],
        "options": {
            "bucket": "-1",
            "file-index.bloom-filter.columns": ID.name,
            "file-index.bitmap.columns": CAT.name,
            "file-index.range-bitmap.columns": SCORE.name,
        },
        "timeMillis": _WRITTEN_MILLIS,
    }


def _snapshot(files: int) -> dict[str, Any]:
    return {
        "version": 3,
        "id": 1,
        "schemaId": 0,
        "baseManifestList": "manifest-list-base",
        "deltaManifestList": "manifest-list-delta",
        "commitUser": "benchmark",
        "commitIdentifier": 1,
        "commitKind": "APPEND",
        "timeMillis": _WRITTEN_MILLIS,
        "totalRecordCount": files * ROWS,
        "deltaRecordCount": files * ROWS,
    }


def _entry(number: int, index: bytes) -> dict[str, Any]:
    day = (FIRST_DAY - _EPOCH).days + number // FILES_PER_DAY
    return {
        "_VERSION": _VERSION,
        "_KIND": 0,
        "_PARTITION": serialize_row((), ()),
        "_BUCKET": 0,
        "_TOTAL_BUCKETS": -1,
        "_FILE": {
            "_FILE_NAME": f"data-00000000-0000-4000-8000-{number:012}-0.parquet",
            "_FILE_SIZE": 1 << 20,
            "_ROW_COUNT": ROWS,
            "_MIN_KEY": serialize_row((), ()),
            "_MAX_KEY": serialize_row((), ()),
            "_KEY_STATS": _NO_COLUMNS,
            "_VALUE_STATS": {
                "_MIN_VALUES": serialize_row((0, 0, 0, day), _TYPES),
                "_MAX_VALUES": serialize_row((IDS, CATEGORIES, SCORES, day), _TYPES),
                "_NULL_COUNTS": [0] * len(_COLUMNS),
            },
            "_MIN_SEQUENCE_NUMBER": number * ROWS,
            "_MAX_SEQUENCE_NUMBER": (number + 1) * ROWS - 1,
            "_SCHEMA_ID": 0,
            "_LEVEL": 0,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": _WRITTEN_MILLIS,
            "_DELETE_ROW_COUNT": 0,
            "_EMBEDDED_FILE_INDEX": index,
            "_FILE_SOURCE": 0,
        },
    }


def _write_manifest(path: Path, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Writes a manifest; returns its record for the manifest list."""
    _write_avro(path, MANIFEST, entries)
    return {
        "_VERSION": _VERSION,
        "_FILE_NAME": path.name,
        "_FILE_SIZE": path.stat().st_size,
        "_NUM_ADDED_FILES": len(entries),
        "_NUM_DELETED_FILES": 0,
        "_PARTITION_STATS": _NO_COLUMNS,
        "_SCHEMA_ID": 0,
    }


def _write_avro(path: Path, schema: dict[str, Any], records: Sequence[dict[str, Any]]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, codec="zstandard")
