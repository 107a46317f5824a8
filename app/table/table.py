"""One table: which version a caller means, and what that version consists of."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from app.errors import (
    NotFoundError,
    RequestError,
    SnapshotExpiredError,
    UnsupportedFormatError,
)
from app.table.manifests.index_manifest import IndexManifest
from app.table.manifests.kept_manifest import keep_manifest, open_manifest
from app.table.manifests.kept_values import made_once
from app.table.manifests.manifest import EmbeddedIndexes, Manifest
from app.table.manifests.manifest_list import ManifestList
from app.table.metadata_files import KeptForm, MetadataFiles
from app.table.paths import TablePaths
from app.table.references import References
from app.table.resolution import Versions, Wanted, read_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.storage.kept_arrays import KeptArrays
    from app.table.listings import Part
    from app.table.manifests.index_manifest import IndexEntry
    from app.table.manifests.manifest_list import ManifestFile
    from app.table.metadata_files import TableReader
    from app.table.resolution import ResolvedSnapshot
    from app.table.schema.schema import TableSchema
    from app.table.snapshot import Snapshot

Made = TypeVar("Made")

MAIN_BRANCH = "main"

_WITHOUT_EMBEDDED = "without embedded indexes"
_EMBEDDED = "embedded indexes"
_EXPANSION = 2
"""Manifests that are large since they embed indexes take so many times their bytes once they are decoded."""
_KEPT = KeptForm("manifest 1", keep_manifest, open_manifest)


class Table:
    """Reads one table. What a snapshot consists of is cached; which snapshots there are is asked every time.

    Args:
        reader: storage and caches.
        database: its name, without ``.db``.
        name: the table's.
        directory: relative to the warehouse, without a slash at the end.
    """

    def __init__(self, reader: TableReader, database: str, name: str, directory: str) -> None:
        self.database = database
        self.name = name
        self.directory = directory
        self._reader = reader
        self._storage = reader.storage
        self._files = MetadataFiles(reader, directory)

    def resolve(
        self,
        *,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp_millis: int | None = None,
        branch: str | None = None,
        schema_id: int | None = None,
        max_staleness_ms: int = 0,
    ) -> ResolvedSnapshot:
        """The version that a caller means; without arguments the latest.

        Args:
            snapshot_id: a snapshot by its number.
            tag: a snapshot by the name of its tag.
            timestamp_millis: the newest snapshot that was committed then or before.
            branch: of this branch rather than the main one.
            schema_id: filters are about this schema, as they were on an earlier page of the same answer.
            max_staleness_ms: instead of the latest, one that was the latest so many milliseconds ago is good
                enough; that takes no look at storage.

        Raises:
            NotFoundError: there is no such table, branch, snapshot, tag or schema.
            SnapshotExpiredError: the snapshot went away while it was read.
            RequestError: more than one of the first three.
        """
        if sum(way is not None for way in (snapshot_id, tag, timestamp_millis)) > 1:
            raise RequestError("name at most one of snapshot_id, tag and timestamp_millis")
        wanted = Wanted(snapshot_id, tag, timestamp_millis, schema_id)
        return self._versions(branch).find(wanted, max_staleness_ms)

    def forget_newest(self, resolved: ResolvedSnapshot) -> None:
        """Has the next request look for the latest version, since this one has gone away."""
        self._versions(resolved.branch).forget_newest(resolved)

    def snapshots(self, branch: str | None, after: int | None, count: int) -> Part[int, Snapshot]:
        """A part of the snapshots that are there, oldest first.

        Args:
            branch: of this branch rather than the main one.
            after: the number that the part begins behind; None for the first part.
            count: most snapshots of it.

        Raises:
            NotFoundError: there is no such table or branch.
        """
        return self._existing(branch).existing_snapshots(self._reader.readers, after, count)

    def tags(self, branch: str | None, after: str | None, count: int) -> Part[str, Snapshot]:
        """A part of the tags by name.

        Args:
            branch: of this branch rather than the main one.
            after: the name that the part begins behind; None for the first part.
            count: most tags of it.

        Raises:
            NotFoundError: there is no such table or branch.
        """
        return self._existing(branch).tags(self._reader.readers, after, count)

    def branches(self) -> list[str]:
        """Names of the branches, without the main one.

        Raises:
            NotFoundError: there is no such table.
        """
        return self._existing(None).branches()

    def schema_ids(self, branch: str | None = None) -> list[int]:
        """Numbers of the schemas, ascending.

        Raises:
            NotFoundError: there is no such table or branch.
        """
        _, references = self._references(branch)
        return references.schema_ids()

    def schema_of(self, schema_id: int, branch: str | None = None) -> TableSchema:
        """The schema of this number.

        Raises:
            NotFoundError: there is no such table, branch or schema.
        """
        _, references = self._references(branch)
        return read_schema(self._reader, references, schema_id)

    def schema(self, resolved: ResolvedSnapshot, schema_id: int) -> TableSchema:
        """The schema that a file of a snapshot was written with.

        Raises:
            SnapshotExpiredError: the schema is gone.
        """
        if schema_id == resolved.schema.id:
            return resolved.schema
        _, references = self._references(resolved.branch)
        # After a rollback a schema number may come again, but not for the files of a snapshot that is still
        # there.
        key = (self._storage.name, "schema", resolved.directory, schema_id, resolved.identity)
        try:
            schema: TableSchema = self._reader.metadata.get_or_load(
                key, lambda: read_schema(self._reader, references, schema_id)
            )
        except NotFoundError as error:
            raise SnapshotExpiredError(
                f"schema {schema_id} of {self._what} is gone", path=references.schema_path(schema_id)
            ) from error
        return schema

    def paths(self, resolved: ResolvedSnapshot) -> TablePaths:
        """Where the files of a version lie; those of a branch lie with the table's."""
        return TablePaths(self.directory, resolved.schema)

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
        return self._files.get_all(self._reader.metadata, files, ManifestList.read)

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
        if whole or not self.keeps_indexes_apart(resolved):
            parse, part = Manifest.read, ""
        else:
            parse, part = Manifest.read_without_embedded, _WITHOUT_EMBEDDED
        found = self._files.get_all(self._reader.manifests, files, parse, part, _KEPT, keep=keep)
        manifests = tuple(found)
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
        if whole:
            return self._files.get(self._reader.manifests, file, Manifest.read, kept=_KEPT)
        parse = Manifest.read_without_embedded
        return self._files.get(self._reader.manifests, file, parse, _WITHOUT_EMBEDDED, _KEPT)

    def embedded_indexes(self, file: ManifestFile) -> EmbeddedIndexes:
        """The indexes embedded in one manifest.

        Raises:
            SnapshotExpiredError: the snapshot went away.
        """
        found = self._files.get_all(self._reader.manifests, (file,), EmbeddedIndexes.read, _EMBEDDED)
        return found[0]

    def keep(self, file: ManifestFile, manifest: Manifest) -> None:
        """Weighs a manifest anew, of which more is known than when it was loaded."""
        part = "" if manifest.embedded_digests is None else _WITHOUT_EMBEDDED
        self._reader.manifests.put(self._files.key(file, part), manifest)

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
        return self._storage.arrays_of(resolved.directory, None, what)

    def index_entries(self, resolved: ResolvedSnapshot) -> tuple[IndexEntry, ...]:
        """The hash indexes, deletion vector files and other index files of a version.

        Raises:
            SnapshotExpiredError: the snapshot went away.
        """
        if resolved.snapshot is None or resolved.snapshot.index_manifest is None:
            return ()
        file = (resolved.snapshot.index_manifest, None)
        return self._files.get(self._reader.manifests, file, IndexManifest.read).entries

    def lacks(self, resolved: ResolvedSnapshot, path: str) -> bool:
        """Whether a file is missing although the snapshot or tag of a version is still what it was."""
        if resolved.snapshot is None or self._storage.exists(path):
            return False
        _, references = self._references(resolved.branch)
        try:
            found = (
                references.snapshot(resolved.snapshot.id)
                if resolved.tag is None
                else references.tag(resolved.tag)
            )
        except NotFoundError:
            return False
        return found.digest == resolved.snapshot.digest

    @property
    def _what(self) -> str:
        return f"table {self.database}.{self.name}"

    def _existing(self, branch: str | None) -> References:
        """The references of a table that is there.

        Raises:
            NotFoundError: there is no such table or branch.
        """
        _, references = self._references(branch)
        references.schema_ids()
        return references

    def _references(self, branch: str | None) -> tuple[str, References]:
        """The directory of the metadata of the main branch or another, and the versions it names."""
        directory, what = self._place(branch)
        return directory, References(self._storage, directory, what)

    def _versions(self, branch: str | None) -> Versions:
        directory, what = self._place(branch)
        return Versions(self._reader, directory, branch, what)

    def _place(self, branch: str | None) -> tuple[str, str]:
        """The directory of the metadata of the main branch or another, and its name in messages."""
        if branch is None or branch == MAIN_BRANCH:
            return self.directory, self._what
        what = f"branch {branch!r} of {self._what}"
        if not is_name(branch):
            raise NotFoundError(f"there is no {what}")
        return f"{self.directory}/branch/branch-{branch}", what


def is_name(text: str) -> bool:
    """Whether a caller's text can be the name of a database, table or branch: one printable path segment."""
    return text not in ("", ".", "..") and "/" not in text and text.isprintable()
