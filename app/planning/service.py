"""The one object behind the HTTP layer and the command line: warehouses, caches, and what is asked of them.

Every method may be called from many threads and blocks while it reads; the time limit of
:func:`app.storage.time_limit` holds for all of them.
"""

from __future__ import annotations

import time
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from app.errors import LimitExceededError, NotFoundError
from app.planning.buckets import answer_assignment, answer_buckets, answer_lookup
from app.planning.deletions import answer_deletions
from app.planning.descriptions import describe_index_files, describe_snapshot, describe_table
from app.planning.file_indexes import open_declared
from app.planning.filters import read_filter
from app.planning.indexes import IndexCaches, IndexLoader
from app.planning.live_files import LiveFiles
from app.planning.plan_answer import answer_plan, plan_bytes
from app.planning.planner import Planner
from app.planning.requests import SnapshotSelector
from app.planning.standalone import evaluate_files, inspect_file
from app.planning.version import Version, VersionContents
from app.storage import ByteCache, Readers
from app.table.catalog import Catalog
from app.table.digest import content_digest
from app.table.metadata_files import TableReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.planning.answers import (
        AssignAnswer,
        BucketsAnswer,
        DeletionsAnswer,
        EvaluatedFile,
        LookupAnswer,
        Plan,
    )
    from app.planning.limits import CacheBytes, Limits
    from app.planning.requests import (
        AssignRequest,
        DeletionsRequest,
        EvaluateRequest,
        IndexFileRef,
        LookupRequest,
        PlanRequest,
        TableRef,
    )
    from app.storage import DiskTier, Warehouse
    from app.table.manifest import Manifest
    from app.table.table import ResolvedSnapshot, Table
    from app.types import Json


