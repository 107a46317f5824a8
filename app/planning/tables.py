"""Tables of warehouses: their names, descriptions and versions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from app.errors import (
    CorruptMetadataError,
    NotFoundError,
    PathNotAllowedError,
    SnapshotExpiredError,
    StorageError,
    UnknownPlaceError,
)
from app.observation import Phase, during
from app.planning.request.requests import SnapshotSelector, TableRef
from app.planning.version.descriptions import (
    Branch,
    DescribedSchemas,
    IndexFileEntry,
    Refusal,
    Schema,
    Snapshot,
    TableDescription,
    Tag,
    describe_index_files,
)
from app.planning.version.version import IndexCaches, IndexSource, Version, missing_file_means_expired
from app.storage import ByteCache, Tiers, Warehouse, check_listable
from app.table import MOST_READS, Catalog, Table, TableReader


@dataclass(frozen=True, slots=True)
class Tables:
    """Finds and describes tables. Methods raise UnknownPlaceError for an unknown warehouse."""

    warehouses: Mapping[str, Warehouse]
    staleness_ms: int  # Default of the maximum age of a remembered latest version.
    _metadata: ByteCache[Any]
    _manifests: ByteCache[Any]
    _indexes: IndexCaches
    _tiers: Tiers

    def path_of(self, warehouse: str, location: str) -> str:
        """Return the path within a warehouse of the directory that a URL names.

        Raises RequestError if ``location`` is no such URL. Raises NotFoundError if it is outside.
        """
        return self.warehouse(warehouse).path_of(location)

    def databases(self, warehouse: str) -> list[str]:
        """List the names of the databases of a warehouse."""
        names = self._catalog(warehouse).databases()
        if not names:
            check_listable(self.warehouse(warehouse))
        return names

    def names(self, warehouse: str, database: str) -> list[str]:
        """Name the tables of a database."""
        with self._naming_the_missing_part(TableRef(warehouse, database, "")):
            return self._catalog(warehouse).tables(database)

    def describe(self, ref: TableRef, selector: SnapshotSelector, refusal: Refusal) -> TableDescription:
        """Describe a version of a table. See :meth:`TableDescription.of`."""
        version, newest = self.resolve(ref, selector), SnapshotSelector(branch=selector.branch)
        latest = version if selector == newest else self.resolve(ref, newest)
        return TableDescription.of(version, latest.resolved.snapshot, refusal)

    def schema(self, ref: TableRef, schema_id: int, branch: str | None = None) -> Schema:
        """Return one schema of a table, with the full types of its columns."""
        with self._naming_the_missing_part(ref, branch):
            return Schema.of(self._table(ref).schema_of(schema_id, branch))

    def schemas(self, version: Version) -> Sequence[Schema]:
        """List the schemas of a table up to that of a version, reading each when it is accessed."""
        return DescribedSchemas.of(version, version.source.warehouse.readers)

    def snapshots(
        self, ref: TableRef, branch: str | None = None, after: int | None = None, count: int = MOST_READS
    ) -> tuple[list[Snapshot], int | None]:
        """List snapshots, oldest first. Return a page, and the cursor of the next one.

        ``after``: cursor, the last number of the previous page. ``count``: page size, at most
        :data:`MOST_READS`.
        """
        with self._naming_the_missing_part(ref, branch):
            part = self._table(ref).snapshots(branch, after, count)
        return [Snapshot.of(snapshot) for snapshot in part.entries.values()], part.last

    def tags(
        self, ref: TableRef, branch: str | None = None, after: str | None = None, count: int = MOST_READS
    ) -> tuple[list[Tag], str | None]:
        """List tags by name, each with its snapshot. Return a page, and the cursor of the next one.

        ``after``: cursor, the last name of the previous page. ``count``: page size, at most
        :data:`MOST_READS`.
        """
        with self._naming_the_missing_part(ref, branch):
            part = self._table(ref).tags(branch, after, count)
        return [Tag(name, Snapshot.of(snapshot)) for name, snapshot in part.entries.items()], part.last

    def branches(self, ref: TableRef) -> list[Branch]:
        """List the branches of a table except the main one."""
        with self._naming_the_missing_part(ref):
            return list(map(Branch, self._table(ref).branches()))

    def resolve(self, ref: TableRef, selector: SnapshotSelector) -> Version:
        """Resolve a selector to a version, reading a few small files and no manifest.

        Raises NotFoundError if there is no such warehouse, table, snapshot, tag or branch.
        """
        started = time.perf_counter()
        table, staleness = self._table(ref), selector.max_staleness_ms
        with during(Phase.RESOLVE), self._naming_the_missing_part(ref, selector.branch):
            resolved = table.resolve(
                snapshot_id=selector.snapshot_id,
                tag=selector.tag,
                timestamp_millis=selector.timestamp_millis,
                branch=selector.branch,
                schemas=selector.schemas,
                max_staleness_ms=self.staleness_ms if staleness is None else staleness,
            )
        data = table.data_paths(resolved)
        source = IndexSource(self.warehouse(ref.warehouse), data.paths, data, self._indexes)
        resolving_ms = (time.perf_counter() - started) * 1000
        return Version(table, resolved, source, resolving_ms)

    def index_files(self, version: Version, index_type: str | None) -> list[IndexFileEntry]:
        """List the index files of a version, of one type or of all."""
        with missing_file_means_expired(version):
            return describe_index_files(version, index_type)

    def warehouse(self, name: str) -> Warehouse:
        """Return a warehouse by its name."""
        warehouse = self.warehouses.get(name)
        if warehouse is None:
            raise UnknownPlaceError(name, sorted(self.warehouses))
        return warehouse

    @contextmanager
    def _naming_the_missing_part(self, ref: TableRef, branch: str | None = None) -> Iterator[None]:
        """Turn a NotFoundError into one that names the missing part of ``ref``, with suggestions."""
        try:
            yield
        except NotFoundError as error:
            # Everything is missing from a warehouse that cannot be listed: that error takes precedence.
            check_listable(self.warehouse(ref.warehouse))
            if not isinstance(error, SnapshotExpiredError) and ref.directory is None:
                with suppress(StorageError, CorruptMetadataError, PathNotAllowedError):
                    self._catalog(ref.warehouse).check_there(ref.database, ref.table or None, branch)
            raise

    def _catalog(self, warehouse: str) -> Catalog:
        storage = self.warehouse(warehouse)
        return Catalog(TableReader(storage, self._metadata, self._manifests, storage.readers, self._tiers))

    def _table(self, ref: TableRef) -> Table:
        return self._catalog(ref.warehouse).table(ref.database, ref.table, ref.directory)
