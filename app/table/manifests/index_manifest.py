"""Index manifests: files with one record per hash index or deletion vector file of a snapshot.

=============================================  ===================================================
field                                          meaning
=============================================  ===================================================
_VERSION int                                   1
_KIND int                                      0 ADD, in stored files always
_PARTITION bytes, _BUCKET int                  partition row and bucket of the index file
_INDEX_TYPE string                             ``HASH``, ``DELETION_VECTORS``, or a global index
_FILE_NAME string, _FILE_SIZE long             the index file
_ROW_COUNT long                                hashes, or deletion vectors, in it
_DELETIONS_VECTORS_RANGES                      nullable array: per data file ``f0`` its name, ``f1``
                                               offset, ``f2`` length, ``_CARDINALITY`` deleted rows
_EXTERNAL_PATH [null, string]                  location outside the table's index directory
_GLOBAL_INDEX                                  nullable record: ``_ROW_RANGE_START`` and ``_ROW_RANGE_END``,
                                               both included, ``_INDEX_FIELD_ID``, ``_EXTRA_FIELD_IDS``,
                                               ``_INDEX_META`` of a global index, since 2.0 ``_SOURCE_META``
=============================================  ===================================================

A commit writes a new index manifest. The key of an entry decides whether a new one replaces it:

=====================================  =====================  =============================================
entry                                  key                    a new one
=====================================  =====================  =============================================
hash index                             partition and bucket   replaces the previous one
deletion vectors of a bucket           partition and bucket   replaces the previous one
deletion vectors of an append table    file name              is added; its name must be new, and none of
without buckets                                               its data files may have a vector already
global index                           file name              is added
=====================================  =====================  =============================================

Removals precede additions. Removing an unknown file is an error only for deletion vectors of a table without
buckets. Other removals have taken effect already. Overlapping row ranges of global indexes are not checked,
since this project writes none.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa

from app.errors import CommitConflictError, CorruptMetadataError
from app.table.avro.whole_records import united
from app.table.avro.writing import write_avro
from app.table.manifests.manifest_entry import FileKind
from app.table.manifests.record_files import check_version, read_columns, read_whole
from app.table.records.columns import ArrayOf, Expected, Nullable, RecordColumns, RecordOf
from app.table.schema.schema import BucketMode
from app.types.index_files import DELETION_VECTORS, HASH, DeletionRange, GlobalIndex, IndexFileMeta
from app.types.roaring import Buffer

_VERSION = 1
_RANGE = RecordOf({"f0": "string", "f1": "int", "f2": "int", "_CARDINALITY": Nullable("long")})


def _fields(**of_newer_releases: Expected) -> RecordOf:
    # Releases after 1.4 add fields to global indexes; readers accept them.
    covered = RecordOf(
        {
            "_ROW_RANGE_START": "long",
            "_ROW_RANGE_END": "long",
            "_INDEX_FIELD_ID": "int",
            "_EXTRA_FIELD_IDS": Nullable(ArrayOf("int")),
            "_INDEX_META": Nullable("bytes"),
            **of_newer_releases,
        }
    )
    return RecordOf(
        {
            "_VERSION": "int",
            "_KIND": "int",
            "_PARTITION": "bytes",
            "_BUCKET": "int",
            "_INDEX_TYPE": "string",
            "_FILE_NAME": "string",
            "_FILE_SIZE": "long",
            "_ROW_COUNT": "long",
            "_DELETIONS_VECTORS_RANGES": Nullable(ArrayOf(Nullable(_RANGE))),
            "_EXTERNAL_PATH": Nullable("string"),
            "_GLOBAL_INDEX": Nullable(covered),
        }
    )


_FIELDS = _fields()
_READ_FIELDS = _fields(_SOURCE_META=Nullable("bytes"))
_MEMORY_PER_ENTRY = 600
_MEMORY_PER_RANGE = 300


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """Addition or removal of an index file of a bucket."""

    kind: FileKind
    partition: bytes
    bucket: int
    file: IndexFileMeta


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """Index files of a snapshot, in no particular order."""

    entries: tuple[IndexEntry, ...]

    @property
    def nbytes(self) -> int:
        """Approximate memory of the object."""
        return sum(map(_memory, self.entries))

    @classmethod
    def read(cls, data: Buffer) -> Self:
        """Read an index manifest."""
        records = read_columns(data, _READ_FIELDS)
        check_version(records, _VERSION, "index manifests")
        kinds = records.integers("_KIND", np.int32).tolist()
        if unknown := set(kinds) - set(FileKind):
            raise CorruptMetadataError(
                f"expected an index manifest entry of kind 0 or 1, found {min(unknown)}"
            )
        names = records.objects("_FILE_NAME")
        sizes, rows = (records.integers(name, np.int64) for name in ("_FILE_SIZE", "_ROW_COUNT"))
        for row in np.flatnonzero((sizes < 0) | (rows < 0))[:1]:
            raise CorruptMetadataError(
                f"index file {names[row]!r} claims {sizes[row]} bytes and {rows[row]} rows"
            )
        partition_codes, partitions = records.coded_bytes("_PARTITION")
        described = (
            records.objects("_INDEX_TYPE"),
            names,
            sizes.tolist(),
            rows.tolist(),
            _ranges(records, names),
            records.objects("_EXTERNAL_PATH"),
            map(_global_index, records.objects("_GLOBAL_INDEX")),
        )
        columns = (
            map(FileKind, kinds),
            map(partitions.__getitem__, partition_codes.tolist()),
            records.integers("_BUCKET", np.int32).tolist(),
            map(IndexFileMeta, *described),
        )
        return cls(tuple(map(IndexEntry, *columns)))

    def write(self, compression: str = "zstd") -> bytes:
        """Encode the file as the engine does under ``manifest.format=avro``, entries in order."""
        return write_avro(map(_record, self.entries), _FIELDS, compression)


def _memory(entry: IndexEntry) -> int:
    covered = entry.file.global_index
    kept_metadata = len(covered.metadata or b"") + len(covered.source or b"") if covered else 0
    return _MEMORY_PER_ENTRY + _MEMORY_PER_RANGE * len(entry.file.ranges) + kept_metadata


def _record(entry: IndexEntry) -> dict[str, object]:
    file = entry.file
    ranges = [
        {"f0": vector.data_file, "f1": vector.offset, "f2": vector.length, "_CARDINALITY": vector.cardinality}
        for vector in file.ranges
    ]
    return {
        "_VERSION": _VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": file.index_type,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        # A deletion vector file without vectors has an empty list; other types have none at all.
        "_DELETIONS_VECTORS_RANGES": ranges if file.index_type == DELETION_VECTORS else None,
        "_EXTERNAL_PATH": file.external_path,
        "_GLOBAL_INDEX": file.global_index and _global_record(file.global_index),
    }


def _global_record(covered: GlobalIndex) -> dict[str, object]:
    extra = covered.extra_field_ids
    return {
        "_ROW_RANGE_START": covered.first_row,
        "_ROW_RANGE_END": covered.last_row,
        "_INDEX_FIELD_ID": covered.field_id,
        "_EXTRA_FIELD_IDS": None if extra is None else list(extra),
        "_INDEX_META": covered.metadata,
    }


def _global_index(record: dict[str, Any] | None) -> GlobalIndex | None:
    if record is None:
        return None
    extra = record.get("_EXTRA_FIELD_IDS")
    return GlobalIndex(
        record["_ROW_RANGE_START"],
        record["_ROW_RANGE_END"],
        record["_INDEX_FIELD_ID"],
        None if extra is None else tuple(extra),
        record.get("_INDEX_META"),
        record.get("_SOURCE_META"),
    )


def _ranges(records: RecordColumns, file_names: Sequence[str]) -> list[tuple[DeletionRange, ...]]:
    # Columns instead of objects: a snapshot can have hundreds of thousands of ranges.
    lists = records.lists("_DELETIONS_VECTORS_RANGES", pa.struct([]))
    starts = np.asarray(lists.offsets)
    is_present = np.asarray(lists.values.is_valid())
    # Null ranges are dropped, so each entry's start moves forward by the nulls before it.
    starts = np.concatenate([[0], np.cumsum(is_present)])[starts]
    ranges = RecordColumns([lists.values.filter(pa.array(is_present))])
    if not len(ranges):
        return [()] * len(records)
    offsets, lengths = ranges.integers("f1", np.int64), ranges.integers("f2", np.int64)
    cardinalities = ranges.optional_integers("_CARDINALITY")
    for bad in np.flatnonzero((offsets < 0) | (lengths < 0) | (cardinalities.values < 0))[:1]:
        owner = file_names[int(np.searchsorted(starts, bad, side="right")) - 1]
        raise CorruptMetadataError(
            f"index file {owner!r} has an impossible range: offset {offsets[bad]}, length {lengths[bad]}, "
            f"cardinality {cardinalities[bad]}"
        )
    columns = (ranges.objects("f0"), offsets.tolist(), lengths.tolist(), cardinalities.tolist())
    vectors = list(map(DeletionRange, *columns))
    return [tuple(vectors[start:end]) for start, end in itertools.pairwise(starts.tolist())]


_Key: TypeAlias = tuple[str, str] | tuple[str, bytes, int]


def combine(previous: IndexManifest, changes: Sequence[IndexEntry], mode: BucketMode) -> IndexManifest:
    """Apply the changes of a commit: remaining entries in order, then the additions.

    Raises CommitConflictError if a table without buckets lacks a file that is removed, or already has a file
    or vector that is added.
    """
    for entry in previous.entries:
        if entry.kind is not FileKind.ADD:
            raise CorruptMetadataError(f"index file {entry.file.file_name!r} is stored as removed")
    entries = {_key(entry, mode): entry for entry in previous.entries}
    for entry in changes:
        if entry.kind is FileKind.DELETE:
            _remove(entries, entry, mode)
    owners = {
        vector.data_file: entry.file.file_name
        for entry in entries.values()
        if _stands_alone(entry, mode)
        for vector in entry.file.ranges
    }
    for entry in changes:
        if entry.kind is FileKind.ADD:
            if _stands_alone(entry, mode):
                _claim(entries, owners, entry, mode)
            # A replaced entry loses its position.
            entries.pop(_key(entry, mode), None)
            entries[_key(entry, mode)] = entry
    return IndexManifest(tuple(entries.values()))


def write_combined(
    previous: Buffer | None, changes: Sequence[IndexEntry], mode: BucketMode, compression: str
) -> bytes:
    """Encode the result of :func:`combine`. Remaining entries keep fields that are unknown here."""
    if previous is None:
        return combine(IndexManifest(()), changes, mode).write(compression)
    before, whole = IndexManifest.read(previous), read_whole(previous, _FIELDS)
    written = {id(entry): record for entry, record in zip(before.entries, whole.records, strict=True)}
    records = (written.get(id(entry)) or _record(entry) for entry in combine(before, changes, mode).entries)
    return write_avro(records, united(whole.fields, _FIELDS), compression)


def _stands_alone(entry: IndexEntry, mode: BucketMode) -> bool:
    return entry.file.index_type == DELETION_VECTORS and mode is BucketMode.BUCKET_UNAWARE


def takes_place(entry: IndexEntry, mode: BucketMode) -> bool:
    """Return True if a new entry replaces the one of its type, partition and bucket."""
    index_type = entry.file.index_type
    return index_type == HASH or (index_type == DELETION_VECTORS and mode is not BucketMode.BUCKET_UNAWARE)


def _key(entry: IndexEntry, mode: BucketMode) -> _Key:
    if takes_place(entry, mode):
        return entry.file.index_type, entry.partition, entry.bucket
    return entry.file.index_type, entry.file.file_name


def _remove(entries: dict[_Key, IndexEntry], entry: IndexEntry, mode: BucketMode) -> None:
    removed = entries.pop(_key(entry, mode), None)
    if removed is None and _stands_alone(entry, mode):
        raise CommitConflictError(
            f"index file {entry.file.file_name!r} cannot be removed: the latest snapshot does not have it"
        )


def _claim(
    entries: Mapping[_Key, IndexEntry], owners: dict[str, str], entry: IndexEntry, mode: BucketMode
) -> None:
    """Record the entry as owner of its data files' vectors.

    Raises CommitConflictError if its name, or a vector of one of the data files, exists already.
    """
    name = entry.file.file_name
    if _key(entry, mode) in entries:
        raise CommitConflictError(f"index file {name!r} cannot be added: its name exists already")
    for vector in entry.file.ranges:
        if vector.data_file in owners:
            raise CommitConflictError(
                f"index file {name!r} cannot be added: data file {vector.data_file!r} has its deletion "
                f"vector in {owners[vector.data_file]!r}"
            )
        owners[vector.data_file] = name
