"""Authentication of callers, and the access that each route requires.

Open routes answer everybody. All others stand behind one of three gates:

- tokens: the secret of ``Authorization: Bearer`` names the caller, and a request without one gets 401;
- this machine: a service without tokens lets in callers of this machine only;
- none: the operator lets everybody in.

:data:`ACCESS` states the required access of every route, and it is checked before the route runs. A route
that is missing there is for admins only.
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

_RELEVANT: Final = frozenset({b"authorization", b"host", b"origin", b"sec-fetch-site"})
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_BEARER = re.compile(rb"bearer +([\x21-\x7e]{1,512}) *", re.IGNORECASE)
_REPEATED: Final = b","

_INDEX_FILES: Final = "/v1/{warehouse}/index-files"


class Authentication:
    """ASGI middleware that identifies callers, as ``caller`` in the state of the scope."""

    def __init__(self, app: ASGIApp, gate: Gate, is_open: Collection[str]) -> None:
        self._app = app
        self._gate = gate
        self._open = frozenset(is_open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"].removeprefix(scope.get("root_path", "")) in self._open:
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in _RELEVANT:
                headers[name] = headers[name] + _REPEATED + value if name in headers else value
        answer = _forgery(scope, headers) or self._gate(scope, headers)
        if isinstance(answer, Problem):
            await answer.response(scope)(scope, receive, send)
            return
        scope["state"]["caller"] = answer
        scope["state"]["token_name"] = answer.name
        await self._app(scope, receive, send)


def everybody(_scope: Scope, _headers: Headers) -> Caller:
    """Admit every caller: the gate of an operator who lets everybody in."""
    return EVERYBODY


def this_machine(scope: Scope, headers: Headers) -> Caller | Problem:
    """Admit callers of this machine: the gate of a service without tokens."""
    # Both ends must be loopback, whatever address the server listens on. A proxy that forwards for a remote
    # caller is refused, since the connection then has that caller as its client.
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
    # DNS rebinding: a page of another site reaches loopback under a name of its own.
    if not _names_this_machine(host):
        return problem_of_status(
            403,
            "this service has no tokens and answers to localhost only, not to the host of this request: its "
            "operator can set PAIMON_INDEX_TOKENS_FILE, or PAIMON_INDEX_AUTH=off to answer everybody",
        )
    return EVERYBODY


def tokens_of(file: TokenFile) -> Gate:
    """Return the gate of a service with tokens."""

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
    """Refuse a request that a browser sends for a page of another site. Return None for all others."""
    # Browsers do not show answers to reads to a page of another site.
    if scope["method"] in _SAFE_METHODS:
        return None
    # Browsers send Sec-Fetch-Site or, over plain HTTP and in older releases, Origin; other callers send
    # neither.
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
    """Return True for names that no other site can have: localhost, an address, or a name without a dot."""
    name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
    name = name.strip("[]").rstrip(".").lower()
    return "." not in name or name.endswith(".localhost") or ip_address(name) is not None


class Access(Enum):
    """Callers that an endpoint admits."""

    OPEN = auto()
    """Everybody."""
    DOCUMENTATION = auto()
    """Everybody or any token, as the operator has set for the documentation."""
    METRICS = auto()
    """Everybody or any token, as the operator has set for metrics."""
    TOKEN = auto()
    """Any token; the answer shows only what the token may see."""
    DATA = auto()
    """Tokens for the warehouse that the path names, and for the database, if it names one."""
    ADMIN = auto()
    """Admins."""


# The middleware checks these before the router runs.
_WITHOUT_CALLER: Final = frozenset({Access.OPEN, Access.DOCUMENTATION, Access.METRICS})

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
"""Required access, by method and path of the route."""


def open_paths(settings: Settings) -> frozenset[str]:
    """Return paths that need no token."""
    is_open = {Access.OPEN}
    if settings.docs_access == "open":
        is_open.add(Access.DOCUMENTATION)
    if settings.metrics_access == "open":
        is_open.add(Access.METRICS)
    return frozenset(route.partition(" ")[2] for route, access in ACCESS.items() if access in is_open)


async def authorise(request: Request) -> None:
    """Refuse callers without the required access. A dependency of all routes.

    A caller who may not use a warehouse or database gets 403 whether or not it exists. Raises ProblemError
    with 401 or 403.
    """
    access = ACCESS.get(f"{request.method} {request.scope['route'].path}", Access.ADMIN)
    if access in _WITHOUT_CALLER:
        return
    caller = await caller_of(request)
    if access is Access.DATA:
        places = request.path_params
        check_place(caller, places["warehouse"], places.get("database"))
    elif access is Access.ADMIN and caller.role is not Role.ADMIN:
        raise _forbidden(f"the token {caller.name!r} has the role {caller.role}, but this needs admin")


async def caller_of(request: Request) -> Caller:
    """Return the caller of a request."""
    caller: Caller | None = request.scope["state"].get("caller")
    if caller is None:
        raise ProblemError(
            problem_of_status(401, "a token is needed", headers={"WWW-Authenticate": "Bearer"})
        )
    return caller


def check_place(caller: Caller, warehouse: str, database: str | None) -> None:
    """Refuse a warehouse, or a database of it, that the caller may not use."""
    if not caller.may_use(warehouse):
        # The list holds the token's own grants and reveals nothing about existence.
        own = listed(sorted(caller.warehouses or ()))
        raise _forbidden(f"the token {caller.name!r} may not use warehouse {warehouse!r}; it may use {own}")
    if database is not None and not caller.may_use(warehouse, database):
        own = listed(sorted(caller.databases or ()))
        raise _forbidden(
            f"the token {caller.name!r} may not use database {database!r} of {warehouse!r}; it may use {own}"
        )


def check_path(caller: Caller, warehouse: str, path: str | None) -> None:
    """Refuse a file outside the caller's databases. ``path`` is None for other content."""
    if caller.databases is None or path is None:
        return
    directory = path.partition("/")[0]
    if not directory.endswith(DATABASE_SUFFIX):
        raise _forbidden(f"the token {caller.name!r} may use files of its databases only, not {path!r}")
    check_place(caller, warehouse, directory.removesuffix(DATABASE_SUFFIX))


def _forbidden(detail: str) -> ProblemError:
    return ProblemError(problem_of_status(403, detail))


CurrentCaller = Annotated[Caller, Depends(caller_of)]
