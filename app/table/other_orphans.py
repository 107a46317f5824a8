"""Data files, manifests and all else that no version of a table names, which the engine removes.

::

    <table>/[<partition>/]bucket-<n>/*        data files, changelog files, their index files
    <table>/manifest/*, index/*, statistics/*
    <table>/snapshot/*, changelog/*           but for versions and hints; of branches, too

A job that is killed leaves them. They are told by the engine's rule, names that no version names and an age,
and are never removed here: the engine's ``remove_orphan_files`` does that. What
:mod:`app.table.orphans` removes is not among them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from app.errors import CorruptMetadataError, FileMissingError, SnapshotExpiredError
from app.storage import Maintenance, Readers, StoredFile
from app.table.decoding import decode
from app.table.directories import Directories
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_list import ManifestList
from app.table.named_files import NamedFiles
from app.table.orphans import Orphan, OrphanKind, Orphans, index_kind
from app.table.snapshot import Snapshot
from app.table.table import Table

Parsed = TypeVar("Parsed")

_VERSION: Final = re.compile(r"(?:snapshot|changelog)-.*|LATEST|EARLIEST", re.DOTALL)
_TEMPORARY: Final = re.compile(r"\..+\.tmp", re.DOTALL)
_ATTEMPTS: Final = 10


class OtherOrphanFiles:
    """Finds the files of one table that nothing refers to, other than index files and index manifests.

    Args:
        table: the table.
        maintenance: of the table's warehouse.
        readers: list and read side by side.
    """

    def __init__(self, table: Table, maintenance: Maintenance, readers: Readers) -> None:
        self._table = table
        self._maintenance = maintenance
        self._readers = readers
        self._named = NamedFiles(maintenance, readers, table.directory)

    def find(self, older_than: dt.timedelta, now: dt.datetime) -> Orphans:
        """Files that no version names.

        Args:
            older_than: time since they were written; commits must not take as long.
            now: the time, with a zone.

        Raises:
            NotFoundError: there is no such table.
            PaimonIndexError: something cannot be read that could name files.
        """
        # Listed first, as in app.table.orphans.
        candidates = self._candidates()
        names = {each.file.name.encode() for each in candidates}
        named = self._names_in_use(pa.array(names, pa.large_binary()))
        return Orphans.among(candidates, named, older_than, now)

    def _candidates(self) -> list[Orphan]:
        directories = Directories(self._table, self._maintenance, self._readers)
        of_index_files, statistics = directories.of_index_files(), f"{self._table.directory}/statistics"
        buckets, versions = directories.of_data_files(), directories.of_versions()
        kinds = dict.fromkeys(of_index_files, OrphanKind.OTHER_FILE)
        kinds |= dict.fromkeys(buckets, OrphanKind.DATA_FILE) | {statistics: OrphanKind.STATISTICS}
        kinds |= dict.fromkeys(versions, OrphanKind.OTHER_FILE)
        contents = self._readers.map(self._maintenance.contents, kinds)
        return [
            Orphan(_kind_of(file, kind), file)
            for (directory, kind), each in zip(kinds.items(), contents, strict=True)
            for file in each.files
            if not (directory in of_index_files and index_kind(file.name))
            and not (directory in versions and _VERSION.fullmatch(file.name))
        ]

    def _names_in_use(self, candidates: pa.Array) -> set[str]:
        for _ in range(_ATTEMPTS):
            versions = self._named.versions()
            try:
                return self._named.read() | self._named_by(versions, candidates)
            except FileMissingError as error:
                if self._named.versions().keys() == versions.keys():
                    raise CorruptMetadataError(
                        "is gone, though a snapshot, tag or branch needs it; what was in use cannot be told",
                        path=error.path,
                    ) from error
        raise SnapshotExpiredError(
            f"snapshots below {self._table.directory} went away faster than they could be read: ask later"
        )

    def _named_by(self, versions: Mapping[str, Snapshot], candidates: pa.Array) -> set[str]:
        """Manifest lists, manifests, statistics, and those of the candidates that manifests name."""
        named: set[str] = set()
        # Of changelogs, expiration takes away what readers of changes do not need.
        may_miss: dict[str, bool] = {}
        for path, version in versions.items():
            is_changelog = path.rpartition("/")[2].startswith("changelog-")
            lists = version.base_manifest_list, version.delta_manifest_list, version.changelog_manifest_list
            for name in filter(None, lists):
                may_miss[name] = may_miss.get(name, True) and is_changelog
            named.update(filter(None, (version.statistics,)))
        named.update(may_miss)
        read = self._readers.map(lambda item: self._read(*item, ManifestList.read), may_miss.items())
        of_manifests: dict[str, bool] = {}
        for optional, manifests in zip(may_miss.values(), read, strict=True):
            for name, _ in manifests.manifests if manifests else ():
                of_manifests[name] = of_manifests.get(name, True) and optional
        named.update(of_manifests)

        def names_of(item: tuple[str, bool]) -> list[bytes]:
            manifest = self._read(*item, Manifest.read_without_embedded)
            if manifest is None:
                return []
            with self._readers.core():
                names = (manifest.file_names.to_arrow(), manifest.extra_files.to_arrow())
                found: list[bytes] = [
                    name
                    for each in names
                    for name in each.filter(pc.is_in(each, value_set=candidates)).to_pylist()
                ]
            return found

        for found in self._readers.map(names_of, of_manifests.items()):
            named.update(map(bytes.decode, found))
        return named

    def _read(self, name: str, may_miss: bool, parse: Callable[[bytes], Parsed]) -> Parsed | None:  # noqa: FBT001
        """A file beside the manifests; None if it is not there and need not be."""
        path = f"{self._table.directory}/manifest/{name}"
        try:
            content = self._maintenance.warehouse.read(path)
        except FileMissingError:
            if may_miss:
                return None
            raise
        with self._readers.core():
            return decode(path, content, parse)


def _kind_of(file: StoredFile, kind: OrphanKind) -> OrphanKind:
    """What a file was made as, in a directory of mostly one kind."""
    if _TEMPORARY.fullmatch(file.name):
        return OrphanKind.TEMPORARY_FILE
    if "/manifest/" in file.path and file.name.startswith("manifest-"):
        return OrphanKind.MANIFEST_LIST if file.name.startswith("manifest-list-") else OrphanKind.MANIFEST
    return OrphanKind.OTHER_FILE if file.name.startswith(".") else kind
