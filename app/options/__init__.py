"""The options of a table, which its schema stores as text by name. Only this package parses them.

A wrong option raises RequestError if it is given, CorruptMetadataError if it is stored. The message names it
and its valid values.
"""

from app.options.file_indexes import IndexDeclaration, split_map_key
from app.options.reading import INT32_MAX, OptionReader, fraction, memory_size, whole_number
from app.options.table_options import (
    BUCKET_KEY,
    MAX_BUCKET,
    POSTPONED_BUCKETS,
    UNBOUNDED_BUCKETS,
    AssignerOptions,
    DynamicBucketOptions,
    MergeEngine,
    TableOptions,
)
from app.options.written_files import ALL, DataFileOptions, ManifestOptions, StatisticsMode, VectorOptions

__all__ = [
    # The statistics mode for whole values, however long.
    "ALL",
    # The name of the option that names the bucket key.
    "BUCKET_KEY",
    # The largest number that an option of 32 bits holds.
    "INT32_MAX",
    # The highest bucket that dynamic buckets can reach.
    "MAX_BUCKET",
    # The number of buckets of a table whose writers leave that to compaction.
    "POSTPONED_BUCKETS",
    # The number of buckets of a table without buckets, or with dynamic ones.
    "UNBOUNDED_BUCKETS",
    # The options that an assigner of dynamic buckets starts with.
    "AssignerOptions",
    # The format, compression and size of data files.
    "DataFileOptions",
    # The options of dynamic buckets.
    "DynamicBucketOptions",
    # An index that options declare.
    "IndexDeclaration",
    # The format, compression and size of manifests.
    "ManifestOptions",
    # The rule by which the versions of one key become one row.
    "MergeEngine",
    # Options of a table by name, given for writing or stored.
    "OptionReader",
    # The kind of statistics that a column gets.
    "StatisticsMode",
    # The options of one schema, each parsed once.
    "TableOptions",
    # The form and size of deletion vectors.
    "VectorOptions",
    # Reads an option that is a floating point number.
    "fraction",
    # Reads an option such as `64 mb`.
    "memory_size",
    # Splits the name of an indexed key of a map.
    "split_map_key",
    # Reads an option of 32 bits.
    "whole_number",
]
