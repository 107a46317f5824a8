"""Makes the plans of versions, remembers them, and finishes in the background what had no time."""

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
from app.predicates import day_of_request
from app.storage import ByteCache
from app.types.digest import request_digest
from app.types.session_zone import session_zone
from app.work import CORES, LEDGER, Cancellation, cancellable, time_limit

_log = logging.getLogger("paimon_index.planning")

PlanKey: TypeAlias = "tuple[str, bytes]"

_MEMBERS: Final = [
    name for name in PlanRequest.model_fields if name not in {*VersionedRequest.model_fields, "budget_ms"}
]
"""Of a request, those that the plan of a version depends on."""
_SECONDS: Final = 300.0
"""After which a load is given up; what it has read stays in the caches."""
_LEAST_CLAIM_BYTES: Final = 1 << 20
_MOST_LOADS: Final = 64
"""Of a warehouse, under way and waiting; a plan that is asked again has its own begun then."""


class BackgroundLoads:
    """Does one thing after the other for a warehouse, since another's storage may hang; each thing once."""

    def __init__(self) -> None:
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._end = Cancellation()
        self._known: defaultdict[str, set[Hashable]] = defaultdict(set)
        self._lock = threading.Lock()

    def begin(self, warehouse: str, key: Hashable, load: Callable[[], object]) -> None:
        """Has a thread load something, unless it has that or enough else to do, or after :meth:`close`."""
        with self._lock:
            known = self._known[warehouse]
            if key in known or len(known) >= _MOST_LOADS or self._end.event.is_set():
                return
            if warehouse not in self._pools:
                self._pools[warehouse] = ThreadPoolExecutor(1, thread_name_prefix=f"loading-{warehouse}")
            known.add(key)
            self._pools[warehouse].submit(self._load, known, key, load)

    def close(self) -> None:
        """Ends the loads under way; those that have not begun never do."""
        with self._lock:
            self._end.cancel()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    def _load(self, known: set[Hashable], key: Hashable, load: Callable[[], object]) -> None:
        try:
            with cancellable(self._end), time_limit(_SECONDS), CORES.computing():
                load()
        except PaimonIndexError as error:
            # The next plan meets it as well, and tells its caller.
            _log.info("loading in the background ended early: %s", error)
        finally:
            with self._lock:
                known.discard(key)


class Plans:
    """Plans of all versions."""

    def __init__(self, cache: ByteCache[Plan], limits: Limits) -> None:
        self.cache = cache
        self._limits = limits
        self._loads = BackgroundLoads()

    def of(self, version: Version, request: PlanRequest, budget_ms: int | None) -> Plan:
        """The plan of a version.

        ``request``: what is asked of it, whatever its selector says; its time zone is the one that is meant.
        ``budget_ms``: of requests that name none; None for as long as it takes.
        """
        budget = Budget.begin(budget_ms if request.budget_ms is None else request.budget_ms)
        return self._remembered(version, request, budget)

    def close(self) -> None:
        """Ends what is under way in the background."""
        self._loads.close()

    def _remembered(self, version: Version, request: PlanRequest, budget: Budget) -> Plan:
        key = _key(version, request, None)
        # A request with a budget of its own does not wait for a plan with another one.
        own = key if request.budget_ms is None else _key(version, request, request.budget_ms)
        plan = None if own == key else self.cache.get(key)
        if plan is None:
            claimed: list[Callable[[], object]] = []
            plan = self.cache.get_or_load(
                own,
                lambda: self._make(version, request, budget, claimed),
                is_kept=lambda made: made.summary.complete,
            )
            self._leave_to_cache(own, plan, claimed)
            if plan.ran_out_of_time:
                name = version.source.warehouse.name
                self._loads.begin(name, key, lambda: self._finish(version, request, key))
            elif own != key:
                self.cache.put(key, plan)
        return plan

    def _finish(self, version: Version, request: PlanRequest, key: PlanKey) -> None:
        claimed: list[Callable[[], object]] = []
        with missing_file_means_expired(version):
            plan = self._make(version, request, BACKGROUND, claimed)
        # A caller in this process may have changed the filter that the request holds.
        if _key(version, request, None) == key:
            self.cache.put(key, plan)
            self._leave_to_cache(key, plan, claimed)

    def _leave_to_cache(self, key: PlanKey, plan: Plan, claimed: Iterable[Callable[[], object]]) -> None:
        """Gives back the claims of a plan that the cache keeps, and so counts."""
        if self.cache.keeps(key, plan):
            for release in claimed:
                release()

    def _make(
        self, version: Version, request: PlanRequest, budget: Budget, claimed: list[Callable[[], object]]
    ) -> Plan:
        """Makes a plan; what gives back the memory that it takes is added to ``claimed``."""
        zone = None if request.time_zone is None else session_zone(request.time_zone)
        with LEDGER.claim("plans", path=version.table.name, line=version.source.warehouse.name) as claim:
            # Few files are no reason to wait.
            def grow_to(size: int) -> None:
                claim.grow_to(size if size >= _LEAST_CLAIM_BYTES else 0)

            decisions = decide(version, request, self._limits, zone, budget=budget, claim=grow_to)
            with during(Phase.EVALUATE):
                plan = decisions.plan()
            claimed.append(claim.outlive(plan))
            return plan


def _key(version: Version, request: PlanRequest, budget_ms: int | None) -> PlanKey:
    """By what a plan is remembered; that of a filter which asks the clock holds for a day."""
    members = (getattr(request, name) for name in _MEMBERS)
    return version.identity, request_digest(*members, budget_ms, day_of_request(request.filter))