class IndexService:
    """Answers for some warehouses.

    Args:
        warehouses: by name.
        cache_bytes: capacity of each cache.
        limits: how large requests may be.
        readers: read files side by side, for the warehouses as well; closed with the service.
        disk: where the warehouses keep what they read, if anywhere.
    """

    def __init__(
        self,
        warehouses: Mapping[str, Warehouse],
        *,
        cache_bytes: CacheBytes,
        limits: Limits,
        readers: Readers | None = None,
        disk: DiskTier | None = None,
    ) -> None:
        self.warehouses = dict(warehouses)
        self._limits = limits
        self._readers = readers or Readers()
        self._disk = disk
        self._metadata: ByteCache[Any] = ByteCache("metadata", cache_bytes.metadata, _nbytes)
        self._manifests: ByteCache[Any] = ByteCache("manifests", cache_bytes.manifests, _nbytes)
        self._indexes = IndexCaches(
            ByteCache("index_headers", cache_bytes.index_headers, _nbytes),
            ByteCache("bloom_filters", cache_bytes.bloom_filters, _nbytes),
            ByteCache("bitmaps", cache_bytes.bitmaps, _nbytes),
            ByteCache("deletion_vectors", cache_bytes.deletion_vectors, _nbytes),
            ByteCache("hash_indexes", cache_bytes.hash_indexes, _nbytes),
        )
        self._plans: ByteCache[Plan] = ByteCache("plans", cache_bytes.plans, plan_bytes)

    def databases(self, warehouse: str) -> list[str]:
        """Names of the databases of a warehouse."""
        return self._catalog(warehouse).databases()

    def tables(self, warehouse: str, database: str) -> list[str]:
        """Names of the tables of a database."""
        return self._catalog(warehouse).tables(database)

    def describe(self, ref: TableRef, branch: str | None = None) -> Mapping[str, Json]:
        """The newest schema of a table and what follows from it."""
        return describe_table(self.resolve(ref, SnapshotSelector(branch=branch)))

    def snapshots(self, ref: TableRef, branch: str | None = None) -> list[Mapping[str, Json]]:
        """The snapshots of a table, oldest first."""
        return [describe_snapshot(snapshot) for snapshot in self._table(ref).snapshots(branch)]

    def tags(self, ref: TableRef, branch: str | None = None) -> list[Mapping[str, Json]]:
        """The tags of a table, each with its snapshot."""
        found = self._table(ref).tags(branch)
        return [{"name": name, "snapshot": describe_snapshot(snapshot)} for name, snapshot in found.items()]

    def branches(self, ref: TableRef) -> list[Mapping[str, Json]]:
        """The branches of a table besides the main one."""
        return [{"name": name} for name in self._table(ref).branches()]

    def resolve(self, ref: TableRef, selector: SnapshotSelector) -> Version:
        """The version that a caller means; reads a few small files, no manifests.

        Raises:
            NotFoundError: there is no such warehouse, table, snapshot, tag or branch.
        """
        started = time.perf_counter()
        table = self._table(ref)
        resolved = table.resolve(
            snapshot_id=selector.snapshot_id,
            tag=selector.tag,
            timestamp_millis=selector.timestamp_millis,
            branch=selector.branch,
            schema_id=selector.schema_id,
        )
        loader = IndexLoader(
            self._warehouse(ref.warehouse), self._readers, table.paths(resolved), self._indexes
        )
        resolving_ms = (time.perf_counter() - started) * 1000
        return Version(
            table,
            resolved,
            loader,
            lambda manifests: self._contents(ref.warehouse, table, resolved, manifests),
            resolving_ms,
        )

    def index_files(self, version: Version, index_type: str | None) -> list[Json]:
        """The index files of a version."""
        return describe_index_files(version, index_type)

    def plan(self, ref: TableRef, request: PlanRequest) -> Plan:
        """Which files a query reads, and which of their rows."""
        return self.plan_version(self.resolve(ref, request.selector), request)

    def plan_version(self, version: Version, request: PlanRequest) -> Plan:
        """The plan of a version that was resolved before, whatever the request's selector says.

        Plans are remembered for a while, so that further pages of one cost nothing.
        """
        self._check_named(request.files)
        asked = replace(request, selector=SnapshotSelector())
        key = (version.identity, content_digest(repr(asked).encode(errors="backslashreplace")))
        return self._plans.get_or_load(key, lambda: self._plan(version, asked))

    def deletions(self, ref: TableRef, request: DeletionsRequest) -> DeletionsAnswer:
        """Which rows are deleted."""
        return self.deletions_version(self.resolve(ref, request.selector), request)

    def deletions_version(self, version: Version, request: DeletionsRequest) -> DeletionsAnswer:
        """The deletions of a version that was resolved before, whatever the request's selector says."""
        self._check_named(request.files)
        return answer_deletions(version, request)

    def lookup(self, ref: TableRef, request: LookupRequest) -> LookupAnswer:
        """Which buckets keys are in."""
        return self.lookup_version(self.resolve(ref, request.selector), request)

    def lookup_version(self, version: Version, request: LookupRequest) -> LookupAnswer:
        """The buckets in a version that was resolved before, whatever the request's selector says."""
        return answer_lookup(version, request)

    def warm(self, version: Version) -> None:
        """Reads what plans of a version need; no request waits for more than the one file being read.

        Raises:
            SnapshotExpiredError: the version went away.
            CorruptMetadataError: one of its manifests is damaged.
        """
        for file in version.manifest_files:
            version.table.manifest(file)
        # Short by now: a request for the same version, which would wait for it, has nothing left to read.
        version.contents  # noqa: B018 - sorts the files
        open_declared(version)
        version.keep_derived()

    def buckets(
        self, ref: TableRef, selector: SnapshotSelector, partition: Mapping[str, Json] | None
    ) -> BucketsAnswer:
        """What is in the buckets of a partition, or of all partitions."""
        return answer_buckets(self.resolve(ref, selector), partition)

    def assign(self, ref: TableRef, request: AssignRequest) -> AssignAnswer:
        """Which buckets a writer would put keys into; nothing is written."""
        return answer_assignment(self.resolve(ref, request.lookup.selector), request)

    def evaluate(self, warehouse: str, request: EvaluateRequest) -> list[EvaluatedFile]:
        """What index files on their own say of a filter."""
        self._check_named(request.files)
        return evaluate_files(self._warehouse(warehouse), request, self._limits)

    def inspect(self, warehouse: str, file: IndexFileRef, kind: str | None, types: Mapping[str, str]) -> Json:
        """What is in an index file."""
        return inspect_file(self._warehouse(warehouse), file, kind, types)

    def cache_statistics(self) -> Mapping[str, Mapping[str, int]]:
        """Entries, bytes, capacity, hits, misses and evictions of each cache; ``disk`` if there is one."""
        found = {}
        for cache in self._caches():
            members = asdict(cache.statistics())
            found[members.pop("name")] = members
        if self._disk is not None:
            found["disk"] = asdict(self._disk.statistics())
        return found

    def clear_caches(self) -> None:
        """Forgets everything that was decoded; what is kept on disk stays there."""
        for cache in self._caches():
            cache.clear()

    def close(self) -> None:
        """Ends the threads that read files."""
        self._readers.close()

    def _caches(self) -> list[ByteCache[Any]]:
        indexes = [getattr(self._indexes, each.name) for each in fields(self._indexes)]
        return [self._metadata, self._manifests, *indexes, self._plans]

    def _warehouse(self, name: str) -> Warehouse:
        found = self.warehouses.get(name)
        if found is None:
            raise NotFoundError(
                f"there is no warehouse {name!r}: this service knows {sorted(self.warehouses)}"
            )
        return found

    def _catalog(self, warehouse: str) -> Catalog:
        storage = self._warehouse(warehouse)
        return Catalog(TableReader(storage, self._metadata, self._manifests, self._readers))

    def _table(self, ref: TableRef) -> Table:
        return self._catalog(ref.warehouse).table(ref.database, ref.table)

    def _contents(
        self, warehouse: str, table: Table, resolved: ResolvedSnapshot, manifests: Sequence[Manifest]
    ) -> VersionContents:
        def read() -> VersionContents:
            keys = table.manifest_files(resolved)
            newest = ("files", warehouse, resolved.directory)
            live = LiveFiles.of(keys, manifests, self._manifests.get(newest))
            self._manifests.put(newest, live)
            return VersionContents.read(
                live.columns, manifests, table.index_entries(resolved), resolved.schema
            )

        contents: VersionContents = self._manifests.get_or_load(("contents", resolved.identity), read)
        return contents

    def _plan(self, version: Version, request: PlanRequest) -> Plan:
        started = time.perf_counter()
        relation = version.relation(request.alias)
        predicate = read_filter(request.filter, version.schema.fields, self._limits, relation)
        planner = Planner(version, request, predicate)
        version.contents  # noqa: B018 - loads the manifests, which is timed by itself
        loaded = time.perf_counter()
        drafts = planner.run()
        version.keep_derived()
        timings = {
            "resolve": version.resolving_ms,
            "load": (loaded - started) * 1000,
            "evaluate": (time.perf_counter() - loaded) * 1000,
        }
        return answer_plan(version, request, drafts, planner.warnings, timings)

    def _check_named(self, files: Sequence[object] | None) -> None:
        limit = self._limits.files_named
        if files is not None and len(files) > limit:
            raise LimitExceededError(
                f"a request names at most {limit} files, found {len(files)}", limit=limit
            )


def _nbytes(item: Any) -> int:  # noqa: ANN401 - every cached object tells its size
    size: int = item.nbytes
    return size
