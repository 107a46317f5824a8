"""Connections of the HTTP server: how many there may be, and that none of them waits for ever.

uvicorn closes a connection that is silent between two requests, but waits without end for the first request,
for the rest of a head of which some bytes have come, and for callers to take their answers. Bodies have a
deadline of their own, see :mod:`app.api.questions.bodies`.

Half of the file descriptors that a process may have are for connections, the others for files and for
storage. Where there are too many connections, the one that has waited longest for the head of a request is
closed. Fewer requests than connections may be under way (:func:`request_limit`), so there is always one that
gives way to somebody who asks for the service's health. uvicorn's ``limit_concurrency`` would refuse him.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit
from typing import ClassVar, Final, TypeAlias

import h11
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_Event: TypeAlias = h11.Event | type[h11.NEED_DATA | h11.PAUSED]

_PROGRESS_BYTES: Final = 1 << 16
"""Who takes fewer bytes of an answer in the time that there is takes none."""

_TCP_INFO: Final = struct.Struct("=52xI")
"""Linux' ``struct tcp_info``: milliseconds since the latest bytes came."""

_UNSENT_BYTES: Final = 1 << 18
_HEAD_BYTES: Final = 1 << 14
_LENGTHS: Final = {b"content-length", b"transfer-encoding"}

_DESCRIPTORS_SHARE: Final = 2
_SPARE_SHARE: Final = 8
_MOST_ACCEPTED: Final = 2_048
_ACCEPTED_SHARE: Final = 4
_UNBOUNDED: Final = 1 << 20
"""Where the system sets no limit."""


def raise_descriptor_limit() -> None:
    """Lets this process, and those that it starts, open as many files as its user may let it."""
    _, most = getrlimit(RLIMIT_NOFILE)
    # Some systems allow less than what they call the hard limit.
    with suppress(ValueError, OSError):
        setrlimit(RLIMIT_NOFILE, (most, most))


def connection_limit() -> int:
    """How many connections this process may have."""
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return (_UNBOUNDED if soft == RLIM_INFINITY else soft) // _DESCRIPTORS_SHARE


def request_limit() -> int:
    """Requests that may be under way, so that other connections are left."""
    limit = connection_limit()
    return limit - limit // _SPARE_SHARE


def accepted_at_once() -> int:
    """Connections that may be accepted before any of them is counted."""
    return min(connection_limit() // _ACCEPTED_SHARE, _MOST_ACCEPTED)


class _StrictConnection(h11.Connection):
    """HTTP/1.1 without requests that have both Content-Length and Transfer-Encoding.

    Such a one may end elsewhere for a proxy in front, which would take what follows for the request of
    another caller.
    """

    @override
    def next_event(self) -> _Event:
        event = super().next_event()
        if isinstance(event, h11.Request) and _LENGTHS.issubset(name for name, _ in event.headers):
            raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        return event


class PunctualProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, with a deadline for the head of every request and for the taking of every answer.

    An answer of which nothing is taken for ``untaken_seconds`` is broken off. Where all of them together hold
    more than ``untaken_bytes``, about, the one that was left for longest is. ``refuse_unread`` answers
    requests that waited for the event loop for too long. All three are members of the state that the
    application's lifespan gives.

    ``head_seconds``: from the connection's start, or from the first byte of a later request.
    ``patience_seconds``: in which no answer is broken off for others.
    ``unread_seconds``: in which the event loop looks at a request.
    """

    head_seconds: ClassVar[float] = 20.0
    patience_seconds: ClassVar[float] = 1.0
    unread_seconds: ClassVar[float] = 1.0

    # Of this process, in the order in which they began to wait; used by its event loop alone.
    _waiting: ClassVar[dict[PunctualProtocol, None]] = {}
    _untaken: ClassVar[dict[PunctualProtocol, float]] = {}

    _head_timer: asyncio.TimerHandle | None = None
    _untaken_timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        super().connection_made(transport)
        self.conn = _StrictConnection(h11.SERVER, _HEAD_BYTES)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family != getattr(socket, "AF_UNIX", None):
            # asyncio does so only for sockets that say they are TCP's, which those shared by workers do not.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                # Else the system takes megabytes for each caller who takes nothing.
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        self._expect_head()
        self._waiting[self] = None
        if len(self.connections) > connection_limit():
            eldest = next(iter(self._waiting))
            del self._waiting[eldest]
            eldest.transport.abort()

    @override
    def data_received(self, data: bytes) -> None:
        # One cycle per request; there is none before the first.
        last: RequestResponseCycle | None = self.cycle
        if last is None or last.response_complete:
            if self._refuses(data):
                return
            if self._head_timer is None:
                self._expect_head()
        super().data_received(data)
        if self.cycle is not last:
            self._stop_waiting()

    @override
    def on_response_complete(self) -> None:
        last = self.cycle
        super().on_response_complete()
        # Work for a caller who has gone ends after his connection.
        if self.cycle is last and self in self.connections:
            self._waiting[self] = None

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_looking()
        super().connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._untaken[self] = self.loop.time()
        self._look_later()
        limit = self.app_state.get("untaken_bytes", 1 << 28)
        while sum(connection.transport.get_write_buffer_size() for connection in self._untaken) > limit:
            eldest, since = next(iter(self._untaken.items()))
            if self.loop.time() - since < self.patience_seconds:
                return
            eldest._break_off()  # noqa: SLF001 - another of this class

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_looking()

    @override
    def timeout_keep_alive_handler(self) -> None:
        """Closes a silent connection, and does not wait for ever for the rest of an answer to be taken."""
        super().timeout_keep_alive_handler()
        if self._untaken_timer is None:
            self._look_later()

    def _refuses(self, head: bytes) -> bool:
        """Answers a request that lay unread for too long.

        Where more requests come than the event loop can parse, it reaches each only after its caller has
        timed out. A refusal costs a hundredth of an answer, which leaves time for those that have just come.
        """
        refuse: Callable[[bytes], bytes | None] | None = self.app_state.get("refuse_unread")
        connected = self.transport.get_extra_info("socket")
        if refuse is None or connected is None or sys.platform != "linux":
            return False
        try:
            told = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        except OSError:
            # The connection is gone, or is none of TCP.
            return False
        (milliseconds,) = _TCP_INFO.unpack(told)
        answer = refuse(head) if milliseconds >= self.unread_seconds * 1_000 else None
        if answer is None:
            return False
        self.transport.write(answer)
        self.transport.close()
        return True

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        self._waiting.pop(self, None)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _look_later(self) -> None:
        seconds = self.app_state.get("untaken_seconds", 30.0)
        size = self.transport.get_write_buffer_size()
        self._untaken_timer = self.loop.call_later(seconds, self._look, size)

    def _look(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < _PROGRESS_BYTES:
            self._break_off()
        else:
            self._look_later()

    def _break_off(self) -> None:
        self._stop_looking()
        self.transport.abort()

    def _stop_looking(self) -> None:
        self._untaken.pop(self, None)
        if self._untaken_timer is not None:
            self._untaken_timer.cancel()
            self._untaken_timer = None
