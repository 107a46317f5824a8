"""Operations: health, caches and metrics."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import orjson
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.access import EVERYBODY, Caller
from app.api.http.headers import prefers_page
from app.api.http.problems import ProblemError, problem_of_status
from app.api.http.strict_json import write_json
from app.api.openapi import operation, text_operation
from app.api.runtime import Runtime
from app.described import DESCRIBED
from app.planning import IndexService
from app.release import __version__
from app.server import Processes
from app.storage import CacheState, Listings, SharedCacheState
from app.storage.disk import DiskCacheState
from app.telemetry import Telemetry

Statistics: TypeAlias = "Mapping[str, Mapping[str, int]]"
"""Numbers of each cache by its name."""

_STATISTICS: Final = b"caches"
_CLEAR: Final = b"clear"
_WARM: Final = b"warm"
_NOT_YET: Final = b"not yet"
_SHARED: Final = frozenset({"entries", "bytes", "capacity"})
"""Numbers of the disk cache's directory, which all processes share."""


class Caches:
    """The caches of all processes of the service, summed up."""

    def __init__(self, service: IndexService, processes: Processes) -> None:
        self._service = service
        self._processes = processes
        processes.answer(_STATISTICS, self._own_statistics)
        processes.answer(_CLEAR, self._clear_own)

    def statistics(self) -> Statistics:
        """Return the state of each cache. Raises ProblemError unless all processes answer in two seconds."""
        return self._of_all(_STATISTICS, self._own_statistics())

    def clear(self) -> Statistics:
        """Empty all caches. Return their statistics, or raise ProblemError as :meth:`statistics` does."""
        return self._of_all(_CLEAR, self._clear_own())

    def _own_statistics(self) -> bytes:
        return orjson.dumps(self._service.caches.statistics())

    def _clear_own(self) -> bytes:
        self._service.caches.clear()
        return self._own_statistics()

    def _of_all(self, question: bytes, own: bytes) -> Statistics:
        answers = [answer for _, answer in self._processes.ask(question)]
        if missing := answers.count(None):
            detail = (
                f"{missing} of {len(answers) + 1} processes did not answer in time: ask again in a moment"
            )
            raise ProblemError(problem_of_status(503, detail, headers={"Retry-After": "1"}))
        return _summed([orjson.loads(answer) for answer in (own, *filter(None, answers))])


def _summed(statistics: list[Statistics]) -> Statistics:
    return {
        cache: {
            member: max(numbers) if cache == "disk" and member in _SHARED else sum(numbers)
            for member in members
            if (numbers := [process[cache][member] for process in statistics])
        }
        for cache, members in statistics[0].items()
    }


class Warmth:
    """Readiness of the watched tables in all processes of the service. Never lost once reached."""

    def __init__(self, is_own: Callable[[], bool], processes: Processes) -> None:
        self._is_own = is_own
        self._processes = processes
        self._is_reached = False
        processes.answer(_WARM, lambda: b"" if is_own() else _NOT_YET)

    async def is_reached(self) -> bool:
        """Return True once all processes have read the watched tables."""
        if not self._is_reached and self._is_own():
            answers = await asyncio.to_thread(lambda: list(self._processes.ask(_WARM)))
            self._is_reached = all(answer != _NOT_YET for _, answer in answers)
        return self._is_reached


router = APIRouter(tags=["operations"])


@dataclass(frozen=True, slots=True)
class About:
    """Name, version and entry points of the service."""

    __pydantic_config__ = DESCRIBED

    service: str
    version: str
    description: str
    explorer: Annotated[str, Field(description="Path of the explorer, a page for people.", examples=["/ui"])]
    docs: Annotated[str, Field(description="Path of the documentation of this API.", examples=["/docs"])]
    openapi: Annotated[str, Field(description="Path of the OpenAPI document.", examples=["/openapi.json"])]


@dataclass(frozen=True, slots=True)
class Health:
    """The service's health."""

    __pydantic_config__ = DESCRIBED

    status: Annotated[str, Field(examples=["ready"])]
    warehouses_failing: int | None = None
    """Number of warehouses that could not be listed, if any; the log and metrics name them."""


