"""One version of one table: data files as columns, schemas, statistics and places of deletion vectors."""

from app.planning.version.contents import NeededManifests, VersionContents
from app.planning.version.descriptions import (
    Branch,
    IndexFileEntry,
    Refusal,
    Schema,
    Snapshot,
    TableDescription,
    Tag,
)
from app.planning.version.files import FileColumns, Files

__all__ = [
    # A branch.
    "Branch",
    # Columns of manifests, of shape (n,), in the order of the manifests.
    "FileColumns",
    # The columns of files with the manifests that describe them.
    "Files",
    # One live entry of the index manifest.
    "IndexFileEntry",
    # Manifests that a filter needs.
    "NeededManifests",
    # Function that returns why Iceberg's clients cannot read a table.
    "Refusal",
    # One schema of a table.
    "Schema",
    # One snapshot.
    "Snapshot",
    # The schema of a version of a table, with its consequences for reads.
    "TableDescription",
    # A tag and its snapshot.
    "Tag",
    # Files of a version.
    "VersionContents",
]
