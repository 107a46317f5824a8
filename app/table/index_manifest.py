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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.avro import read_records
from app.table.avro_schema import ArrayOf, Nullable, RecordOf
from app.table.manifest import FileKind

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    def parse(cls, data: bytes) -> Self:
        """Reads an index manifest.

        Raises:
            CorruptMetadataError: the bytes are no index manifest.
            UnsupportedFormatError: it is of another version or format.
        """
        return cls(tuple(_entry(record) for record in read_records(data, _RECORD)))


def _entry(record: Mapping[str, Any]) -> IndexEntry:
    if record["_VERSION"] != _VERSION:
        raise UnsupportedFormatError(f"index manifests of version {record['_VERSION']} cannot be read")
    try:
        kind = FileKind(record["_KIND"])
    except ValueError as error:
        raise CorruptMetadataError(f"expected an index manifest entry of kind 0 or 1: {error}") from error
    name, size, rows = record["_FILE_NAME"], record["_FILE_SIZE"], record["_ROW_COUNT"]
    if size < 0 or rows < 0:
        raise CorruptMetadataError(f"index file {name!r} with {size} bytes and {rows} rows")
    return IndexEntry(
        kind=kind,
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        index_type=record["_INDEX_TYPE"],
        file_name=name,
        file_size=size,
        row_count=rows,
        ranges=tuple(_range(each, name) for each in record.get("_DELETIONS_VECTORS_RANGES") or () if each),
        external_path=record.get("_EXTERNAL_PATH"),
    )


def _range(record: Mapping[str, Any], file_name: str) -> DeletionRange:
    found = DeletionRange(record["f0"], record["f1"], record["f2"], record.get("_CARDINALITY"))
    if found.offset < 0 or found.length < 0 or (found.cardinality or 0) < 0:
        raise CorruptMetadataError(f"index file {file_name!r} with an impossible range: {found}")
    return found
