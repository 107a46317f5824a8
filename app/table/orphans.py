"""Files of a table that no version of it names, and that the engine's ``remove_orphan_files`` removes.

::

    <table>/[<data-file.path-directory>/][<partition>/]bucket-<n>/*   data files, changelog files, their
    indexes <table>/manifest/*, index/*, statistics/* <table>/[branch/branch-<name>/]{snapshot,changelog}/*
    but for versions and hints

What names files, of the table and of its branches, whose files lie with the table's own:

=============================  ==============================================================================
``snapshot/snapshot-<id>``     for as long as the snapshot is there
``tag/tag-<name>``             for as long as the tag is there; a name with slashes makes directories
``changelog/changelog-<id>``   though expiration of its snapshot took away what readers of changes do not need
=============================  ==============================================================================

Names suffice, wherever the files lie: writers make them of random UUIDs. A commit under way has written files
before any snapshot names them. They cannot be told from orphans but by their age. Files in external
directories, which tables may share, are not looked for.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from app.errors import CorruptMetadataError, FileMissingError, SnapshotExpiredError
from app.storage import Maintenance, Readers, StoredFile
from app.table.decoding import SCHEMA_BYTES, SNAPSHOT_BYTES, decode, read_small
from app.table.manifests.index_manifest import IndexManifest
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_list import ManifestList
from app.table.manifests.record_files import read_columns
from app.table.records.expected import ArrayOf, Nullable, RecordOf
from app.table.references import References
from app.table.schema.partition import escape
from app.table.schema.schema import TableSchema
from app.table.snapshot import Snapshot
from app.table.table import Table

Parsed = TypeVar("Parsed")
Named = TypeVar("Named")

# In this order: a version moves from its snapshot to a tag, and with the tag into a branch. Listed the other
# way round, one could be missed that moves meanwhile.
_VERSION_DIRECTORIES: Final = ("snapshot", "changelog", "tag", "branch")
_REFERENCE: Final = re.compile(
    r"(?:branch/branch-.+/)?(?:snapshot/snapshot-\d+|tag/tag-.+|(?P<changelog>changelog/changelog-\d+))",
    re.DOTALL,
)
_VERSION: Final = re.compile(r"(?:snapshot|changelog)-.*|LATEST|EARLIEST", re.DOTALL)
_TEMPORARY: Final = re.compile(r"\..+\.tmp", re.DOTALL)
_BUCKET: Final = re.compile(r"bucket-(?:\d+|postpone)")
_INDEX_FILE: Final = re.compile(r"index-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+")
_ATTEMPTS: Final = 10
_BESIDE: Final = RecordOf({"_FILE_NAME": "string", "_EXTRA_FILES": Nullable(ArrayOf("string"))})
"""Of a manifest list of releases from 2.1 on: files that lie beside a manifest."""


class OrphanKind(StrEnum):
    """What an orphan was made as."""

    INDEX_MANIFEST = "index manifest"
    INDEX_FILE = "index file"
    TEMPORARY_FILE = "temporary file"
    DATA_FILE = "data file"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"
    STATISTICS = "statistics"
    OTHER_FILE = "other file"


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that no version names."""

    kind: OrphanKind
    file: StoredFile


@dataclass(frozen=True, slots=True)
class Orphans:
    """What a search has found.

    Attributes:
        older_than: the age that it asked for.
        found: orphans of that age, by path.
        younger: number of files of less age that no version names yet.
    """

    older_than: dt.timedelta
    found: tuple[Orphan, ...]
    younger: int


