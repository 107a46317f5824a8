"""The service behind HTTP and the command line: it owns warehouses and caches, and answers requests.

Any thread may call any method. Methods block while they read; :func:`app.work.time_limit` bounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from app.errors import LimitExceededError
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
from app.planning.service_caches import ServiceCaches
from app.planning.standalone import inspect_file
from app.planning.tables import Tables
from app.planning.usage import Usage
from app.planning.version.version import IndexCaches, Version, missing_file_means_expired
from app.storage import ByteCache, CacheRoom, SharedTier, Tiers, Warehouse
from app.storage.disk import DiskTier
from app.table.manifests import Manifest
from app.types import Json

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
        tiers = Tiers(disk, shared)
        capacities = cache_bytes.by_name
        room = CacheRoom(capacities) if cache_bytes.is_shared else None

        def cache(name: str) -> ByteCache[Any]:
            return ByteCache(name, capacities[name], _nbytes, room, _without_derived)

        metadata, manifests = cache("metadata"), cache("manifests")
        of_indexes = [cache("file_indexes"), cache("deletion_vectors"), cache("hash_indexes")]
        self._plans = Plans(cache("plans"), limits)
        self.caches = ServiceCaches([metadata, manifests, *of_indexes, self._plans.cache], tiers)
        indexes = IndexCaches(*of_indexes)
        self.tables = Tables(self.warehouses, limits.staleness_ms, metadata, manifests, indexes, tiers)

    def resolve(self, ref: TableRef, selector: SnapshotSelector) -> Version:
        """Resolve a selector to a version. See :meth:`Tables.resolve`."""
        return self.tables.resolve(ref, selector)

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
        # `most_share` is a share of all files or rows, so manifests that the filter rules out must be
        # counted.
        request = request.model_copy(update={"totals": True, "selection": form})
        plan = self.plan(version, request, budget_ms)
        with missing_file_means_expired(version), during(Phase.EVALUATE):
            return prune(version, plan, most_share, self._limits)

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

    def evaluate(
        self, warehouse: str, request: EvaluateRequest, *, any_place: bool = False
    ) -> EvaluateAnswer:
        """Evaluate a filter on index files alone, without a table.

        ``any_place``: allows paths of any file, for operators, not for callers of the service.
        """
        self._check_named(request.files)
        storage = self.tables.warehouse(warehouse)
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
        storage = self.tables.warehouse(warehouse)
        return inspect_file(storage, file, kind, types, entries, any_place=any_place)

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
        self.caches.close()

    def _check_named(self, files: Sequence[object] | None) -> None:
        limit = self._limits.files_named
        if files is not None and len(files) > limit:
            raise LimitExceededError(
                f"a request names at most {limit} files, found {len(files)}", limit=limit
            )


def _nbytes(item: Any) -> int:
    size: int = item.nbytes
    return size


def _without_derived(item: Any) -> Manifest | None:
    # The manifest itself stays: once spilled, it takes next to no memory, and decoding it again takes long.
    return item.without_derived() if isinstance(item, Manifest) else None
