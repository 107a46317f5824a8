"""Who gets in: nobody before the service is ready, and not more at once than it is meant for.

Health answers always, so that whoever watches the service sees why nothing else does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.api.problems import Problem, problem_of_status

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_GUARDED = "/v1/"


class Admission:
    """ASGI middleware in front of everything under ``/v1``.

    Args:
        app: what it guards.
        concurrency: requests that may be under way at one time.
    """

    def __init__(self, app: ASGIApp, concurrency: int) -> None:
        self._app = app
        self._concurrency = concurrency
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
        again = {"Retry-After": "1"}
        if scope["app"].state.runtime is None:
            return problem_of_status(503, "the service is starting or shutting down", headers=again)
        if self._under_way >= self._concurrency:
            return problem_of_status(
                429,
                f"{self._concurrency} requests are under way already",
                headers=again,
                limit=self._concurrency,
            )
        return None
