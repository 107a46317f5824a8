"""Writes manifests and manifest lists as the engine does.

:mod:`app.table.manifests.manifest_entry` and :mod:`app.table.manifests.manifest_list` describe their fields.
Removals come before additions: a file whose metadata changes is removed and added under one name, and when
the engine expires snapshots it deletes removed files unless a later entry adds them. Both entries copy all
fields of the existing one, so that fields of later releases are kept as long as the file is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from operator import attrgetter
from typing import Any, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.options import ManifestOptions
from app.table.avro.container import MAGIC
from app.table.avro.whole_records import Record, WholeRecords, has_unknown_fields, united
from app.table.avro.writing import write_avro
from app.table.commits.changes import live_places
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import (
    FILE_RECORD,
    RECORD,
    DataFileMeta,
    FileKind,
    ManifestEntry,
    RowStatistics,
)
from app.table.manifests.manifest_list import RECORD as RECORD_OF_LIST
from app.table.manifests.record_files import read_whole
from app.table.records.columns import Nullable, OptionalIntegers, RecordOf
from app.table.schema.schema import TableSchema
from app.types import DataType, Value, sql_key
from app.types.binary_row import read_row, serialize_row
from app.types.roaring import Buffer

_VERSION: Final = 2
# Record of a manifest, as the engine expects it to be written.
MANIFEST: Final = RecordOf(
    {
        **RECORD.fields,
        "_FILE": RecordOf({**FILE_RECORD.fields, "_CREATION_TIME": Nullable("timestamp-millis")}),
    }
)

_members = attrgetter(*(member.name for member in fields(DataFileMeta)))
_EMPTY_ROW: Final = serialize_row((), ())
# Estimate of an entry's numbers and names, without its parts of variable length.
_ENTRY_BYTES: Final = 200


def manifest_options(table: str, schema: TableSchema) -> ManifestOptions:
    """Read the options that govern writing a table's manifests."""
    options = ManifestOptions.of(table, schema.options.values)
    # Fail on an unknown compression before any work is done.
    ListedManifests().write(options.compression)
    return options


@dataclass(frozen=True, slots=True)
class ListedManifests:
    """Complete records of manifest lists, to be listed again."""

    records: tuple[dict[str, Any], ...] = ()
    fields: RecordOf = field(default=RECORD_OF_LIST, repr=False)

    @classmethod
    def read(cls, data: Buffer) -> ListedManifests:
        """Read a manifest list that has been validated before."""
        whole = read_whole(data, RECORD_OF_LIST)
        return cls(tuple(whole.records), whole.fields)

    def followed_by(self, other: ListedManifests) -> ListedManifests:
        """Append the records of another list."""
        return ListedManifests((*self.records, *other.records), united(self.fields, other.fields))

    def write(self, compression: str) -> bytes:
        """Encode the manifest list."""
        return write_avro(self.records, self.fields, compression)


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """Columns of a manifest that its record in a list summarizes, named as in :class:`Manifest`."""

    kinds: NDArray[np.int8]
    partitions: tuple[bytes, ...]
    partition_codes: NDArray[np.int32]
    buckets: NDArray[np.int32]
    levels: NDArray[np.int32]
    row_counts: NDArray[np.int64]
    first_row_ids: OptionalIntegers

    @classmethod
    def of(cls, entries: Sequence[ManifestEntry]) -> Self:
        """Collect the columns of entries."""
        codes: dict[bytes, int] = {}
        partition_codes = [codes.setdefault(entry.partition, len(codes)) for entry in entries]
        return cls(
            np.array([entry.kind for entry in entries], np.int8),
            tuple(codes),
            np.array(partition_codes, np.int32),
            np.array([entry.bucket for entry in entries], np.int32),
            np.array([entry.file.level for entry in entries], np.int32),
            np.array([entry.file.row_count for entry in entries], np.int64),
            OptionalIntegers.of(pa.array([entry.file.first_row_id for entry in entries], pa.int64())),
        )


def write_manifest(entries: Iterable[ManifestEntry], compression: str) -> bytes:
    """Encode a manifest, entries in order."""
    return write_avro(map(entry_record, entries), MANIFEST, compression)


def listed(name: str, size: int, manifest: Manifest | Outline, schema: TableSchema) -> dict[str, Any]:
    """Return the record that lists a manifest."""
    added = int(np.count_nonzero(manifest.kinds == FileKind.ADD))
    buckets, levels, first_row_ids = manifest.buckets, manifest.levels, manifest.first_row_ids
    is_tracked = bool(first_row_ids.known.all())
    return {
        "_VERSION": _VERSION,
        "_FILE_NAME": name,
        "_FILE_SIZE": size,
        "_NUM_ADDED_FILES": added,
        "_NUM_DELETED_FILES": len(manifest.kinds) - added,
        "_PARTITION_STATS": _partition_statistics(
            manifest, [field.type for field in schema.partition_fields]
        ),
        "_SCHEMA_ID": schema.id,
        "_MIN_BUCKET": int(buckets.min()),
        "_MAX_BUCKET": int(buckets.max()),
        "_MIN_LEVEL": int(levels.min()),
        "_MAX_LEVEL": int(levels.max()),
        "_MIN_ROW_ID": int(first_row_ids.values.min()) if is_tracked else None,
        "_MAX_ROW_ID": int((first_row_ids.values + manifest.row_counts).max()) - 1 if is_tracked else None,
    }