class OrphanSearch:
    """Finds the orphans of one table.

    Args:
        table: the table.
        maintenance: of the table's warehouse.
        readers: list and read side by side.
    """

    def __init__(self, table: Table, maintenance: Maintenance, readers: Readers) -> None:
        self._table = table
        self._directory = table.directory
        self._maintenance = maintenance
        self._readers = readers

    def find(self, older_than: dt.timedelta, now: dt.datetime) -> Orphans:
        """Files that no version names.

        Args:
            older_than: time since they were written; commits must not take as long.
            now: the time, with a zone.

        Raises:
            NotFoundError: there is no such table.
            CorruptMetadataError: something that could name files cannot be decoded, or is gone though a
                version needs it.
            UnsupportedFormatError: likewise, of a newer format.
            SnapshotExpiredError: versions went away faster than they could be read.
            StorageError: something cannot be read.
        """
        # Listed first: what a commit writes and names after that is not among the candidates, and what it
        # names before the versions are read is in use.
        candidates = self._candidates()
        names = {each.file.name.encode() for each in candidates}
        named = self._names_in_use(pa.array(names, pa.large_binary()))
        unnamed = [each for each in candidates if each.file.name not in named]
        old = [each for each in unnamed if now - each.file.modified >= older_than]
        return Orphans(
            older_than, tuple(sorted(old, key=lambda each: each.file.path)), len(unnamed) - len(old)
        )

    def _candidates(self) -> list[Orphan]:
        """Every file that a version may name."""
        branches = self._maintenance.contents(f"{self._directory}/branch").directories
        of_versions = {
            f"{directory}/{name}": OrphanKind.OTHER_FILE
            for directory in (self._directory, *branches)
            for name in ("snapshot", "changelog")
        }
        kinds = {f"{self._directory}/{name}": OrphanKind.OTHER_FILE for name in ("manifest", "index")}
        kinds[f"{self._directory}/statistics"] = OrphanKind.STATISTICS
        kinds |= dict.fromkeys(self._buckets(), OrphanKind.DATA_FILE) | of_versions
        contents = self._readers.map(self._maintenance.contents, kinds)
        return [
            Orphan(_kind_of(file, kind), file)
            for (directory, kind), each in zip(kinds.items(), contents, strict=True)
            for file in each.files
            if not (directory in of_versions and _VERSION.fullmatch(file.name))
        ]

    def _buckets(self) -> list[str]:
        """The directories of all buckets, as any schema lays them out."""
        found: list[str] = []
        for data_directory, partition_keys in {
            (schema.options.data_directory, schema.partition_keys) for schema in self._schemas()
        }:
            level = ["/".join(filter(None, (self._directory, data_directory)))]
            for key in partition_keys:
                prefix = f"{escape(key)}="
                level = [path for path in self._below(level) if _last(path).startswith(prefix)]
            found += [path for path in self._below(level) if _BUCKET.fullmatch(_last(path))]
        return found

    def _below(self, directories: Iterable[str]) -> list[str]:
        contents = self._readers.map(self._maintenance.contents, directories)
        return [path for each in contents for path in each.directories]

    def _schemas(self) -> list[TableSchema]:
        warehouse = self._maintenance.warehouse
        references = References(
            warehouse, self._directory, f"table {self._table.database}.{self._table.name}"
        )
        paths = map(references.schema_path, references.schema_ids())
        return self._readers.map(
            lambda path: decode(path, read_small(warehouse, path, SCHEMA_BYTES), TableSchema.read), paths
        )

    def _names_in_use(self, candidates: pa.Array) -> set[str]:
        for _ in range(_ATTEMPTS):
            versions = self._versions()
            try:
                return self._named_by(versions, candidates)
            except FileMissingError as error:
                if self._versions() == versions:
                    raise CorruptMetadataError(
                        "is gone, though a snapshot, tag or branch needs it; what is in use cannot be told",
                        path=error.path,
                    ) from error
        raise self._restless()

    def _named_by(self, versions: Mapping[str, Snapshot], candidates: pa.Array) -> set[str]:
        """Metadata files of some versions, and those of the candidates that manifests name."""
        lists: dict[str, bool] = {}
        index_manifests: dict[str, bool] = {}
        named: set[str] = set()
        for path, version in versions.items():
            # Of changelogs, expiration takes away what readers of changes do not need.
            may_miss = self._is_changelog(path)
            of_version = (
                version.base_manifest_list,
                version.delta_manifest_list,
                version.changelog_manifest_list,
            )
            for found, name in [
                *((lists, name) for name in of_version),
                (index_manifests, version.index_manifest),
            ]:
                if name is not None:
                    found[name] = found.get(name, True) and may_miss
            named.update(filter(None, (version.statistics,)))
        manifests: dict[str, bool] = {}
        for may_miss, listed in zip(lists.values(), self._read_all(lists, _listed_files), strict=True):
            for name, beside in listed:
                manifests[name] = manifests.get(name, True) and may_miss
                named.update(beside)
        named.update(lists, index_manifests, manifests)

        def data_files(content: bytes) -> list[str]:
            manifest = Manifest.read_without_embedded(content)
            names = (manifest.file_names.to_arrow(), manifest.extra_files.to_arrow())
            return [
                name.decode()
                for each in names
                for name in each.filter(pc.is_in(each, value_set=candidates)).to_pylist()
            ]

        for read, names in ((_index_file_names, index_manifests), (data_files, manifests)):
            named.update(*self._read_all(names, read))
        return named

    def _read_all(
        self, names: Mapping[str, bool], parse: Callable[[bytes], list[Named]]
    ) -> list[list[Named]]:
        """What files beside the manifests name; nothing for those that are gone and may be."""

        def read(item: tuple[str, bool]) -> list[Named]:
            name, may_miss = item
            path = f"{self._directory}/manifest/{name}"
            try:
                content = self._maintenance.warehouse.read(path)
            except FileMissingError:
                if may_miss:
                    return []
                raise
            with self._readers.core():
                return decode(path, content, parse)

        return self._readers.map(read, names.items())

    def _versions(self) -> Mapping[str, Snapshot]:
        """Every version by its path; some that went away meanwhile may be among them."""
        read: dict[str, Snapshot] = {}
        for _ in range(_ATTEMPTS):
            new = [path for path in self._version_paths() if path not in read]
            found = dict(zip(new, self._readers.map(self._read_version, new), strict=True))
            read |= {path: snapshot for path, snapshot in found.items() if snapshot is not None}
            # What is gone may live on under a name that was not there yet when its directory was listed.
            if None not in found.values():
                return read
        raise self._restless()

    def _version_paths(self) -> list[str]:
        found = [
            path
            for directory in _VERSION_DIRECTORIES
            for path in self._maintenance.walk(f"{self._directory}/{directory}")
        ]
        versions = [
            path
            for path in found
            if _REFERENCE.fullmatch(path, len(self._directory) + 1) and not _TEMPORARY.fullmatch(_last(path))
        ]
        with_versions = {path.rpartition("/")[0] for path in versions}
        for path in found:
            directory, _, name = path.rpartition("/")
            if name == "LATEST" and directory.endswith("/snapshot") and directory not in with_versions:
                raise CorruptMetadataError(
                    "names a snapshot, but there is none in its directory; what is in use cannot be told",
                    path=path,
                )
        return versions

    def _read_version(self, path: str) -> Snapshot | None:
        """A snapshot, tag or changelog; None if it is not there any more."""
        try:
            content = read_small(self._maintenance.warehouse, path, SNAPSHOT_BYTES)
            return decode(path, content, Snapshot.read)
        except FileMissingError:
            return None

    def _is_changelog(self, path: str) -> bool:
        found = _REFERENCE.fullmatch(path, len(self._directory) + 1)
        return found is not None and found["changelog"] is not None

    def _restless(self) -> SnapshotExpiredError:
        return SnapshotExpiredError(
            f"snapshots below {self._directory} went away faster than they could be read: ask again later"
        )


