"""What the versions of a table consist of: manifests, the indexes embedded in them, and index entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeVar

from app.errors import UnsupportedFormatError
from app.storage.kept_arrays import KeptArrays
from app.table.manifests.index_manifest import IndexEntry, IndexManifest
from app.table.manifests.kept_manifest import keep_manifest, open_manifest
from app.table.manifests.kept_values import made_once
from app.table.manifests.manifest import EmbeddedIndexes, Manifest
from app.table.manifests.manifest_list import ManifestFile, ManifestList
from app.table.metadata_files import Content, DiskForm, MetadataFiles, TableReader
from app.table.resolution import ResolvedSnapshot

Made = TypeVar("Made")

_EXPANSION = 2
"""Manifests that are large since they embed indexes take so many times their bytes once they are decoded."""
_ON_DISK = DiskForm("manifest 1", keep_manifest, open_manifest)
_MANIFEST = Content(Manifest.read, disk_form=_ON_DISK)
_WITHOUT_EMBEDDED = Content(Manifest.read_without_embedded, "without embedded indexes", _ON_DISK)
_EMBEDDED = Content(EmbeddedIndexes.read, "embedded indexes")
_MANIFEST_LIST = Content(ManifestList.read)
_INDEX_MANIFEST = Content(IndexManifest.read)


class TableContents:
    """Reads what versions of one table consist of, and caches it.

    Args:
        reader: storage and caches.
        directory: of the table, relative to the warehouse, without a slash at the end.
        what: its name in messages.
    """

    def __init__(self, reader: TableReader, directory: str, what: str) -> None:
        self._reader = reader
        self._storage = reader.storage
        self._files = MetadataFiles(reader, directory)
        self._what = what

    def manifest_files(self, resolved: ResolvedSnapshot) -> tuple[ManifestFile, ...]:
        """The manifests of a version: what it had before its commit, then what that changed.

        Raises:
            SnapshotExpiredError: the snapshot went away.
        """
        return tuple(chain.from_iterable(each.manifests for each in self.manifest_lists(resolved)))

    def manifest_lists(self, resolved: ResolvedSnapshot) -> Sequence[ManifestList]:
        """The lists of the manifests of a version, in the order of :meth:`manifest_files`.

        Raises:
            SnapshotExpiredError: the snapshot went away.
        """
        snapshot = resolved.snapshot
        if snapshot is None:
            return ()
        files = (
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        )
        return self._files.get_all(files, _MANIFEST_LIST, self._reader.metadata)

    def keeps_indexes_apart(self, resolved: ResolvedSnapshot) -> bool:
        """Whether manifests of a version may be too large for the cache with the indexes embedded in them.

        Raises:
            SnapshotExpiredError: the snapshot went away.
        """
        capacity = self._reader.manifests.capacity
        size = sum(size or 0 for _, size in self.manifest_files(resolved))
        if _EXPANSION * size <= self._storage.arrays_capacity:
            # They are mapped, and take next to no memory.
            return False
        # They take more memory than bytes on disk, and what is nearly too large is evicted by others.
        return 2 * size > capacity > 0

    def manifests(
        self,
        resolved: ResolvedSnapshot,
        files: Sequence[ManifestFile] | None = None,
        *,
        whole: bool = True,
        keep: bool = True,
    ) -> tuple[Manifest, ...]:
        """Decoded manifests of a version, in their order.

        Args:
            resolved: the version.
            files: which of :meth:`manifest_files`; None for all.
            whole: with the indexes embedded in them, even where :meth:`keeps_indexes_apart`.
            keep: whether the cache is asked for them, and keeps them.

        Raises:
            SnapshotExpiredError: the snapshot went away.
            UnsupportedFormatError: the table's files count equal rows.
        """
        files = self.manifest_files(resolved) if files is None else files
        is_whole = whole or not self.keeps_indexes_apart(resolved)
        cache = self._reader.manifests if keep else None
        manifests = tuple(self._files.get_all(files, _MANIFEST if is_whole else _WITHOUT_EMBEDDED, cache))
        # Releases that know no write mode take the option as it is, and write files without keys.
        if resolved.schema.counts_rows and any(each.has_keys for each in manifests):
            raise UnsupportedFormatError(
                f"{self._what} has no primary key and was written under write-mode=change-log (value_count): "
                f"its files count equal rows, which only releases 0.4 and 0.5 read: copy it into a new table "
                f"with one of these"
            )
        return manifests

    def manifest(self, file: ManifestFile, *, whole: bool = True) -> Manifest:
        """One manifest, with the indexes embedded in it or without.

        Raises:
            SnapshotExpiredError: the snapshot went away.
        """
        return self._files.get(file, _MANIFEST if whole else _WITHOUT_EMBEDDED, self._reader.manifests)

    def embedded_indexes(self, file: ManifestFile) -> EmbeddedIndexes:
        """The indexes embedded in one manifest.

        Raises:
            SnapshotExpiredError: the snapshot went away.
        """
        return self._files.get_all((file,), _EMBEDDED, self._reader.manifests)[0]

    def keep(self, file: ManifestFile, manifest: Manifest) -> None:
        """Weighs a manifest anew, of which more is known than when it was loaded."""
        content = _MANIFEST if manifest.embedded_digests is None else _WITHOUT_EMBEDDED
        self._reader.manifests.put(self._files.key(file, content.part), manifest)

    def made_of(self, file: ManifestFile, what: str, make: Callable[[], Made]) -> Made:
        """What ``make`` makes of a manifest alone, from the disk if it was made before.

        Args:
            file: the manifest.
            what: tells it from all else that is made of the manifest.
            make: makes it.
        """
        return made_once(self.place_of_manifest(file, what), make)

    def place_of_manifest(self, file: ManifestFile, what: str) -> KeptArrays | None:
        """Where the disk keeps what was made of a manifest alone; None without a disk.

        Args:
            file: the manifest.
            what: tells it from all else that is made of the manifest.
        """
        return self._files.place(file, what)

    def place_of_versions(self, resolved: ResolvedSnapshot, what: str) -> KeptArrays | None:
        """Where the disk keeps what was made of versions of the table, one for all; None without a disk.

        Args:
            resolved: a version; those of another branch have another place.
            what: tells it from all else that is made of versions.
        """
        return self._storage.arrays_of(resolved.directory, None, what, self._files.directory)

    def index_entries(self, resolved: ResolvedSnapshot) -> tuple[IndexEntry, ...]:
        """The hash indexes, deletion vector files and other index files of a version.

        Raises:
            SnapshotExpiredError: the snapshot went away.
        """
        if resolved.snapshot is None or resolved.snapshot.index_manifest is None:
            return ()
        file = (resolved.snapshot.index_manifest, None)
        return self._files.get(file, _INDEX_MANIFEST, self._reader.manifests).entries
