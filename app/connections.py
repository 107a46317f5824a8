"""Connections of the HTTP server that do not wait for ever.

uvicorn closes a connection that is silent between two requests, but waits without end for the first request,
and for the rest of a head of which some bytes have come. Bodies have a deadline of their own, see
:mod:`app.api.json_body`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

if TYPE_CHECKING:
    import asyncio


class PunctualProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, with a deadline for the head of every request.

    Attributes:
        head_seconds: from the connection's start, or from the first byte of a later request.
    """

    head_seconds: ClassVar[float] = 20.0

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Begins to wait at the first byte of a head, and ends it with the last."""
        # One cycle per request; there is none before the first.
        last: RequestResponseCycle | None = self.cycle
        if self._head_timer is None and (last is None or last.response_complete):
            self._expect_head()
        super().data_received(data)
        if self.cycle is not last:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
