"""Makers of manifest entries, with as little as a test needs, and of manifests."""

import io
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import fastavro

from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import DataFileMeta, FileKind, ManifestEntry
from app.table.manifests.row_statistics import RowStatistics
from app.types.binary_row.row import serialize_row
from benchmarks.avro_schemas import MANIFEST

EMPTY_ROW = serialize_row([], [])
NO_STATISTICS = RowStatistics(EMPTY_ROW, EMPTY_ROW, ())

_FILE = DataFileMeta(
    file_name="data-1.parquet",
    file_size=100,
    row_count=10,
    min_key=EMPTY_ROW,
    max_key=EMPTY_ROW,
    key_statistics=NO_STATISTICS,
    value_statistics=NO_STATISTICS,
    min_sequence_number=0,
    max_sequence_number=9,
    schema_id=0,
    level=0,
)


def data_file(**changes: Any) -> DataFileMeta:
    return replace(_FILE, **changes)


def entry(
    kind: FileKind = FileKind.ADD, *, partition: bytes = EMPTY_ROW, bucket: int = 0, **changes: Any
) -> ManifestEntry:
    return ManifestEntry(kind, partition, bucket, -1, data_file(**changes))


def manifest(entries: Iterable[ManifestEntry]) -> Manifest:
    return Manifest.read(avro(map(record, entries)))


def avro(records: Iterable[dict[str, Any]], schema: dict[str, Any] = MANIFEST) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, list(records), codec="zstandard")
    return out.getvalue()


def record(entry: ManifestEntry) -> dict[str, Any]:
    """The entry as its Avro record."""
    file = entry.file
    return {
        "_VERSION": 2,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": file.file_name,
            "_FILE_SIZE": file.file_size,
            "_ROW_COUNT": file.row_count,
            "_MIN_KEY": file.min_key,
            "_MAX_KEY": file.max_key,
            "_KEY_STATS": _statistics(file.key_statistics),
            "_VALUE_STATS": _statistics(file.value_statistics),
            "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
            "_SCHEMA_ID": file.schema_id,
            "_LEVEL": file.level,
            "_EXTRA_FILES": list(file.extra_files),
            "_CREATION_TIME": file.creation_time_millis,
            "_DELETE_ROW_COUNT": file.delete_row_count,
            "_EMBEDDED_FILE_INDEX": file.embedded_index,
            "_FILE_SOURCE": file.file_source,
            "_VALUE_STATS_COLS": _listed(file.value_statistics_columns),
            "_EXTERNAL_PATH": file.external_path,
            "_FIRST_ROW_ID": file.first_row_id,
            "_WRITE_COLS": _listed(file.write_columns),
        },
    }


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _statistics(stored: RowStatistics) -> dict[str, Any]:
    return {
        "_MIN_VALUES": stored.min_values,
        "_MAX_VALUES": stored.max_values,
        "_NULL_COUNTS": list(stored.null_counts),
    }
