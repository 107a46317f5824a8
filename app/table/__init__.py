"""Tables on disk: which versions there are, what files a version has, and what is known of them.

Decoders take bytes (``TableSchema.read``, ``Snapshot.read``, ``ManifestList.read``, ``Manifest.read``,
``IndexManifest.read``); only :class:`Table`, :class:`Catalog` and what they are made of read files.
All of them raise CorruptMetadataError for bytes that are not what they should be, and UnsupportedFormatError
for another version, format, codec or compression.
"""

from app.table.decoding import Snapshot
from app.table.resolution import ResolvedSnapshot
from app.table.schema.schema import BucketMode, TableSchema
from app.table.storage import TableReader
from app.table.table import Catalog, Table

__all__ = [
    "BucketMode",
    "Catalog",
    "ResolvedSnapshot",
    "Snapshot",
    "Table",
    "TableReader",
    "TableSchema",
]
