"""Manifest lists: Avro files with one record per manifest.

====================================  ============================================================
field                                 meaning
====================================  ============================================================
_VERSION int                          2
_FILE_NAME string, _FILE_SIZE long    the manifest
_NUM_ADDED_FILES, _NUM_DELETED_FILES  long: its entries of each kind
_PARTITION_STATS                      smallest and largest value of each partition column
_SCHEMA_ID long                       the newest schema when it was written
_MIN_BUCKET, _MAX_BUCKET, _MIN_LEVEL  nullable int: bounds over entries of both kinds
_MAX_LEVEL
====================================  ============================================================

Since the bounds cover both kinds of entries, a manifest may be skipped by them together with its deletions:
what those delete lies inside the same bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from app.errors import CorruptMetadataError, UnsupportedFormatError
from app.table.avro import read_records
from app.table.avro_schema import Nullable, RecordOf
from app.table.row_statistics import STATISTICS, RowStatistics

_VERSION = 2
_RECORD = RecordOf(
    {
        "_VERSION": "int",
        "_FILE_NAME": "string",
        "_FILE_SIZE": "long",
        "_NUM_ADDED_FILES": "long",
        "_NUM_DELETED_FILES": "long",
        "_PARTITION_STATS": STATISTICS,
        "_SCHEMA_ID": "long",
        "_MIN_BUCKET": Nullable("int"),
        "_MAX_BUCKET": Nullable("int"),
        "_MIN_LEVEL": Nullable("int"),
        "_MAX_LEVEL": Nullable("int"),
    }
)
_MEMORY_PER_MANIFEST = 600


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One manifest as its list describes it; attributes are named after the fields above."""

    file_name: str
    file_size: int
    added_files: int
    deleted_files: int
    partition_statistics: RowStatistics
    schema_id: int
    min_bucket: int | None
    max_bucket: int | None
    min_level: int | None
    max_level: int | None


@dataclass(frozen=True, slots=True)
class ManifestList:
    """The manifests of one list, in order."""

    manifests: tuple[ManifestFile, ...]

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        return _MEMORY_PER_MANIFEST * (1 + len(self.manifests)) + sum(
            manifest.partition_statistics.nbytes for manifest in self.manifests
        )

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads a manifest list.

        Raises:
            CorruptMetadataError: the bytes are no manifest list.
            UnsupportedFormatError: it is of another version or format.
        """
        manifests = []
        for record in read_records(data, _RECORD):
            if record["_VERSION"] != _VERSION:
                raise UnsupportedFormatError(f"manifest lists of version {record['_VERSION']} cannot be read")
            if record["_FILE_SIZE"] < 0:
                raise CorruptMetadataError(f"a manifest of {record['_FILE_SIZE']} bytes")
            manifests.append(
                ManifestFile(
                    file_name=record["_FILE_NAME"],
                    file_size=record["_FILE_SIZE"],
                    added_files=record["_NUM_ADDED_FILES"],
                    deleted_files=record["_NUM_DELETED_FILES"],
                    partition_statistics=RowStatistics.of(record["_PARTITION_STATS"]),
                    schema_id=record["_SCHEMA_ID"],
                    min_bucket=record.get("_MIN_BUCKET"),
                    max_bucket=record.get("_MAX_BUCKET"),
                    min_level=record.get("_MIN_LEVEL"),
                    max_level=record.get("_MAX_LEVEL"),
                )
            )
        return cls(tuple(manifests))
