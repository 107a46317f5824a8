"""Plans of versions: made, cached, and finished in the background if they ran out of time."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from app.errors import PaimonIndexError
from app.observation import Phase, during
from app.planning.plan.answers import Plan
from app.planning.request.budget import BACKGROUND, Budget
from app.planning.request.limits import Limits
from app.planning.request.requests import PlanRequest, VersionedRequest
from app.planning.scan.planner import decide
from app.planning.version.version import Version, missing_file_means_expired
from app.storage import ByteCache
from app.types.digest import request_digest
from app.work import CORES, LEDGER, Cancellation, cancellable, time_limit

_log = logging.getLogger("paimon_index.planning")

PlanKey: TypeAlias = "tuple[str, bytes]"

# Members of a request that the plan of a version depends on.
_MEMBERS: Final = [
    name for name in PlanRequest.model_fields if name not in {*VersionedRequest.model_fields, "budget_ms"}
]
# Time limit of a background load. Its reads stay in the caches.
_SECONDS: Final = 300.0
_LEAST_CLAIM_BYTES: Final = 1 << 20
# Loads of one warehouse, running and queued. When the queue is full, a load is dropped: the next plan that
# needs it submits it again.
_MOST_LOADS: Final = 64


class BackgroundLoads:
    """Queues loads per warehouse, one thread each, so that a hanging store delays no other warehouse."""

    def __init__(self) -> None:
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._end = Cancellation()
        self._pending: defaultdict[str, set[Hashable]] = defaultdict(set)
        self._lock = threading.Lock()

    def begin(self, warehouse: str, key: Hashable, load: Callable[[], object]) -> None:
        """Submit a load, unless it is pending, the queue is full, or :meth:`close` was called."""
        with self._lock:
            pending = self._pending[warehouse]
            if key in pending or len(pending) >= _MOST_LOADS or self._end.event.is_set():
                return
            if warehouse not in self._pools:
                self._pools[warehouse] = ThreadPoolExecutor(1, thread_name_prefix=f"loading-{warehouse}")
            pending.add(key)
            self._pools[warehouse].submit(self._load, pending, key, load)

    def close(self) -> None:
        """Cancel running loads. Queued ones never start."""
        with self._lock:
            self._end.cancel()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    def _load(self, pending: set[Hashable], key: Hashable, load: Callable[[], object]) -> None:
        try:
            with cancellable(self._end), time_limit(_SECONDS), CORES.computing():
                load()
        except PaimonIndexError as error:
            # The next plan meets the same error, and warns its caller.
            _log.info("loading in the background ended early: %s", error)
        finally:
            with self._lock:
                pending.discard(key)


class Plans:
    """Plans of all versions."""

    def __init__(self, cache: ByteCache[Plan], limits: Limits) -> None:
        self.cache = cache
        self._limits = limits
        self._loads = BackgroundLoads()

    def of(self, version: Version, request: PlanRequest, budget_ms: int | None) -> Plan:
        """Return the plan of a version, from the cache if possible.

        ``request``: the filter and the form of the answer. Its selector is ignored. Its time zone must be
        resolved.
        ``budget_ms``: default for requests that name no budget. None waits for every index file.
        """
        budget = Budget.begin(budget_ms if request.budget_ms is None else request.budget_ms)
        return self._remembered(version, request, budget)

    def close(self) -> None:
        """Cancel background loads."""
        self._loads.close()

    def _remembered(self, version: Version, request: PlanRequest, budget: Budget) -> Plan:
        key = _key(version, request, None)
        # A request with a budget of its own does not wait for a plan with another one.
        cache_key = key if request.budget_ms is None else _key(version, request, request.budget_ms)
        plan = None if cache_key == key else self.cache.get(key)
        if plan is None:
            releases: list[Callable[[], object]] = []
            plan = self.cache.get_or_load(
                cache_key,
                lambda: self._make(version, request, budget, releases),
                is_kept=lambda made: made.summary.complete,
            )
            self._release_if_cached(cache_key, plan, releases)
            if plan.ran_out_of_time:
                name = version.source.warehouse.name
                self._loads.begin(name, key, lambda: self._finish(version, request, key))
            elif cache_key != key:
                self.cache.put(key, plan)
        return plan

    def _finish(self, version: Version, request: PlanRequest, key: PlanKey) -> None:
        releases: list[Callable[[], object]] = []
        with missing_file_means_expired(version):
            plan = self._make(version, request, BACKGROUND, releases)
        # A caller in this process may have changed the filter that the request holds.
        if _key(version, request, None) == key:
            self.cache.put(key, plan)
            self._release_if_cached(key, plan, releases)

    def _release_if_cached(self, key: PlanKey, plan: Plan, releases: Iterable[Callable[[], object]]) -> None:
        # The cache counts the plan's bytes itself, so claims on them would count twice.
        if self.cache.keeps(key, plan):
            for release in releases:
                release()

    def _make(
        self, version: Version, request: PlanRequest, budget: Budget, releases: list[Callable[[], object]]
    ) -> Plan:
        """Make a plan, and append to ``releases`` the function that releases its memory."""
        with LEDGER.claim("plans", path=version.table.name, line=version.source.warehouse.name) as claim:
            # A plan of few files should not wait for memory.
            def grow_to(size: int) -> None:
                claim.grow_to(size if size >= _LEAST_CLAIM_BYTES else 0)

            decisions = decide(version, request, self._limits, budget=budget, claim=grow_to)
            with during(Phase.EVALUATE):
                plan = decisions.plan()
            releases.append(claim.outlive(plan))
            return plan


def _key(version: Version, request: PlanRequest, budget_ms: int | None) -> PlanKey:
    members = (getattr(request, name) for name in _MEMBERS)
    return version.identity, request_digest(*members, budget_ms)
