"""The service as an ASGI application.

``uvicorn app.main:app`` serves with settings from the environment. ``app`` is created on first access, so
that importing this module reads no environment.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from app.access import Caller, TokenFile
from app.api import explorer, openapi
from app.api.gate import (
    MOST_REQUESTS,
    Admission,
    Authentication,
    Gate,
    authorise,
    everybody,
    open_paths,
    refuse_unread,
    this_machine,
    tokens_of,
)
from app.api.http import (
    Compression,
    HeadMiddleware,
    ProblemError,
    RequestIds,
    SecurityHeaders,
    problem_of,
    problem_of_status,
)
from app.api.openapi import document
from app.api.routes import ROUTERS, Caches, SharedUsage, Warmth, unknown_path, wrong_method
from app.api.runtime import Runtime
from app.errors import PaimonIndexError, RequestError, UnknownPlaceError
from app.opening import create_service
from app.planning import IndexService
from app.planning.request import explain_faults
from app.release import __version__
from app.server import Processes, Stopping, request_limit
from app.settings import ENVIRONMENT_PREFIX, Settings
from app.storage import Listings
from app.storage.disk import temporary_directory
from app.storage.locations import without_credentials
from app.telemetry import Accounting, Telemetry
from app.work.memory import prepare_process

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_COMPRESSED_BYTES: Final = 1_024
_GZIP_LEVEL: Final = 5

_log = logging.getLogger("paimon_index")


def __getattr__(name: str) -> FastAPI:
    if name == "app":
        return create_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _log_places(settings: Settings) -> None:
    if settings.shared_cache is not None:
        _log.info("the shared cache is %s", without_credentials(settings.shared_cache))
    try:
        temporary_directory(os.environ.get("TMPDIR"))
    except OSError as error:
        _log.warning("the service writes no temporary files, and refuses tables beyond its caches: %s", error)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Objects that live as long as the application."""

    settings: Settings
    service: IndexService
    tokens: TokenFile | None
    processes: Processes
    telemetry: Telemetry
    listings: Listings
    stopping: Stopping

    @classmethod
    def of(cls, settings: Settings, service: IndexService | None) -> Self:
        """Make the objects without starting them."""
        tokens = TokenFile(settings.tokens_file, settings.warehouses) if settings.tokens_file else None
        service = service or create_service(settings)
        processes = Processes.of_environment()
        telemetry = Telemetry(
            processes,
            service.caches.statistics,
            concurrency=settings.concurrency,
            token_names=settings.metrics_token_names,
        )
        listings = telemetry.listings = Listings(service.warehouses)
        return cls(
            settings, service, tokens, processes, telemetry, listings, Stopping(settings.drain_seconds)
        )

    def put_into(self, app: FastAPI) -> None:
        """Put what routes use into the application's state."""
        telemetry = self.telemetry
        app.state.runtime = None
        app.state.stopping = self.stopping
        app.state.telemetry = telemetry
        app.state.listings = self.listings
        app.state.caches = Caches(self.service, self.processes)
        app.state.warmth = Warmth(
            lambda: telemetry.watch is not None and telemetry.watch.is_warm, self.processes
        )
        app.state.usage = SharedUsage(self.service, self.processes)

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[dict[str, object]]:
        """Start everything before the first request, and stop it after the last."""
        settings, telemetry = self.settings, self.telemetry
        prepare_process()
        if self.tokens is not None:
            self.tokens.start()
        elif settings.auth == "off":
            _log.warning(
                "%sAUTH=off: everybody who reaches this service may read its warehouses", ENVIRONMENT_PREFIX
            )
        _log_places(settings)
        telemetry.start()
        self.processes.start()
        app.state.runtime = runtime = Runtime.start(settings, self.service, telemetry.background)
        telemetry.watch = runtime.watch
        self.listings.start()
        self.stopping.listen()
        # The protocol of app.server.connections reads these.
        yield {
            "untaken_seconds": settings.deadline_seconds,
            "untaken_bytes": runtime.budget.bodies,
            "refuse_unread": partial(_refuse_unread, telemetry),
        }
        app.state.runtime = None
        self.listings.stop()
        runtime.close()
        if self.tokens is not None:
            self.tokens.stop()
        self.service.close()
        telemetry.stop()
        self.processes.stop()
        self.stopping.finish()


def create_app(settings: Settings | None = None, service: IndexService | None = None) -> FastAPI:
    """Create the application, which answers once it has been started.

    ``service``: by default made from the settings. It is closed when the application stops. Raises
    SettingsError if the settings cannot be used.
    """
    settings = settings or Settings.load()
    parts = _Parts.of(settings, service)
    app = FastAPI(
        title="paimon-index",
        version=__version__,
        lifespan=parts.lifespan,
        # app.api.openapi serves both, without files of other hosts.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(authorise)],
        # Generated clients call their methods by these names.
        generate_unique_id_function=lambda route: route.name,
    )
    parts.put_into(app)
    for router in (*ROUTERS, openapi.router, explorer.router, *_iceberg(settings)):
        app.include_router(router)
    for kind in (PaimonIndexError, ProblemError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer_error)
    # The last one added is the outermost.
    app.add_middleware(Admission, requests=min(MOST_REQUESTS, request_limit()))
    app.add_middleware(Compression, minimum_size=_COMPRESSED_BYTES, compresslevel=_GZIP_LEVEL)
    app.add_middleware(HeadMiddleware)
    app.add_middleware(Authentication, gate=_gate(settings, parts.tokens), is_open=open_paths(settings))
    app.add_middleware(RequestIds)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Accounting, telemetry=parts.telemetry)
    app.openapi = lambda: document(app)  # type: ignore[method-assign] # FastAPI's documented way
    return app


def _refuse_unread(telemetry: Telemetry, head: bytes) -> bytes | None:
    answer = refuse_unread(head)
    if answer is not None:
        telemetry.count_refusal(429)
    return answer


def _iceberg(settings: Settings) -> list[APIRouter]:
    if not settings.iceberg:
        return []
    from app.api.routes import iceberg  # noqa: PLC0415 - imported only if it is served

    return [iceberg.router]


def _gate(settings: Settings, tokens: TokenFile | None) -> Gate:
    if tokens is not None:
        return tokens_of(tokens)
    return everybody if settings.auth == "off" else this_machine


def _visible(request: Request, error: UnknownPlaceError) -> list[str]:
    caller: Caller = request.scope["state"]["caller"]
    if error.warehouse is None:
        return [name for name in error.existing if caller.may_use(name)]
    return [name for name in error.existing if caller.may_use(error.warehouse, name)]


async def _answer_error(request: Request, error: Exception) -> Response:
    match error:
        case HTTPException(status_code=404):
            # Only the router raises it.
            problem = problem_of_status(404, unknown_path(request))
        case HTTPException(status_code=405, headers=headers):
            problem = problem_of_status(405, wrong_method(request), headers=headers)
        case HTTPException():
            problem = problem_of_status(error.status_code, error.detail, headers=error.headers)
        case UnknownPlaceError():
            problem = replace(problem_of(error), detail=error.naming(_visible(request, error)))
        case RequestValidationError():
            problem = problem_of(RequestError(explain_faults(error.errors())))
        case _:
            path_was_named = getattr(request.state, "path_was_named", False)
            problem = problem_of(error, path_was_named=path_was_named)
    return problem.response(request.scope)
