"""Who asks, and what a caller may do: settled of every request before it counts for anything.

What is open answers everybody. For all else there is one of three gates:

- tokens: the secret of ``Authorization: Bearer`` names the caller, and without one the answer is 401;
- this machine: without tokens, callers of this machine alone get in;
- none: the operator has said that everybody may ask.

What a caller may do is stated here once for every route, and settled before the route does anything. A route
that is missing here is for admins only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from fastapi import Depends
from starlette.requests import Request

from app.access import EVERYBODY, Caller, Role, TokenFile, ip_address
from app.api.explorer import PATHS as EXPLORER_PATHS
from app.api.http.paths import DATABASES, ICEBERG, ICEBERG_ROUTES, TABLE, TABLES
from app.api.http.problems import Problem, ProblemError, problem_of_status
from app.settings import Settings
from app.suggestions import listed
from app.table import DATABASE_SUFFIX

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


Headers: TypeAlias = "Mapping[bytes, bytes]"
Gate: TypeAlias = "Callable[[Scope, Headers], Caller | Problem]"

_LOOKED_AT: Final = frozenset({b"authorization", b"host", b"origin", b"sec-fetch-site"})
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_BEARER = re.compile(rb"bearer +([\x21-\x7e]{1,512}) *", re.IGNORECASE)
_TWICE: Final = b","


class Authentication:
    """ASGI middleware that finds out who asks, as ``caller`` in the state of the scope."""

    def __init__(self, app: ASGIApp, gate: Gate, is_open: Collection[str]) -> None:
        self._app = app
        self._gate = gate
        self._open = frozenset(is_open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http" or scope["path"].removeprefix(scope.get("root_path", "")) in self._open:
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in _LOOKED_AT:
                headers[name] = headers[name] + _TWICE + value if name in headers else value
        answer = _forgery(scope, headers) or self._gate(scope, headers)
        if isinstance(answer, Problem):
            await answer.response(scope)(scope, receive, send)
            return
        scope["state"]["caller"] = answer
        scope["state"]["token_name"] = answer.name
        await self._app(scope, receive, send)


def everybody(_scope: Scope, _headers: Headers) -> Caller:
    """The gate of an operator who has said that everybody may ask."""
    return EVERYBODY


def this_machine(scope: Scope, headers: Headers) -> Caller | Problem:
    """The gate of a service without tokens: callers of this machine, as the connection and the host tell.

    Both ends of the connection have to be loopback, whatever address the server listens on, and a proxy that
    forwards for somebody else does not get in. The host keeps out pages of other sites that a browser of this
    machine was led to by a name that resolves to it (DNS rebinding).
    """
    client, server = (scope.get(end) for end in ("client", "server"))
    client_address = ip_address(str(client[0])) if client else None
    server_address = ip_address(str(server[0])) if server else None
    is_here = client_address is not None and client_address.is_loopback
    if not is_here or (server_address is not None and not server_address.is_loopback):
        return problem_of_status(
            403,
            "this service has no tokens and answers callers of its own machine only: its operator can set "
            "PAIMON_INDEX_TOKENS_FILE, or PAIMON_INDEX_AUTH=off to answer everybody",
        )
    host = headers.get(b"host", b"").decode("latin-1")
    if not _names_this_machine(host):
        return problem_of_status(
            403,
            "this service has no tokens and answers to localhost only, not to the host of this request: its "
            "operator can set PAIMON_INDEX_TOKENS_FILE, or PAIMON_INDEX_AUTH=off to answer everybody",
        )
    return EVERYBODY


def tokens_of(file: TokenFile) -> Gate:
    """The gate of a service with tokens."""

    def gate(_scope: Scope, headers: Headers) -> Caller | Problem:
        given = headers.get(b"authorization")
        if given is None:
            return _unauthorized("a token is needed: send Authorization: Bearer SECRET", None)
        secret = _BEARER.fullmatch(given)
        if secret is None:
            return _unauthorized(
                "the header Authorization is not of the form Bearer SECRET: the word Bearer, a blank and the "
                "secret of one token",
                "invalid_token",
            )
        caller = file.find(secret[1])
        if caller is None:
            return _unauthorized("the token is not known here", "invalid_token")
        if caller.is_expired:
            return _unauthorized(f"the token {caller.name!r} has expired", "invalid_token")
        return caller

    return gate


def _unauthorized(detail: str, error: str | None) -> Problem:
    challenge = 'Bearer realm="paimon-index"' + (f', error="{error}"' if error else "")
    return problem_of_status(401, detail, headers={"WWW-Authenticate": challenge})


def _forgery(scope: Scope, headers: Headers) -> Problem | None:
    """Why a request that a browser sends for a page of another site is refused; None for all others.

    Browsers tell it by ``Sec-Fetch-Site`` or, over plain HTTP and in older ones, by ``Origin``; other callers
    send neither. What only reads needs no such care: a page of another site is not given the answer.
    """
    if scope["method"] in _SAFE_METHODS:
        return None
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        is_own = site in (b"same-origin", b"none")
    else:
        origin = headers.get(b"origin")
        is_own = origin is None or origin.partition(b"://")[2] == headers.get(b"host")
    if is_own:
        return None
    return problem_of_status(403, "a page of another site may not ask this service through a browser")


def _names_this_machine(host: str) -> bool:
    """Whether no other site can have this name: localhost, a number, or a name without a dot."""
    name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
    name = name.strip("[]").rstrip(".").lower()
    return "." not in name or name.endswith(".localhost") or ip_address(name) is not None


class Access(Enum):
    """Who may ask an endpoint."""

    OPEN = auto()
    """Everybody."""
    DOCUMENTATION = auto()
    """Everybody, or whoever has a token, as the operator has set for the documentation."""
    METRICS = auto()
    """Everybody, or whoever has a token, as the operator has set for metrics."""
    TOKEN = auto()
    """Whoever has a token; the answer shows only what it may see."""
    DATA = auto()
    """Tokens for the warehouse that the path names, and for the database, if it names one."""
    ADMIN = auto()
    """Admins."""


# Whether these need a token is settled before there is a route.
_WITHOUT_CALLER: Final = frozenset({Access.OPEN, Access.DOCUMENTATION, Access.METRICS})
_INDEX_FILES: Final = "/v1/{warehouse}/index-files"

ACCESS: Final[Mapping[str, Access]] = {
    "GET /": Access.OPEN,
    "GET /health/live": Access.OPEN,
    "GET /health/ready": Access.OPEN,
    **{f"GET {path}": Access.OPEN for path in EXPLORER_PATHS},
    "GET /docs": Access.DOCUMENTATION,
    "GET /docs/start.js": Access.DOCUMENTATION,
    "GET /docs/swagger-ui-bundle.js": Access.DOCUMENTATION,
    "GET /docs/swagger-ui.css": Access.DOCUMENTATION,
    "GET /openapi.json": Access.DOCUMENTATION,
    "GET /metrics": Access.METRICS,
    "GET /v1": Access.TOKEN,
    "GET /v1/config": Access.TOKEN,
    "GET /v1/namespaces": Access.TOKEN,
    "GET /v1/cache": Access.TOKEN,
    "POST /v1/cache/clear": Access.ADMIN,
    "GET /v1/{warehouse}": Access.DATA,
    f"GET {DATABASES}": Access.DATA,
    f"GET {TABLES}": Access.DATA,
    f"GET {TABLE}": Access.DATA,
    f"GET {TABLE}/schemas": Access.DATA,
    f"GET {TABLE}/schemas/{{schema_id}}": Access.DATA,
    f"GET {TABLE}/snapshots": Access.DATA,
    f"GET {TABLE}/tags": Access.DATA,
    f"GET {TABLE}/branches": Access.DATA,
    f"GET {TABLE}/index-files": Access.DATA,
    f"GET {TABLE}/advice": Access.DATA,
    f"POST {TABLE}/what-if": Access.DATA,
    f"POST {TABLE}/plan": Access.DATA,
    f"POST {TABLE}/pruned-snapshot": Access.DATA,
    f"POST {TABLE}/deletions": Access.DATA,
    f"POST {TABLE}/changes": Access.DATA,
    f"POST {TABLE}/aggregate": Access.DATA,
    f"GET {TABLE}/buckets": Access.DATA,
    f"POST {TABLE}/buckets/lookup": Access.DATA,
    f"POST {TABLE}/buckets/assign": Access.DATA,
    f"POST {_INDEX_FILES}/evaluate": Access.DATA,
    f"POST {_INDEX_FILES}/inspect": Access.DATA,
    f"GET {ICEBERG}/v1/config": Access.TOKEN,
    **dict.fromkeys(ICEBERG_ROUTES, Access.DATA),
}
"""Who may ask, by method and path of the route; those of Iceberg are there where the operator has set it."""


def open_paths(settings: Settings) -> frozenset[str]:
    """The paths that everybody may ask for."""
    is_open = {Access.OPEN}
    if settings.docs_access == "open":
        is_open.add(Access.DOCUMENTATION)
    if settings.metrics_access == "open":
        is_open.add(Access.METRICS)
    return frozenset(route.partition(" ")[2] for route, access in ACCESS.items() if access in is_open)


async def authorise(request: Request) -> None:
    """Refuses what the caller may not do; a dependency of the application, and so of all its routes.

    Whether a warehouse or database exists makes no difference to a caller who may not use it.

    Raises ProblemError: 401 or 403.
    """
    access = ACCESS.get(f"{request.method} {request.scope['route'].path}", Access.ADMIN)
    if access in _WITHOUT_CALLER:
        return
    caller = await caller_of(request)
    if access is Access.DATA:
        places = request.path_params
        check_place(caller, places["warehouse"], places.get("database"))
    elif access is Access.ADMIN and caller.role is not Role.ADMIN:
        raise _forbidden(f"the token {caller.name!r} has the role {caller.role}, and this needs admin")


async def caller_of(request: Request) -> Caller:
    """Who asks."""
    caller: Caller | None = request.scope["state"].get("caller")
    if caller is None:
        raise ProblemError(
            problem_of_status(401, "a token is needed", headers={"WWW-Authenticate": "Bearer"})
        )
    return caller


def check_place(caller: Caller, warehouse: str, database: str | None) -> None:
    """Refuses a warehouse, or a database of it, that the caller may not use."""
    if not caller.may_use(warehouse):
        # What a token may use is its own; whether it is there is not looked at.
        own = listed(sorted(caller.warehouses or ()))
        raise _forbidden(f"the token {caller.name!r} may not use warehouse {warehouse!r}; it may use {own}")
    if database is not None and not caller.may_use(warehouse, database):
        own = listed(sorted(caller.databases or ()))
        raise _forbidden(
            f"the token {caller.name!r} may not use database {database!r} of {warehouse!r}; it may use {own}"
        )


def check_path(caller: Caller, warehouse: str, path: str | None) -> None:
    """Refuses a file outside of the databases that the caller may use; None is no file of the warehouse."""
    if caller.databases is None or path is None:
        return
    directory = path.partition("/")[0]
    if not directory.endswith(DATABASE_SUFFIX):
        raise _forbidden(f"the token {caller.name!r} may use files of its databases only, not {path!r}")
    check_place(caller, warehouse, directory.removesuffix(DATABASE_SUFFIX))


def _forbidden(detail: str) -> ProblemError:
    return ProblemError(problem_of_status(403, detail))


Asking = Annotated[Caller, Depends(caller_of)]
