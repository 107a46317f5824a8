"""A resolved snapshot of a table with its schema; its files are read when somebody asks for them.

A filter on partitions may need some of the version's manifests only. :meth:`Version.with_manifests` is the
version as far as these tell: its files are those of these manifests, and count from 0 among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from app.observation import Phase, during
from app.options.refused import check_options
from app.planning.version.contents import ContentsCache, VersionContents
from app.planning.version.files import Files
from app.planning.version.index_source import IndexSource
from app.planning.version.needed_manifests import NeededManifests
from app.planning.version.partitions import Partitions
from app.planning.version.passing_manifests import PassingManifests, hold_or_pass
from app.predicates.binding.names import Relation
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_list import ManifestFile
from app.table.resolution import ResolvedSnapshot
from app.table.schema.schema import TableSchema
from app.table.table import Table


@dataclass(slots=True)
class Version:
    """One version of one table during one request.

    Attributes:
        table: the table.
        resolved: which version.
        source: loads its index files.
        contents_cache: remembers which files it has.
        resolving_ms: how long it took to find out which version is meant.
        needed: which of its manifests are looked at; None for all of them.
        partitions: values of its partitions.
    """

    table: Table
    resolved: ResolvedSnapshot
    source: IndexSource
    contents_cache: ContentsCache
    resolving_ms: float = 0.0
    needed: NeededManifests | None = None
    partitions: Partitions = field(init=False)
    _schemas: dict[int, TableSchema] = field(init=False, default_factory=dict)
    _manifest_files: tuple[ManifestFile, ...] | None = field(init=False, default=None)
    _manifests: Sequence[Manifest] | None = field(init=False, default=None)
    _contents: VersionContents | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.partitions = Partitions(self.schema)

    def part(self, file: ManifestFile, manifest: Manifest, contents: VersionContents) -> Version:
        """The version as if it had one manifest alone, which is decoded already.

        Args:
            file: as the version's lists name the manifest.
            manifest: what is in it, with the indexes embedded in it.
            contents: which of its files the version has.
        """
        part = Version(self.table, self.resolved, self.source, self.contents_cache)
        part._manifest_files, part._manifests, part._contents = (file,), (manifest,), contents
        return part

    def with_manifests(self, needed: NeededManifests) -> Version:
        """The version as far as some of its manifests tell."""
        return replace(self, needed=needed)

    def load(self) -> None:
        """Reads the version's manifests, and finds out which files it has; what is known is not read again.

        Raises:
            SnapshotExpiredError: the version went away.
            CorruptMetadataError: one of its manifests is damaged.
        """
        self.contents()

    def manifests(self) -> Sequence[Manifest]:
        """The manifests that are looked at, read at the first call; they stay for the request.

        Those of a table that is too large for the cache lack the indexes embedded in them, and if that is
        still too much, some are held at a time.

        Raises:
            SnapshotExpiredError: the version went away.
            CorruptMetadataError: one of its manifests is damaged.
        """
        if self._manifests is None:
            self._manifests = hold_or_pass(
                self.manifest_files(),
                partial(self.table.contents.manifests, self.resolved, whole=False),
                partial(self.table.contents.manifests, self.resolved, whole=False, keep=False),
                self.contents_cache.cache.capacity,
                self.contents_cache.decoded_bytes(self.resolved, self.needed),
            )
        return self._manifests

    def manifest_files(self) -> tuple[ManifestFile, ...]:
        """The manifests that are looked at, as their lists name them, read at the first call.

        Raises:
            SnapshotExpiredError: the version went away.
        """
        if self._manifest_files is None:
            files = self.table.contents.manifest_files(self.resolved)
            self._manifest_files = files if self.needed is None else self.needed.of(files)
        return self._manifest_files

    def keep_derived(self) -> None:
        """Has the cache weigh manifests anew of which more is known than before."""
        if isinstance(self._manifests, PassingManifests):
            return
        for at, manifest in enumerate(self._manifests or ()):
            if manifest.derived.has_grown():
                self.table.contents.keep(self.manifest_files()[at], manifest)

    def contents(self) -> VersionContents:
        """Which files the version has, read at the first call.

        Raises:
            SnapshotExpiredError: the version went away.
            CorruptMetadataError: one of its manifests is damaged.
            UnsupportedFormatError: batch reads of the table see other rows.
        """
        if self._contents is None:
            check_options(self.schema.options.values, self.table.name)
            with during(Phase.LOAD):
                manifests = self.manifests()
                self._contents = self.contents_cache.read(self.table, self.resolved, manifests, self.needed)
        return self._contents

    def files(self) -> Files:
        """The data files that a batch read of the version sees."""
        return Files(self.contents().columns, self.manifests())

    def hidden_files(self) -> Files | None:
        """The data files of the version that no batch read sees; None where there are none."""
        hidden = self.contents().hidden
        return None if hidden is None else Files(hidden, self.manifests())

    @property
    def identity(self) -> str:
        """Changes with anything that could change an answer."""
        return self.resolved.identity

    @property
    def schema_id(self) -> int:
        """Number of the schema that filters refer to."""
        return self.schema.id

    @property
    def schema(self) -> TableSchema:
        """The schema that filters refer to."""
        return self.resolved.schema

    @property
    def snapshot_id(self) -> int | None:
        """None for a table that was never written to."""
        return None if self.resolved.snapshot is None else self.resolved.snapshot.id

    def relation(self, alias: str | None) -> Relation:
        """What a query calls the table, whose alias hides its name."""
        if alias is not None:
            return Relation(alias)
        return Relation(self.table.name, self.table.database, self.resolved.branch)

    def file_schema(self, schema_id: int) -> TableSchema:
        """The schema that data files with this schema number were written with."""
        found = self._schemas.get(schema_id)
        if found is None:
            found = self._schemas[schema_id] = self.table.schema(self.resolved, schema_id)
        return found

    def vector_numbers(self, files: NDArray[np.int64]) -> NDArray[np.int32]:
        """Which deletion vector each file has, -1 for none or where the table's options do not honour it."""
        if not self.schema.options.deletion_vectors:
            return np.full(len(files), -1, np.int32)
        return self.contents().vectors.numbers[files]