def _listed_files(content: bytes) -> list[tuple[str, list[str]]]:
    """The manifests of a list, each with the files beside it."""
    manifests = [name for name, _ in ManifestList.read(content).manifests]
    beside = (names or [] for names in read_columns(content, _BESIDE).objects("_EXTRA_FILES"))
    return list(zip(manifests, beside, strict=True))


def _index_file_names(content: bytes) -> list[str]:
    files = [entry.file for entry in IndexManifest.read(content).entries]
    return [file.file_name for file in files] + [
        _last(file.external_path) for file in files if file.external_path
    ]


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _kind_of(file: StoredFile, kind: OrphanKind) -> OrphanKind:
    """What a file was made as, in a directory of mostly one kind."""
    if _TEMPORARY.fullmatch(file.name):
        return OrphanKind.TEMPORARY_FILE
    if _INDEX_FILE.fullmatch(file.name):
        return OrphanKind.INDEX_FILE
    if "/manifest/" in file.path:
        for start, found in (
            ("index-manifest-", OrphanKind.INDEX_MANIFEST),
            ("manifest-list-", OrphanKind.MANIFEST_LIST),
            ("manifest-", OrphanKind.MANIFEST),
        ):
            if file.name.startswith(start):
                return found
    return OrphanKind.OTHER_FILE if file.name.startswith(".") else kind