class CacheStatistics(BaseModel):
    """The state of each cache by its name."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)
    __pydantic_extra__: dict[str, CacheState]

    disk: DiskCacheState | None = Field(
        None, description="The disk cache as this process sees it; absent without a disk cache."
    )
    shared: SharedCacheState | None = Field(None, description="Absent without a shared cache.")


@router.get("/", **operation(About, storage=False))
async def about(request: Request) -> Response:
    """Return the name and version of the service, and the paths of its explorer and documentation."""
    mounted = request.scope.get("root_path", "")
    varies = {"Vary": "Accept"}
    if prefers_page(request.headers.get("accept", "")):
        # A browser gets the explorer.
        return RedirectResponse(f"{mounted}/ui", status_code=307, headers=varies)
    answer = About(
        service="paimon-index",
        version=__version__,
        description="Answers from Apache Paimon index files which files and rows a query reads.",
        explorer=f"{mounted}/ui",
        docs=f"{mounted}/docs",
        openapi=f"{mounted}/openapi.json",
    )
    return Response(write_json(answer), media_type="application/json", headers=varies)


@router.get("/health/live", **operation(Health, storage=False))
async def live() -> Response:
    """Confirm that the process runs."""
    return Response(b'{"status":"live"}', media_type="application/json")


@router.get("/health/ready", **operation(Health, storage=False))
async def ready(request: Request) -> Response:
    """Report whether to send requests: 503 while shutting down, starting or first reading watched tables.

    A warehouse that cannot be listed is counted and does not affect the others. 503 if the directory or
    bucket of every warehouse is missing. Stores that fail do not count: caches keep answering for them.
    """
    runtime: Runtime | None = request.app.state.runtime
    if runtime is None or request.app.state.stopping.is_begun:
        raise ProblemError(problem_of_status(503, "the service is starting or shutting down"))
    if runtime.service.caches.is_opening:
        raise ProblemError(problem_of_status(503, "the service is waiting for its shared cache to answer"))
    warmth: Warmth = request.app.state.warmth
    if not await warmth.is_reached():
        raise ProblemError(problem_of_status(503, "the service is reading the tables that it watches"))
    listings: Listings = request.app.state.listings
    if listings.all_missing:
        detail = "no warehouse exists: the log names the directory or bucket that is missing; check its URL"
        raise ProblemError(problem_of_status(503, detail))
    answer: dict[str, object] = {"status": "ready"}
    if failing := listings.failing:
        answer["warehouses_failing"] = failing
    return Response(write_json(answer), media_type="application/json")


@router.get("/v1/cache", **operation(CacheStatistics, storage=False))
async def cache(request: Request) -> Response:
    """Show contents and hits of each cache, in all processes together."""
    caches: Caches = request.app.state.caches
    return Response(write_json(await asyncio.to_thread(caches.statistics)), media_type="application/json")


@router.post("/v1/cache/clear", **operation(CacheStatistics, storage=False))
async def clear_caches(request: Request) -> Response:
    """Empty every cache of every process. Later requests read storage again."""
    caches: Caches = request.app.state.caches
    return Response(write_json(await asyncio.to_thread(caches.clear)), media_type="application/json")


@router.get("/metrics", **text_operation("Metrics in the requested text form."))
async def metrics(request: Request) -> Response:
    """Return the counters of all processes, in the text format of Prometheus or OpenMetrics."""
    telemetry: Telemetry = request.app.state.telemetry
    # Without a caller if the operator has opened this path to everybody.
    caller: Caller = request.scope["state"].get("caller", EVERYBODY)
    accept = ",".join(request.headers.getlist("accept"))
    # Asking other processes blocks while they are busy, so it runs neither on the event loop nor in threads
    # that storage may block.
    content, media_type = await asyncio.to_thread(telemetry.exposition, accept, caller.may_use)
    return Response(content, media_type=media_type)
