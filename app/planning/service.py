"""The one object behind the HTTP layer and the command line: warehouses, caches, and what is asked of them.

Every method may be called from many threads and blocks while it reads; the time limit of
:func:`app.work.time_limit` holds for all of them.
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
from app.planning.changes import Changes, answer_changes
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
from app.types import Json
from app.types.session_zone import SessionZone, session_zone
from app.work import give_memory_back

Answer = TypeVar("Answer")
Asked = TypeVar("Asked", DeletionsRequest, LookupRequest, AssignRequest, BucketsRequest)


class IndexService:
    """Answers for some warehouses.

    ``warehouses``: by name; their readers are closed with the service. ``time_zone``: the session time zone
    of requests that name none; None if it is not known.
    """

    def __init__(
        self,
        warehouses: Mapping[str, Warehouse],
        *,
        cache_bytes: CacheBytes,
        limits: Limits,
        time_zone: str | None = None,
        disk: DiskTier | None = None,
        shared: SharedTier | None = None,
        with_shapes: bool = True,
    ) -> None:
        self.warehouses = dict(warehouses)
        self._limits = limits
        self._time_zone = time_zone
        self.usage = Usage(with_shapes=with_shapes)
        self._tiers = Tiers(disk, shared)
        capacities = cache_bytes.by_name
        room = CacheRoom(capacities) if cache_bytes.is_shared else None

        def cache(name: str) -> ByteCache[Any]:
            return ByteCache(name, capacities[name], _nbytes, room)

        self._metadata, self._manifests = cache("metadata"), cache("manifests")
        self._indexes = IndexCaches(cache("file_indexes"), cache("deletion_vectors"), cache("hash_indexes"))
        self._plans = Plans(cache("plans"), limits)

    @property
    def is_opening(self) -> bool:
        """Whether the shared cache may still answer for the first time; for a second at most."""
        return self._tiers.store is not None and self._tiers.store.is_opening

    def path_of(self, warehouse: str, location: str) -> str:
        """As of :meth:`app.storage.Warehouse.path_of`.

        Raises:
            UnknownPlaceError: there is no such warehouse.
            RequestError: the location is no URL of a directory.
            NotFoundError: it lies elsewhere.
        """
        return self._warehouse(warehouse).path_of(location)

    def databases(self, warehouse: str) -> list[str]:
        """Names of the databases of a warehouse."""
        names = self._catalog(warehouse).databases()
        if not names:
            check_listable(self._warehouse(warehouse))
        return names

    def tables(self, warehouse: str, database: str) -> list[str]:
        """Names of the tables of a database."""
        with self._telling_what_is_there(TableRef(warehouse, database, "")):
            return self._catalog(warehouse).tables(database)

    def describe(self, ref: TableRef, selector: SnapshotSelector, refusal: Refusal) -> TableDescription:
        """The schema of a version of a table and what follows from it; see :meth:`TableDescription.of`."""
        version, newest = self.resolve(ref, selector), SnapshotSelector(branch=selector.branch)
        latest = version if selector == newest else self.resolve(ref, newest)
        return TableDescription.of(version, latest.resolved.snapshot, refusal)

    def schema(self, ref: TableRef, schema_id: int, branch: str | None = None) -> Schema:
        """One schema of a table, with the full types of its columns."""
        with self._telling_what_is_there(ref, branch):
            return Schema.of(self._table(ref).schema_of(schema_id, branch))

    def schemas(self, version: Version) -> Sequence[Schema]:
        """The schemas of a table up to that of a version; each is read when somebody asks for it."""
        return DescribedSchemas.of(version, version.source.warehouse.readers)

    def snapshots(
        self, ref: TableRef, branch: str | None = None, after: int | None = None, count: int = MOST_READS
    ) -> tuple[list[Snapshot], int | None]:
        """Some snapshots of a table, oldest first, and the number behind which the others follow.

        ``after``: the number that they follow; None for the first ones. ``count``: how many at most; never
        more than :data:`MOST_READS`.
        """
        with self._telling_what_is_there(ref, branch):
            part = self._table(ref).snapshots(branch, after, count)
        return [Snapshot.of(snapshot) for snapshot in part.entries.values()], part.last

    def tags(
        self, ref: TableRef, branch: str | None = None, after: str | None = None, count: int = MOST_READS
    ) -> tuple[list[Tag], str | None]:
        """Some tags of a table by name, each with its snapshot; as of :meth:`snapshots`."""
        with self._telling_what_is_there(ref, branch):
            part = self._table(ref).tags(branch, after, count)
        return [Tag(name, Snapshot.of(snapshot)) for name, snapshot in part.entries.items()], part.last

    def branches(self, ref: TableRef) -> list[Branch]:
        """The branches of a table besides the main one."""
        with self._telling_what_is_there(ref):
            return list(map(Branch, self._table(ref).branches()))

    def resolve(self, ref: TableRef, selector: SnapshotSelector) -> Version:
        """The version that a caller means; reads a few small files, no manifests.

        Raises NotFoundError: there is no such warehouse, table, snapshot, tag or branch.
        """
        started = time.perf_counter()
        table, staleness = self._table(ref), selector.max_staleness_ms
        with during(Phase.RESOLVE), self._telling_what_is_there(ref, selector.branch):
            resolved = table.resolve(
                snapshot_id=selector.snapshot_id,
                tag=selector.tag,
                timestamp_millis=selector.timestamp_millis,
                branch=selector.branch,
                schemas=selector.schemas,
                max_staleness_ms=self._limits.staleness_ms if staleness is None else staleness,
            )
        source = IndexSource(self._warehouse(ref.warehouse), table.paths(resolved), self._indexes)
        resolving_ms = (time.perf_counter() - started) * 1000
        return Version(table, resolved, source, resolving_ms)

    def index_files(self, version: Version, index_type: str | None) -> list[IndexFileEntry]:
        """The index files of a version."""
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
        """Which files a query reads, and which of their rows.

        Plans are remembered for a while, so that further pages of one cost nothing. Index files that a plan
        had no time to wait for are loaded in the background.

        Args:
            of: a table, or a version that was resolved before, whatever the request's selector says.
            budget_ms: of requests that name none; None for as long as it takes.
            is_counted: it counts in :attr:`usage`, as further pages of a plan do not.
        """
        self._check_named(request.files)
        version = self._version(of, request.selector)
        request = request.model_copy(update={"time_zone": self.time_zone(request.time_zone)})
        with missing_file_means_expired(version):
            plan = self._plans.of(version, request, budget_ms)
        if is_counted:
            self.usage.add(version, plan)
        report_plan(plan, is_counted=is_counted)
        return plan

    def pruned_snapshot(
        self, ref: TableRef, request: PlanRequest, budget_ms: int | None = None, most_share: float = 1.0
    ) -> PrunedSnapshot:
        """A snapshot that names only the files that a query reads; nothing is written."""
        version = self.resolve(ref, request.selector)
        # Readers of such tables take the rows to read along with the files.
        form = SelectionForm.RANGES if version.schema.options.data_evolution else SelectionForm.NONE
        # Files count among the manifests that a plan reads: here among all.
        request = request.model_copy(update={"totals": True, "selection": form})
        plan = self.plan(version, request, budget_ms)
        with missing_file_means_expired(version), during(Phase.EVALUATE):
            return prune(version, plan, most_share)

    def changes(self, before: Version, after: Version, request: PlanRequest) -> Changes:
        """The files that came and went between two versions of a table, after a filter."""
        zone, before = self.zone(request.time_zone), before.in_columns_of(after.schema)
        with missing_file_means_expired(after), missing_file_means_expired(before), during(Phase.EVALUATE):
            return answer_changes(before, after, request, self._limits, zone)

    def deletions(self, of: TableRef | Version, request: DeletionsRequest) -> DeletionsAnswer:
        """Which rows are deleted; ``of`` as for :meth:`plan`."""
        self._check_named(request.files)
        return self._evaluate(of, request, answer_deletions)

    def lookup(self, of: TableRef | Version, request: LookupRequest) -> BucketLookup:
        """Which buckets keys are in; ``of`` as for :meth:`plan`."""
        return self._evaluate(of, request, answer_lookup)

    def buckets(self, of: TableRef | Version, request: BucketsRequest) -> BucketList:
        """What is in the buckets of a partition, or of all partitions; ``of`` as for :meth:`plan`."""
        return self._evaluate(of, request, answer_buckets)

    def assign(self, of: TableRef | Version, request: AssignRequest) -> AssignmentAnswer:
        """Which buckets a writer would put keys into; nothing is written. ``of`` as for :meth:`plan`."""
        return self._evaluate(of, request, answer_assignment)

    def warm(self, version: Version, *, at_once: bool = False) -> None:
        """Reads what plans of a version need.

        ``at_once``: side by side; otherwise no request waits for more than the one file being read.
        """
        with missing_file_means_expired(version):
            _warm(version, at_once=at_once)

    def share(self, version: Version, columns: Iterable[str]) -> None:
        """Reads what plans of a version need, index files of some columns too, and leaves it to others.

        Returns once all of it lies in the shared cache, or could not be written.
        """
        store = self._tiers.store
        if store is None:
            return
        with missing_file_means_expired(version):
            version.load()
            store.flush()
            for _ in read_indexes(version, columns):
                # Of what waits to be written, the store drops what is too much.
                store.flush()
        store.flush()

    def evaluate(
        self, warehouse: str, request: EvaluateRequest, *, any_place: bool = False
    ) -> EvaluateAnswer:
        """What index files on their own say of a filter.

        ``any_place``: paths may name any file, as those of whoever operates the service may.
        """
        self._check_named(request.files)
        storage, zone = self._warehouse(warehouse), self.zone(request.time_zone)
        with during(Phase.EVALUATE):
            return evaluate_files(storage, request, self._limits, zone, any_place=any_place)

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
        """What is in an index file; see :func:`app.planning.standalone.inspect_file`."""
        storage = self._warehouse(warehouse)
        return inspect_file(storage, file, kind, types, entries, any_place=any_place)

    def time_zone(self, named: str | None) -> str | None:
        """The session time zone of a request that names ``named``; None if nobody knows it."""
        return named or self._time_zone

    def zone(self, named: str | None) -> SessionZone | None:
        """The session time zone of a request that names ``named``, for those who read its filters."""
        name = self.time_zone(named)
        return None if name is None else session_zone(name)

    def cache_statistics(self) -> Mapping[str, Mapping[str, int]]:
        """The numbers of each cache by its name; of ``disk`` and ``shared`` if there are."""
        statistics = {cache.name: asdict(cache.statistics()) for cache in self._caches()}
        if self._tiers.directory is not None:
            statistics["disk"] = asdict(self._tiers.directory.statistics())
        if self._tiers.store is not None:
            statistics["shared"] = asdict(self._tiers.store.statistics())
        return statistics

    def clear_caches(self) -> None:
        """Forgets everything that was decoded; what is kept on disk stays there."""
        for cache in self._caches():
            cache.clear()
        # It takes long, and nobody waits for it.
        threading.Thread(target=give_memory_back, name="memory", daemon=True).start()

    def _evaluate(
        self,
        of: TableRef | Version,
        request: Asked,
        answer: Callable[[Version, Asked, SessionZone | None], Answer],
    ) -> Answer:
        zone = self.zone(request.time_zone)
        version = self._version(of, request.selector)
        with missing_file_means_expired(version), during(Phase.EVALUATE):
            return answer(version, request, zone)

    def _version(self, of: TableRef | Version, selector: SnapshotSelector) -> Version:
        return of if isinstance(of, Version) else self.resolve(of, selector)

    def close(self) -> None:
        """Ends the threads that load and read files."""
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
    def _telling_what_is_there(self, ref: TableRef, branch: str | None = None) -> Iterator[None]:
        """Has the caller told which of the names is the one that nothing has, and what there is instead.

        Nothing is found in a warehouse that is not there, and that is what has to be told then.
        """
        try:
            yield
        except NotFoundError as error:
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
    # A request for the same version, which would wait for what follows, has nothing left to read by then.
    version.table.metadata.manifests(version.resolved, at_once=at_once)
    version.load()
    open_declared(version)
    version.keep_derived()


def _nbytes(item: Any) -> int:
    size: int = item.nbytes
    return size
