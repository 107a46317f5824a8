"""Tables on disk: which versions there are, what files a version has, and what is known of them.

Decoders take bytes (``TableSchema.read``, ``Snapshot.read``, ``ManifestList.read``, ``Manifest.read``,
``IndexManifest.read``); only :class:`Table`, :class:`Catalog` and what they are made of read files.
"""

from app.table.catalog import Catalog
from app.table.orphans import Orphan, OrphanFiles, OrphanKind, Orphans, Removal
from app.table.other_orphans import OtherOrphanFiles
from app.table.resolution import ResolvedSnapshot
from app.table.schema.schema import BucketMode, TableSchema
from app.table.snapshot import Snapshot
from app.table.storage import TableReader
from app.table.table import Table

__all__ = [
    "BucketMode",
    "Catalog",
    "Orphan",
    "OrphanFiles",
    "OrphanKind",
    "Orphans",
    "OtherOrphanFiles",
    "Removal",
    "ResolvedSnapshot",
    "Snapshot",
    "Table",
    "TableReader",
    "TableSchema",
]
