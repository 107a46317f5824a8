"""Index manifests: Avro files with one record per hash index or deletion vector file of a snapshot.

=============================================  ===================================================
field                                          meaning
=============================================  ===================================================
_VERSION int                                   1
_KIND int                                      0 ADD, in stored files always
_PARTITION bytes, _BUCKET int                  what it belongs to
_INDEX_TYPE string                             ``HASH``, ``DELETION_VECTORS``, or a global index
_FILE_NAME string, _FILE_SIZE long             the index file
_ROW_COUNT long                                hashes, or deletion vectors, in it
_DELETIONS_VECTORS_RANGES                      nullable array: per data file ``f0`` its name, ``f1``
                                               offset, ``f2`` length, ``_CARDINALITY`` deleted rows
_EXTERNAL_PATH [null, string]                  where it lies, if not with the table's other index files
=============================================  ===================================================
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.avro import read_columns
from app.table.avro_schema import ArrayOf, Nullable, RecordOf
from app.table.manifest_entry import FileKind
from app.table.record_columns import RecordColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.types.roaring import Buffer

HASH = "HASH"
DELETION_VECTORS = "DELETION_VECTORS"

_VERSION = 1
_RANGE = RecordOf({"f0": "string", "f1": "int", "f2": "int", "_CARDINALITY": Nullable("long")})
_RECORD = RecordOf(
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
    }
)
_MEMORY_PER_ENTRY = 500
_MEMORY_PER_RANGE = 300


@dataclass(frozen=True, slots=True)
class DeletionRange:
    """Where the deletion vector of one data file lies in an index file.

    Attributes:
        data_file: the data file's name.
        offset: byte of the vector's size field.
        length: bytes as recorded; for 32-bit vectors without the size field and the checksum.
        cardinality: deleted rows, if recorded.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One index file; attributes are named after the fields above.

    Attributes:
        ranges: the vectors of a deletion vector file, in order; empty for other kinds.
    """

    kind: FileKind
    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    ranges: tuple[DeletionRange, ...] = ()
    external_path: str | None = None


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """All index files of a snapshot, in no particular order."""

    entries: tuple[IndexEntry, ...]

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        return sum(_MEMORY_PER_ENTRY + _MEMORY_PER_RANGE * len(entry.ranges) for entry in self.entries)

    @classmethod
    def parse(cls, data: Buffer) -> Self:
        """Reads an index manifest.

        Raises:
            CorruptMetadataError: the bytes are no index manifest.
            UnsupportedFormatError: it is of another version or format.
        """
        records = read_columns(data, _RECORD)
        versions = records.integers("_VERSION", np.int32).tolist()
        if unknown := set(versions) - {_VERSION}:
            raise UnsupportedFormatError(f"index manifests of version {min(unknown)} cannot be read")
        kinds = records.integers("_KIND", np.int32).tolist()
        if unknown := set(kinds) - set(FileKind):
            raise CorruptMetadataError(
                f"expected an index manifest entry of kind 0 or 1, found {min(unknown)}"
            )
        names = records.texts("_FILE_NAME")
        sizes, rows = (records.integers(name, np.int64) for name in ("_FILE_SIZE", "_ROW_COUNT"))
        for row in np.flatnonzero((sizes < 0) | (rows < 0))[:1]:
            raise CorruptMetadataError(
                f"index file {names[row]!r} with {sizes[row]} bytes and {rows[row]} rows"
            )
        partition_codes, partitions = records.coded_bytes("_PARTITION")
        columns = (
            map(FileKind, kinds),
            map(partitions.__getitem__, partition_codes.tolist()),
            records.integers("_BUCKET", np.int32).tolist(),
            records.texts("_INDEX_TYPE"),
            names,
            sizes.tolist(),
            rows.tolist(),
            _ranges(records, names),
            records.texts("_EXTERNAL_PATH"),
        )
        return cls(tuple(map(IndexEntry, *columns)))


def _ranges(records: RecordColumns, file_names: Sequence[str]) -> list[tuple[DeletionRange, ...]]:
    """The ranges of each entry; there can be hundreds of thousands in all."""
    lists = records.lists("_DELETIONS_VECTORS_RANGES", pa.struct([]))
    starts = np.asarray(lists.offsets)
    there = np.asarray(lists.values.is_valid())
    # Without the ranges that are null, each entry's begin as many places earlier as nulls stand before them.
    starts = np.concatenate([[0], np.cumsum(there)])[starts]
    ranges = RecordColumns([lists.values.filter(pa.array(there))])
    if not len(ranges):
        return [()] * len(records)
    offsets, lengths = ranges.integers("f1", np.int64), ranges.integers("f2", np.int64)
    cardinalities = ranges.optional_integers("_CARDINALITY")
    for bad in np.flatnonzero((offsets < 0) | (lengths < 0) | (cardinalities.values < 0))[:1]:
        owner = file_names[int(np.searchsorted(starts, bad, side="right")) - 1]
        raise CorruptMetadataError(
            f"index file {owner!r} with an impossible range: offset {offsets[bad]}, length {lengths[bad]}, "
            f"cardinality {cardinalities[bad]}"
        )
    columns = (ranges.texts("f0"), offsets.tolist(), lengths.tolist(), cardinalities.tolist())
    found = list(map(DeletionRange, *columns))
    return [tuple(found[start:end]) for start, end in itertools.pairwise(starts.tolist())]
