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

Names, sizes, counts and the bounds of partitions are kept. The bounds enclose the partitions of entries of
both kinds, so a filter that rules them out rules out every file that the manifest adds or removes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptMetadataError
from app.table.manifests.manifest_entry import STATISTICS, StatisticsColumns
from app.table.manifests.record_files import check_version, read_columns
from app.table.records.columns import Nullable, RecordColumns, RecordOf
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
_MEMORY_PER_MANIFEST = 300

# Name and size in bytes of one manifest, as its list records them.
ManifestFile: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class ManifestList:
    """Manifests of one list, in order.

    ``added`` and ``deleted``, int64, shape (n,), count entries of each kind. ``partition_bounds`` cover both
    kinds.
    """

    manifests: tuple[ManifestFile, ...]
    added: NDArray[np.int64]
    deleted: NDArray[np.int64]
    partition_bounds: StatisticsColumns

    @property
    def nbytes(self) -> int:
        """Approximate memory of the object."""
        bounds = self.partition_bounds.min_values.nbytes + self.partition_bounds.max_values.nbytes
        return _MEMORY_PER_MANIFEST * (1 + len(self.manifests)) + bounds

    @classmethod
    def read(cls, data: Buffer) -> Self:
        """Read a manifest list."""
        records = read_columns(data, RECORD)
        check_version(records, _VERSION, "manifest lists")
        sizes = _counts(records, "_FILE_SIZE")
        return cls(
            tuple(zip(records.objects("_FILE_NAME"), sizes.tolist(), strict=True)),
            _counts(records, "_NUM_ADDED_FILES"),
            _counts(records, "_NUM_DELETED_FILES"),
            StatisticsColumns.of(records.records("_PARTITION_STATS")),
        )


def _counts(records: RecordColumns, name: str) -> NDArray[np.int64]:
    counts = records.integers(name, np.int64)
    for row in np.flatnonzero(counts < 0)[:1]:
        raise CorruptMetadataError(f"expected no negative {name} in a manifest list, found {counts[row]}")
    return counts
