"""Commits: new snapshots of a table, made as the engine makes them.

:class:`Changes` describe what a commit adds and removes; :class:`Committer` makes the snapshot or reports the
conflict.
"""

from app.table.commits.changes import (
    Changes,
    CommitKind,
    Expectations,
    hash_index_names,
    highest_sequences,
    identity,
    live_entries,
    removed_identities,
)
from app.table.commits.committer import Committer
from app.table.commits.manifest_writing import (
    ListedManifests,
    Outline,
    listed,
    manifest_options,
    manifests_of,
    write_manifest,
)

__all__ = [
    # Files and indexes that a commit adds and removes.
    "Changes",
    # The kind of a commit, as snapshots name it.
    "CommitKind",
    # Commits to the main branch of a table.
    "Committer",
    # States of the table that a commit relies on.
    "Expectations",
    # Records of manifest lists, kept whole to be listed again.
    "ListedManifests",
    # Columns of a manifest that its record in a list summarizes.
    "Outline",
    # Names of the hash indexes of each partition.
    "hash_index_names",
    # The highest sequence number of each bucket that has files.
    "highest_sequences",
    # Identifies a file among all others.
    "identity",
    # The record that lists a manifest.
    "listed",
    # Live files with given names.
    "live_entries",
    # Options by which a table's manifests are written.
    "manifest_options",
    # Splits entries into manifests.
    "manifests_of",
    # Files with given names that a snapshot removes.
    "removed_identities",
    # Writes a manifest.
    "write_manifest",
]
