"""The outermost layer of the application: every request is accounted for, whatever becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.telemetry.service import Telemetry

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Accounting:
    """ASGI middleware; what is inside finds the request's account in ``scope["state"]["observer"]``.

    Args:
        app: what answers.
        telemetry: takes the accounts.
    """

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        account = self._telemetry.begin(scope)
        scope["state"]["observer"] = account

        async def send_noted(message: Message) -> None:
            is_body = message["type"] == "http.response.body"
            if not is_body:
                account.status = message.get("status", account.status)
            await send(message)
            if is_body:
                account.answer_bytes += len(message.get("body", b""))
                account.is_complete = not message.get("more_body", False)

        try:
            await self._app(scope, receive, send_noted)
        finally:
            self._telemetry.end(account)
