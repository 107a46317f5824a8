"""Manifests, manifest lists and index manifests, as columns and as entries, in Avro, ORC or Parquet."""

from app.table.manifests.disk_form import load_value, read_value, store_value, value_columns
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.live_files import live_and_removing, live_rows, removes_files
from app.table.manifests.manifest import Derived, Manifest
from app.table.manifests.manifest_entry import (
    FILE_INDEX_SUFFIX,
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    RowStatistics,
)
from app.table.manifests.manifest_list import ManifestFile, ManifestList
from app.table.records.columns import OptionalIntegers

__all__ = [
    # The end of the name of an index file next to a data file.
    "FILE_INDEX_SUFFIX",
    # A data file as its manifest describes it.
    "DataFileMeta",
    # Values computed from a manifest or a version, by key.
    "Derived",
    # An entry's effect: a file was added, or removed.
    "FileKind",
    # The writer of a file: an append or a compaction.
    "FileSource",
    # An entry of an index manifest.
    "IndexEntry",
    # Entries of one manifest, as columns.
    "Manifest",
    # A data file that was added or removed.
    "ManifestEntry",
    # One manifest as its list names it.
    "ManifestFile",
    # The manifests of one list, in order.
    "ManifestList",
    # Integers of n records, and which of them are known.
    "OptionalIntegers",
    # Statistics of one file or manifest, as stored.
    "RowStatistics",
    # Rows of live files, and of entries that remove files, by manifest.
    "live_and_removing",
    # Rows of entries whose files are live.
    "live_rows",
    # Loads a value of an entry of the disk cache.
    "load_value",
    # Reads a value from columns.
    "read_value",
    # Returns True if a manifest removes files.
    "removes_files",
    # Stores a value in an entry of the disk cache.
    "store_value",
    # The columns that store a value.
    "value_columns",
]
