"""From entries to the files that a snapshot has.

An ADD counts unless some DELETE has its identity, whatever the order of manifests: a file never comes back
under an identity that was deleted. The level belongs to the identity, since a file that moves up a level is
deleted and added under its old name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.table.manifest import FileKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.table.manifest import Manifest, ManifestEntry


def live_files(manifests: Sequence[Manifest]) -> tuple[ManifestEntry, ...]:
    """The entries of files that are there, in the order of the manifests."""
    deleted = {
        entry.identity
        for manifest in manifests
        for entry in manifest.entries
        if entry.kind is FileKind.DELETE
    }
    return tuple(
        entry
        for manifest in manifests
        for entry in manifest.entries
        if entry.kind is FileKind.ADD and not (deleted and entry.identity in deleted)
    )
