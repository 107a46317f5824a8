"""Who gets in: nobody before the service is ready, and not more at once than it is meant for.

Here all requests count, those as well whose body is still arriving or whose answer is being taken. How many
are worked on at once is bounded by :class:`app.api.load.Work`, far lower, so that slow callers keep nobody
from being answered.

Health answers always, so that whoever watches the service sees why nothing else does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.api.problems import AGAIN, Problem, problem_of_status

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_GUARDED = "/v1/"


class Admission:
    """ASGI middleware in front of everything under ``/v1``.

    Args:
        app: what it guards.
        requests: that may be under way at one time.
    """

    def __init__(self, app: ASGIApp, requests: int) -> None:
        self._app = app
        self._requests = requests
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http" or not scope["path"].startswith(_GUARDED):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal.response(scope["state"]["request_id"])(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way -= 1

    def _refusal(self, scope: Scope) -> Problem | None:
        if scope["app"].state.runtime is None:
            return problem_of_status(503, "the service is starting or shutting down", headers=AGAIN)
        if self._under_way >= self._requests:
            detail = f"{self._requests} requests are under way already"
            return problem_of_status(429, detail, headers=AGAIN, limit=self._requests)
        return None
