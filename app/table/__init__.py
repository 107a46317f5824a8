"""Tables on disk: their versions, the files of a version, and the statistics of those files.

Decoders take bytes (``TableSchema.read``, ``TableSnapshot.read``, ``ManifestList.read``, ``Manifest.read``,
``IndexManifest.read``). Only :class:`Table`, :class:`Catalog` and their parts read files. Bytes
that break their format raise CorruptMetadataError. An unknown version, format, codec or compression raises
UnsupportedFormatError.
"""

from app.table.avro.data_files import AvroFile
from app.table.columnar.decoder import DECODER, PROCESS_BYTES
from app.table.data_paths import DataPaths
from app.table.decoding import SCHEMA_BYTES, TableSnapshot, read_small
from app.table.paths import POSTPONED_BUCKET, TablePaths
from app.table.references import MOST_READS
from app.table.resolution import ResolvedSnapshot
from app.table.schema.partition import Partitions
from app.table.schema.schema import BucketMode, SchemaIds, TableSchema
from app.table.storage import TableReader
from app.table.table import DATABASE_SUFFIX, Catalog, Table, is_name

__all__ = [
    # The end of the name of a database's directory.
    "DATABASE_SUFFIX",
    # The child process that decodes ORC and Parquet.
    "DECODER",
    # Maximum number of snapshots or tags read for one answer.
    "MOST_READS",
    # The bucket of rows that a compaction will later assign.
    "POSTPONED_BUCKET",
    # Memory that the decoding process takes in addition to files.
    "PROCESS_BYTES",
    # Maximum bytes of a schema file.
    "SCHEMA_BYTES",
    # An Avro data file, a block at a time.
    "AvroFile",
    # The rule by which rows get buckets.
    "BucketMode",
    # Finds tables by name.
    "Catalog",
    # Paths of the existing data files of a version.
    "DataPaths",
    # Values of partition rows.
    "Partitions",
    # A version of a table, and the schema that filters refer to.
    "ResolvedSnapshot",
    # The schemas that a version's columns and options come from.
    "SchemaIds",
    # Reads one table.
    "Table",
    # Paths relative to the warehouse, or URIs of external files.
    "TablePaths",
    # The storage and caches that tables of a warehouse are read with.
    "TableReader",
    # One schema of a table, with the defaults of its version.
    "TableSchema",
    # One version of a table.
    "TableSnapshot",
    # Returns True if a text can name a database, table or branch.
    "is_name",
    # Reads a snapshot, tag or schema.
    "read_small",
]