def manifests_of(entries: Iterable[ManifestEntry], target_bytes: int) -> Iterator[list[ManifestEntry]]:
    """Split entries into manifests, removals first. A manifest is closed at ``target_bytes``."""
    ordered = sorted(entries, key=lambda entry: entry.kind is FileKind.ADD)
    part: list[ManifestEntry] = []
    held_bytes = 0
    for entry in ordered:
        part.append(entry)
        held_bytes += _size(entry.file)
        if held_bytes >= target_bytes:
            yield part
            part, held_bytes = [], 0
    if part:
        yield part


def _size(file: DataFileMeta) -> int:
    return (
        _ENTRY_BYTES
        + sum(map(len, (file.min_key, file.max_key, file.embedded_index or b"")))
        + file.key_statistics.nbytes
        + file.value_statistics.nbytes
    )


def entry_record(entry: ManifestEntry) -> dict[str, object]:
    """Return an entry as an Avro record."""
    values = (
        _statistics(value) if isinstance(value, RowStatistics) else value for value in _members(entry.file)
    )
    return {
        "_VERSION": _VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": dict(zip(FILE_RECORD.fields, values, strict=True)),
    }


def _statistics(statistics: RowStatistics) -> dict[str, object]:
    # Missing rows become the engine's empty row.
    low, high = (row or _EMPTY_ROW for row in (statistics.min_values, statistics.max_values))
    counts = statistics.null_counts
    is_unknown = not counts and low != _EMPTY_ROW
    return {"_MIN_VALUES": low, "_MAX_VALUES": high, "_NULL_COUNTS": None if is_unknown else counts}


def _partition_statistics(manifest: Manifest | Outline, types: Sequence[DataType]) -> dict[str, object]:
    counts = np.bincount(manifest.partition_codes, minlength=len(manifest.partitions)).tolist()
    rows = [read_row(partition, types) for partition in manifest.partitions]
    low: list[Value | None] = []
    high: list[Value | None] = []
    null_counts: list[int] = []
    for at, data_type in enumerate(types):
        values = [value for row in rows if (value := row[at]) is not None]
        values.sort(key=sql_key(data_type))
        low.append(values[0] if values else None)
        high.append(values[-1] if values else None)
        null_counts.append(sum(count for count, row in zip(counts, rows, strict=True) if row[at] is None))
    return _statistics(
        RowStatistics(serialize_row(low, types), serialize_row(high, types), tuple(null_counts))
    )


_File: TypeAlias = "tuple[bytes, int, str]"
_NOTHING: Final = WholeRecords(MANIFEST, [])


@dataclass(frozen=True, slots=True, eq=False)
class RewrittenEntries:
    """Writes entries of a commit, with the unknown fields that records of removed files have."""

    records: Mapping[_File, Record] = field(default_factory=dict)
    fields: RecordOf = MANIFEST

    @classmethod
    def read(
        cls,
        entries: Iterable[ManifestEntry],
        manifests: Sequence[Manifest],
        read: Callable[[Sequence[int], Callable[[bytes], WholeRecords]], Sequence[WholeRecords]],
    ) -> RewrittenEntries:
        """Read the records of files that a commit removes."""
        places = live_places(manifests, [entry for entry in entries if entry.kind is FileKind.DELETE])
        files = read(list(places), _unknown_records)
        records = {
            _file(entry): whole.records[row]
            for rows, whole in zip(places.values(), files, strict=True)
            for row, entry in rows.items()
            if whole.records
        }
        return cls(records, reduce(united, (whole.fields for whole in files), MANIFEST))

    def write(self, entries: Iterable[ManifestEntry], compression: str) -> bytes:
        """Encode a manifest, entries in order."""
        whole = (_overlaid(self.records.get(_file(entry), {}), entry_record(entry)) for entry in entries)
        return write_avro(whole, self.fields, compression)


def _unknown_records(content: bytes) -> WholeRecords:
    if content[: len(MAGIC)] != MAGIC or not has_unknown_fields(content, MANIFEST):
        return _NOTHING
    return read_whole(content, MANIFEST)


def _file(entry: ManifestEntry) -> _File:
    return entry.partition, entry.bucket, entry.file.file_name


def _overlaid(written: Record, values: Record) -> Record:
    return written | {
        name: _overlaid(written[name], value)
        if isinstance(value, dict) and isinstance(written.get(name), dict)
        else value
        for name, value in values.items()
    }
