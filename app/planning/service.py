"""The service behind the HTTP layer and the command line: owns warehouses and caches, and answers requests.

Any thread may call any method. Methods block while they read; :func:`app.work.time_limit` bounds them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from typing import Any, TypeVar

from app.errors import (
    CorruptMetadataError,
    LimitExceededError,
    NotFoundError,
    PathNotAllowedError,
    SnapshotExpiredError,
    StorageError,
    UnknownPlaceError,
)
from app.observation import Phase, during
from app.planning.buckets.answers import AssignmentAnswer, BucketList, BucketLookup
from app.planning.buckets.lookup import answer_assignment, answer_buckets, answer_lookup
from app.planning.changes import PlanChanges, answer_changes
from app.planning.deletions import DeletionsAnswer, answer_deletions
from app.planning.evaluated_files import EvaluateAnswer, evaluate_files
from app.planning.plan.answers import Plan, report_plan
from app.planning.plans import Plans
from app.planning.pruned import PrunedSnapshot, prune
from app.planning.request.limits import CacheBytes, Limits
from app.planning.request.requests import (
    AssignRequest,
    BucketsRequest,
    DeletionsRequest,
    EvaluateRequest,
    IndexFileRef,
    LookupRequest,
    PlanRequest,
    SelectionForm,
    SnapshotSelector,
    TableRef,
)
from app.planning.side_files.file_indexes import open_declared, read_indexes
from app.planning.standalone import inspect_file
from app.planning.usage import Usage
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
from app.storage import ByteCache, CacheRoom, SharedTier, Tiers, Warehouse, check_listable
from app.storage.disk import DiskTier
from app.table import MOST_READS, Catalog, Table, TableReader
from app.table.manifests import Manifest
from app.types import Json
from app.work import give_memory_back

_Answer = TypeVar("_Answer")
_Question = TypeVar("_Question", DeletionsRequest, LookupRequest, AssignRequest, BucketsRequest)


class IndexService:
    """Answers questions about tables. Closing the service closes its warehouses' readers."""

    def __init__(
        self,
        warehouses: Mapping[str, Warehouse],
        *,
        cache_bytes: CacheBytes,
        limits: Limits,
        disk: DiskTier | None = None,
        shared: SharedTier | None = None,
        with_shapes: bool = True,
    ) -> None:
        self.warehouses = dict(warehouses)
        self._limits = limits
        self.usage = Usage(with_shapes=with_shapes)
        self._tiers = Tiers(disk, shared)
        capacities = cache_bytes.by_name
        room = CacheRoom(capacities) if cache_bytes.is_shared else None

        def cache(name: str) -> ByteCache[Any]:
            return ByteCache(name, capacities[name], _nbytes, room, _without_derived)

        self._metadata, self._manifests = cache("metadata"), cache("manifests")
        self._indexes = IndexCaches(cache("file_indexes"), cache("deletion_vectors"), cache("hash_indexes"))
        self._plans = Plans(cache("plans"), limits)

    @property
    def is_opening(self) -> bool:
        """True while the shared cache has not answered its first call, for a second at most."""
        return self._tiers.store is not None and self._tiers.store.is_opening

    def path_of(self, warehouse: str, location: str) -> str:
        """Return the path within a warehouse of the directory that a URL names.

        Raises UnknownPlaceError, RequestError if it is no such URL, NotFoundError if it is outside.
        """
        return self._warehouse(warehouse).path_of(location)

    def databases(self, warehouse: str) -> list[str]:
        """Name the databases of a warehouse."""
        names = self._catalog(warehouse).databases()
        if not names:
            check_listable(self._warehouse(warehouse))
        return names

    def tables(self, warehouse: str, database: str) -> list[str]:
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
                max_staleness_ms=self._limits.staleness_ms if staleness is None else staleness,
            )
        data = table.data_paths(resolved)
        source = IndexSource(self._warehouse(ref.warehouse), data.paths, data, self._indexes)
        resolving_ms = (time.perf_counter() - started) * 1000
        return Version(table, resolved, source, resolving_ms)

    def index_files(self, version: Version, index_type: str | None) -> list[IndexFileEntry]:
        """List the index files of a version, of one type or of all."""
        with missing_file_means_expired(version):
            return describe_index_files(version, index_type)

    def plan(
        self,
        of: TableRef | Version,
        request: PlanRequest,
        budget_ms: int | None = None,
        *,
        is_counted: bool = True,
    ) -> Plan:
        """Decide which files a query reads, and which of their rows.

        Index files for which the budget was too short are loaded in the background, for the next plan.

        ``of``: a table, or a resolved version, which overrides the request's selector.
        ``budget_ms``: default for requests that name no budget. None waits for every index file.
        ``is_counted``: adds the plan to :attr:`usage`. False for further pages of a plan.
        """
        self._check_named(request.files)
        version = self._version(of, request.selector)
        with missing_file_means_expired(version):
            plan = self._plans.of(version, request, budget_ms)
        if is_counted:
            self.usage.add(version, plan)
        report_plan(plan, is_counted=is_counted)
        return plan

    def pruned_snapshot(
        self, ref: TableRef, request: PlanRequest, budget_ms: int | None = None, most_share: float = 1.0
    ) -> PrunedSnapshot:
        """Return a snapshot that names only the files that a query reads. Write nothing."""
        version = self.resolve(ref, request.selector)
        # Readers of tables with data evolution take row ids along with the files.
        form = SelectionForm.RANGES if version.schema.options.data_evolution else SelectionForm.NONE
        # `most_share` is a share of all files, so those of manifests that the filter rules out must be
        # counted.
        request = request.model_copy(update={"totals": True, "selection": form})
        plan = self.plan(version, request, budget_ms)
        with missing_file_means_expired(version), during(Phase.EVALUATE):
            return prune(version, plan, most_share)

    def changes(self, before: Version, after: Version, request: PlanRequest) -> PlanChanges:
        """Compare two versions of a table: files added and removed, after a filter."""
        before = before.in_columns_of(after.schema)
        with missing_file_means_expired(after), missing_file_means_expired(before), during(Phase.EVALUATE):
            return answer_changes(before, after, request, self._limits)

    def deletions(self, of: TableRef | Version, request: DeletionsRequest) -> DeletionsAnswer:
        """List deleted rows by file. ``of`` is a table or a resolved version."""
        self._check_named(request.files)
        return self._evaluate(of, request, answer_deletions)

    def lookup(self, of: TableRef | Version, request: LookupRequest) -> BucketLookup:
        """Find the buckets of keys. ``of`` is a table or a resolved version."""
        return self._evaluate(of, request, answer_lookup)

    def buckets(self, of: TableRef | Version, request: BucketsRequest) -> BucketList:
        """List the buckets of one partition, or of all. ``of`` is a table or a resolved version."""
        return self._evaluate(of, request, answer_buckets)

    def assign(self, of: TableRef | Version, request: AssignRequest) -> AssignmentAnswer:
        """Predict the buckets that a writer would assign. ``of`` as in :meth:`lookup`. Write nothing."""
        return self._evaluate(of, request, answer_assignment)

    def warm(self, version: Version, *, at_once: bool = False) -> None:
        """Load into the caches what plans of a version need.

        ``at_once``: reads in parallel. Otherwise reads one file at a time, so that a request waits for one at
        most.
        """
        with missing_file_means_expired(version):
            _warm(version, at_once=at_once)

    def share(self, version: Version, columns: Iterable[str]) -> None:
        """Write what plans of a version need to the shared cache, with the index files of ``columns``.

        Return when everything is written there, or could not be. Do nothing without a shared cache.
        """
        store = self._tiers.store
        if store is None:
            return
        with missing_file_means_expired(version):
            version.load()
            store.flush()
            for _ in read_indexes(version, columns):
                # The store's queue is bounded, and drops what does not fit.
                store.flush()
        store.flush()

    def evaluate(
        self, warehouse: str, request: EvaluateRequest, *, any_place: bool = False
    ) -> EvaluateAnswer:
        """Evaluate a filter on index files alone, without a table.

        ``any_place``: allows paths of any file, for operators, not for callers of the service.
        """
        self._check_named(request.files)
        storage = self._warehouse(warehouse)
        with during(Phase.EVALUATE):
            return evaluate_files(storage, request, self._limits, any_place=any_place)

    def inspect(
        self,
        warehouse: str,
        file: IndexFileRef,
        kind: str | None,
        types: Mapping[str, str],
        entries: slice = slice(None),
        *,
        any_place: bool = False,
    ) -> Json:
        """Show the content of an index file. See :func:`app.planning.standalone.inspect_file`."""
        storage = self._warehouse(warehouse)
        return inspect_file(storage, file, kind, types, entries, any_place=any_place)

    def cache_statistics(self) -> Mapping[str, Mapping[str, int]]:
        """Return the counters of each cache by name. ``disk`` and ``shared`` where they exist."""
        statistics = {cache.name: asdict(cache.statistics()) for cache in self._caches()}
        if self._tiers.directory is not None:
            statistics["disk"] = asdict(self._tiers.directory.statistics())
        if self._tiers.store is not None:
            statistics["shared"] = asdict(self._tiers.store.statistics())
        return statistics

    def clear_caches(self) -> None:
        """Drop everything decoded from memory. Entries on the disk stay."""
        for cache in self._caches():
            cache.clear()
        # Returning memory to the system takes long, and the caller need not wait for it.
        threading.Thread(target=give_memory_back, name="memory", daemon=True).start()

    def _evaluate(
        self,
        of: TableRef | Version,
        request: _Question,
        answer: Callable[[Version, _Question], _Answer],
    ) -> _Answer:
        version = self._version(of, request.selector)
        with missing_file_means_expired(version), during(Phase.EVALUATE):
            return answer(version, request)

    def _version(self, of: TableRef | Version, selector: SnapshotSelector) -> Version:
        return of if isinstance(of, Version) else self.resolve(of, selector)

    def close(self) -> None:
        """End the threads that load and read files."""
        self._plans.close()
        for warehouse in self.warehouses.values():
            warehouse.readers.close()
        if self._tiers.store is not None:
            self._tiers.store.close()

    def _caches(self) -> list[ByteCache[Any]]:
        indexes = [getattr(self._indexes, member.name) for member in fields(self._indexes)]
        return [self._metadata, self._manifests, *indexes, self._plans.cache]

    def _warehouse(self, name: str) -> Warehouse:
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
            check_listable(self._warehouse(ref.warehouse))
            if not isinstance(error, SnapshotExpiredError) and ref.directory is None:
                with suppress(StorageError, CorruptMetadataError, PathNotAllowedError):
                    self._catalog(ref.warehouse).check_there(ref.database, ref.table or None, branch)
            raise

    def _catalog(self, warehouse: str) -> Catalog:
        storage = self._warehouse(warehouse)
        return Catalog(TableReader(storage, self._metadata, self._manifests, storage.readers, self._tiers))

    def _table(self, ref: TableRef) -> Table:
        return self._catalog(ref.warehouse).table(ref.database, ref.table, ref.directory)

    def _check_named(self, files: Sequence[object] | None) -> None:
        limit = self._limits.files_named
        if files is not None and len(files) > limit:
            raise LimitExceededError(
                f"a request names at most {limit} files, found {len(files)}", limit=limit
            )


def _warm(version: Version, *, at_once: bool) -> None:
    # Manifests first: a request for the same version then has nothing to read while the rest is prepared.
    version.table.metadata.manifests(version.resolved, at_once=at_once)
    version.load()
    open_declared(version)
    version.keep_derived()


def _without_derived(item: Any) -> Manifest | None:
    # A spilled manifest itself takes next to no memory, and decoding it again much time.
    return item.without_derived() if isinstance(item, Manifest) else None


def _nbytes(item: Any) -> int:
    size: int = item.nbytes
    return size
