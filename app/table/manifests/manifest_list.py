"""Manifest lists: files with one record per manifest.

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
_MIN_ROW_ID, _MAX_ROW_ID              nullable long: bounds over row ids, where all files have some
====================================  ============================================================

Only names and sizes are kept. The counts and bounds could tell which manifests a filter needs, but a plan
also says how many files and rows there are in all, which stands in the manifests themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np

from app.errors import CorruptMetadataError
from app.table.manifests.record_files import check_version, read_columns
from app.table.manifests.row_statistics import STATISTICS
from app.table.records.expected import Nullable, RecordOf

if TYPE_CHECKING:
    from app.types.roaring import Buffer

_VERSION = 2
RECORD = RecordOf(
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
        "_MIN_ROW_ID": Nullable("long"),
        "_MAX_ROW_ID": Nullable("long"),
    }
)
_MEMORY_PER_MANIFEST = 250

ManifestFile: TypeAlias = tuple[str, int]
"""One manifest as its list names it: the name of its file, and how many bytes that has."""


@dataclass(frozen=True, slots=True)
class ManifestList:
    """The manifests of one list, in order."""

    manifests: tuple[ManifestFile, ...]

    @property
    def nbytes(self) -> int:
        """About how much memory the object takes."""
        return _MEMORY_PER_MANIFEST * (1 + len(self.manifests))

    @classmethod
    def read(cls, data: Buffer) -> Self:
        """Reads a manifest list.

        Raises:
            CorruptMetadataError: the bytes are no manifest list.
            UnsupportedFormatError: it is of another version or format.
        """
        records = read_columns(data, RECORD)
        check_version(records, _VERSION, "manifest lists")
        sizes = records.integers("_FILE_SIZE", np.int64).tolist()
        if min(sizes, default=0) < 0:
            raise CorruptMetadataError(f"a manifest of {min(sizes)} bytes")
        return cls(tuple(zip(records.objects("_FILE_NAME"), sizes, strict=True)))
