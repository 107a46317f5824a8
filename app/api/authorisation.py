"""What a caller may do: stated once for every route, and settled before the route does anything.

A route that is missing here is for admins only.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Annotated, Final

from fastapi import Depends
from starlette.requests import Request

from app.access import Caller, Role
from app.api.explorer import PATHS as EXPLORER_PATHS
from app.api.paths import DATABASES, TABLE, TABLES
from app.api.problems import ProblemError, problem_of_status
from app.settings import Settings
from app.suggestions import listed
from app.table.table import DATABASE_SUFFIX


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
    "GET /v1/config": Access.TOKEN,
    "GET /v1/cache": Access.TOKEN,
    "POST /v1/cache/clear": Access.ADMIN,
    f"GET {DATABASES}": Access.DATA,
    f"GET {TABLES}": Access.DATA,
    f"GET {TABLE}": Access.DATA,
    f"GET {TABLE}/schemas": Access.DATA,
    f"GET {TABLE}/schemas/{{schema_id}}": Access.DATA,
    f"GET {TABLE}/snapshots": Access.DATA,
    f"GET {TABLE}/tags": Access.DATA,
    f"GET {TABLE}/branches": Access.DATA,
    f"GET {TABLE}/index-files": Access.DATA,
    f"POST {TABLE}/plan": Access.DATA,
    f"POST {TABLE}/pruned-snapshot": Access.DATA,
    f"POST {TABLE}/deletions": Access.DATA,
    f"GET {TABLE}/buckets": Access.DATA,
    f"POST {TABLE}/buckets/lookup": Access.DATA,
    f"POST {TABLE}/buckets/assign": Access.DATA,
    f"POST {_INDEX_FILES}/evaluate": Access.DATA,
    f"POST {_INDEX_FILES}/inspect": Access.DATA,
}
"""Who may ask, by method and path of the route."""


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

    Raises:
        ProblemError: 401 or 403.
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
    """Who asks.

    Raises:
        ProblemError: 401, nobody whom the service knows.
    """
    caller: Caller | None = request.scope["state"].get("caller")
    if caller is None:
        raise ProblemError(
            problem_of_status(401, "a token is needed", headers={"WWW-Authenticate": "Bearer"})
        )
    return caller


def check_place(caller: Caller, warehouse: str, database: str | None) -> None:
    """Refuses a warehouse, or a database of it, that the caller may not use.

    Raises:
        ProblemError: 403.
    """
    if not caller.may_use(warehouse):
        # What a token may use is its own; whether it is there is not looked at.
        may_use = listed(sorted(caller.warehouses or ()))
        raise _forbidden(f"the token {caller.name!r} may not use warehouse {warehouse!r}, but {may_use}")
    if database is not None and not caller.may_use(warehouse, database):
        may_use = listed(sorted(caller.databases or ()))
        raise _forbidden(
            f"the token {caller.name!r} may not use database {database!r} of {warehouse!r}, but {may_use}"
        )


def check_path(caller: Caller, warehouse: str, path: str | None) -> None:
    """Refuses a file outside of the databases that the caller may use; None is no file of the warehouse.

    Raises:
        ProblemError: 403.
    """
    if caller.databases is None or path is None:
        return
    directory = path.partition("/")[0]
    if not directory.endswith(DATABASE_SUFFIX):
        raise _forbidden(f"the token {caller.name!r} may use files of its databases only, not {path!r}")
    check_place(caller, warehouse, directory.removesuffix(DATABASE_SUFFIX))


def _forbidden(detail: str) -> ProblemError:
    return ProblemError(problem_of_status(403, detail))


Asking = Annotated[Caller, Depends(caller_of)]
