"""Makers of manifest entries, with as little as a test needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.table.manifest import DataFileMeta, FileKind, ManifestEntry
from app.table.row_statistics import RowStatistics
from app.types.binary_row import serialize_row

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
