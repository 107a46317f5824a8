"""The index manifests and index files that versions of a table name, its branches' included.

========================================================  ===========================================
``[branch/branch-<name>/]`` and then                      names an index manifest, unless the version
                                                          has no hash indexes and deletion vectors
========================================================  ===========================================
``snapshot/snapshot-<id>``                                for as long as the snapshot is there
``tag/tag-<name>``                                        for as long as the tag is there; a name with
                                                          slashes makes directories
``changelog/changelog-<id>``                              though expiration of its snapshot took the
                                                          index manifest away: readers of changes need
                                                          none
========================================================  ===========================================

The index manifests and index files of all branches lie with the table's own, so what a branch names
counts like everything else: expiration in the engine does not ask branches.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from app.errors import CorruptMetadataError, FileMissingError, SnapshotExpiredError
from app.storage import Maintenance, Readers
from app.table.decoding import SNAPSHOT_BYTES, decode, read_small
from app.table.manifests.index_manifest import IndexManifest
from app.table.snapshot import Snapshot

# In this order: a version moves from its snapshot to a tag, and with the tag into a branch. Listed the other
# way round, one could be missed that moves meanwhile.
_DIRECTORIES: Final = ("snapshot", "changelog", "tag", "branch")
_REFERENCE: Final = re.compile(
    r"(?:branch/branch-.+/)?(?:snapshot/snapshot-\d+|tag/tag-.+|(?P<changelog>changelog/changelog-\d+))",
    re.DOTALL,
)
_TEMPORARY: Final = re.compile(r"\..+\.tmp", re.DOTALL)
_ATTEMPTS: Final = 10


class NamedFiles:
    """Reads the names of what is in use.

    An index manifest is read once, and what it lists counts as in use for as long as the object is kept.

    Args:
        maintenance: lists and reads the warehouse.
        readers: read side by side.
        directory: the table's, without a slash at the end.
    """

    def __init__(self, maintenance: Maintenance, readers: Readers, directory: str) -> None:
        self._maintenance = maintenance
        self._readers = readers
        self._directory = directory
        self._manifests: set[str] = set()
        # One set, since the index manifests of a table list nearly the same files.
        self._index_files: set[str] = set()
        self._lock = threading.Lock()

    def read(self) -> set[str]:
        """Names of all index manifests and index files that a version names now.

        Names suffice, wherever the files lie: writers make them of random UUIDs.

        Raises:
            CorruptMetadataError: a version or an index manifest cannot be decoded, or an index manifest is
                gone though its version is there.
            UnsupportedFormatError: likewise, of a newer format.
            SnapshotExpiredError: versions went away faster than they could be read.
            StorageError: something cannot be read.
        """
        referring: dict[str, list[str]] = {}
        for path, snapshot in self.versions().items():
            if snapshot.index_manifest is not None:
                referring.setdefault(snapshot.index_manifest, []).append(path)
        unread = [(name, paths) for name, paths in referring.items() if name not in self._manifests]
        self._readers.map(lambda one: self._read_manifest(*one), unread)
        return self._index_files.union(referring)

    def versions(self) -> Mapping[str, Snapshot]:
        """Every version by its path; some that went away meanwhile may be among them.

        Raises:
            PaimonIndexError: as :meth:`read`.
        """
        read: dict[str, Snapshot] = {}
        for _ in range(_ATTEMPTS):
            paths = self._list()
            new = [path for path in paths if path not in read]
            found = dict(zip(new, self._readers.map(self._read_version, new), strict=True))
            read |= {path: snapshot for path, snapshot in found.items() if snapshot is not None}
            # What is gone may live on under a name that was not there yet when its directory was listed.
            if None not in found.values():
                return read
        raise SnapshotExpiredError(
            f"snapshots below {self._directory} went away faster than they could be read: ask again later"
        )

    def _list(self) -> list[str]:
        """Paths of all versions.

        Raises:
            CorruptMetadataError: a hint names a snapshot in a directory that has none.
        """
        start = len(self._directory) + 1
        found = [
            path
            for directory in _DIRECTORIES
            for path in self._maintenance.walk(f"{self._directory}/{directory}")
        ]
        versions = [
            path
            for path in found
            if _REFERENCE.fullmatch(path, start) and not _TEMPORARY.fullmatch(path.rpartition("/")[2])
        ]
        self._check_hints(found, versions)
        return versions

    def _check_hints(self, found: Iterable[str], versions: Iterable[str]) -> None:
        with_versions = {path.rpartition("/")[0] for path in versions}
        for path in found:
            directory, _, name = path.rpartition("/")
            if name == "LATEST" and directory.endswith("/snapshot") and directory not in with_versions:
                raise CorruptMetadataError(
                    "names a snapshot, but there is none in its directory; what was in use cannot be told",
                    path=path,
                )

    def _read_version(self, path: str) -> Snapshot | None:
        """A snapshot, tag or changelog; None if it is not there any more."""
        try:
            content = read_small(self._maintenance.warehouse, path, SNAPSHOT_BYTES)
            return decode(path, content, Snapshot.read)
        except FileMissingError:
            return None

    def _read_manifest(self, name: str, referring: Sequence[str]) -> None:
        """Adds the index files that an index manifest lists, unless it is gone and nobody needs it any more.

        Args:
            name: the index manifest's.
            referring: paths of the versions that name it.
        """
        path = f"{self._directory}/manifest/{name}"
        try:
            content = self._maintenance.warehouse.read(path)
        except FileMissingError as error:
            for version in referring:
                if self._still_needs(version, name):
                    raise CorruptMetadataError(
                        f"names {path}, which is not there: ask again if it may be expiring right now; if "
                        f"not, it is damaged, and has to be deleted before orphans can be told",
                        path=version,
                    ) from error
            return
        with self._readers.core():
            files = [entry.file for entry in decode(path, content, IndexManifest.read).entries]
        with self._lock:
            self._index_files.update(file.file_name for file in files)
            self._index_files.update(
                file.external_path.rpartition("/")[2] for file in files if file.external_path
            )
            self._manifests.add(name)

    def _still_needs(self, version: str, manifest: str) -> bool:
        found = _REFERENCE.fullmatch(version, len(self._directory) + 1)
        if found is None or found["changelog"]:
            return False
        snapshot = self._read_version(version)
        return snapshot is not None and snapshot.index_manifest == manifest
