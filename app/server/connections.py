"""Bounds the connections of the HTTP server, and the time that each may wait.

uvicorn closes connections that are silent between two requests, but waits without limit for the first
request, for the rest of a head, and for callers to take their answers. :mod:`app.api.questions.bodies` limits
bodies.

Connections get half of the process's file descriptors, files and storage the rest. When there are too many,
the one that has waited longest for a head is closed. :func:`request_limit` is below the number of
connections, so one can always give way to a health check, which uvicorn's ``limit_concurrency`` would refuse.
"""

from __future__ import annotations

import asyncio
import re
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

# A caller who reads fewer bytes of an answer within its deadline counts as reading none.
_PROGRESS_BYTES: Final = 1 << 16

# Linux's ``struct tcp_info``: milliseconds since the latest bytes arrived.
_TCP_INFO: Final = struct.Struct("=52xI")

_UNSENT_BYTES: Final = 1 << 18
_HEAD_BYTES: Final = 1 << 14
_LENGTHS: Final = {b"content-length", b"transfer-encoding"}
# Within a head: LF without CR, or a line that continues the one before.
_LENIENT: Final = re.compile(rb"(?<!\r)\n|\n[ \t]")
_ABSOLUTE: Final = re.compile(rb"https?://([^/?]+)(.*)", re.IGNORECASE)

_DESCRIPTORS_SHARE: Final = 2
_SPARE_SHARE: Final = 8
_MOST_ACCEPTED: Final = 2_048
_ACCEPTED_SHARE: Final = 4
# Descriptors assumed if the system sets no limit.
_UNBOUNDED: Final = 1 << 20


def raise_descriptor_limit() -> None:
    """Raise the limit of open files to the user's maximum, also for child processes."""
    _, most = getrlimit(RLIMIT_NOFILE)
    # Some systems allow less than what they call the hard limit.
    with suppress(ValueError, OSError):
        setrlimit(RLIMIT_NOFILE, (most, most))


def connection_limit() -> int:
    """Return the most connections of this process."""
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return (_UNBOUNDED if soft == RLIM_INFINITY else soft) // _DESCRIPTORS_SHARE


def request_limit() -> int:
    """Return the most requests in flight, which leave other connections free."""
    limit = connection_limit()
    return limit - limit // _SPARE_SHARE


def accepted_at_once() -> int:
    """Return the backlog: connections accepted before any is counted."""
    return min(connection_limit() // _ACCEPTED_SHARE, _MOST_ACCEPTED)


class _StrictConnection(h11.Connection):
    """HTTP/1.1 that refuses requests that others may read differently.

    Such requests have Content-Length together with Transfer-Encoding, lines that end without CR, folded
    headers, or another major version.
    """

    @override
    def next_event(self) -> _Event:
        head = b""
        if self.their_state is h11.IDLE:
            head = self.trailing_data[0].partition(b"\r\n\r\n")[0]
        event = super().next_event()
        if not isinstance(event, h11.Request):
            return event
        # A proxy may see another end of such a request, and take the rest for another caller's request.
        if _LENGTHS.issubset(name for name, _ in event.headers):
            raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        if _LENIENT.search(head) or not event.http_version.startswith(b"1."):
            raise h11.RemoteProtocolError("not HTTP/1.1 with lines that end in CRLF")
        return _in_origin_form(event)


def _in_origin_form(request: h11.Request) -> h11.Request:
    """Take the host out of an absolute target. It wins over the header."""
    if (absolute := _ABSOLUTE.fullmatch(request.target)) is None:
        return request
    host, target = absolute.groups()
    others = [(name, value) for name, value in request.headers if name != b"host"]
    return h11.Request(
        method=request.method,
        target=target if target.startswith(b"/") else b"/" + target,
        headers=[(b"host", host), *others],
        http_version=request.http_version,
    )


class PunctualProtocol(H11Protocol):
    """uvicorn's HTTP/1.1, with deadlines for the head of every request and for the taking of every answer.

    The state of the application's lifespan has three settings. An answer of which nothing is taken for
    ``untaken_seconds`` is aborted. If all untaken answers together exceed about ``untaken_bytes``, the oldest
    is aborted. ``refuse_unread`` answers requests that waited for the event loop for too long.

    ``head_seconds``: time for a head, from the connection's start or a later request's first byte.
    ``patience_seconds``: age below which no answer is aborted for others. ``unread_seconds``: age at which an
    unread request is refused. ``few_requests``: requests in flight, or unread for too long in a row, up to
    which none is refused.
    """

    head_seconds: ClassVar[float] = 20.0
    patience_seconds: ClassVar[float] = 1.0
    unread_seconds: ClassVar[float] = 1.0
    few_requests: ClassVar[int] = 64

    # Connections of this process, longest wait first; only its event loop uses them.
    _waiting: ClassVar[dict[PunctualProtocol, None]] = {}
    _untaken: ClassVar[dict[PunctualProtocol, float]] = {}
    _old_in_a_row: ClassVar[int] = 0

    _head_timer: asyncio.TimerHandle | None = None
    _untaken_timer: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        super().connection_made(transport)
        self.conn = _StrictConnection(h11.SERVER, _HEAD_BYTES)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family != getattr(socket, "AF_UNIX", None):
            # asyncio sets this only for sockets marked as TCP, which those shared by workers are not.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                # Otherwise the system buffers megabytes for each caller who takes nothing.
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
        # Work for a caller who left ends after the connection, which must not be listed again.
        if self.cycle is last and self in self.connections:
            self._waiting[self] = None

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_checking()
        super().connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._untaken[self] = self.loop.time()
        self._check_later()
        limit = self.app_state.get("untaken_bytes", 1 << 28)
        while sum(connection.transport.get_write_buffer_size() for connection in self._untaken) > limit:
            eldest, since = next(iter(self._untaken.items()))
            if self.loop.time() - since < self.patience_seconds:
                return
            eldest._abort()  # noqa: SLF001 - another of this class

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_checking()

    @override
    def timeout_keep_alive_handler(self) -> None:
        """Close a silent connection, and set a deadline for the rest of its answer."""
        super().timeout_keep_alive_handler()
        if self._untaken_timer is None:
            self._check_later()

    def _refuses(self, head: bytes) -> bool:
        """Answer a request that lay unread for too long.

        An overloaded event loop reaches each request only after its caller has timed out. A refusal costs a
        hundredth of an answer, which leaves time for requests that have just come.
        """
        refuse: Callable[[bytes], bytes | None] | None = self.app_state.get("refuse_unread")
        connected = self.transport.get_extra_info("socket")
        if refuse is None or connected is None or sys.platform != "linux":
            return False
        try:
            info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        except OSError:
            # The connection is closed, or not TCP.
            return False
        (milliseconds,) = _TCP_INFO.unpack(info)
        is_old = milliseconds >= self.unread_seconds * 1_000
        PunctualProtocol._old_in_a_row = self._old_in_a_row + 1 if is_old else 0
        # One long stall makes requests old, too, but the few that came during it are soon read.
        is_refused = is_old and max(len(self.tasks), self._old_in_a_row) > self.few_requests
        answer = refuse(head) if is_refused else None
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

    def _check_later(self) -> None:
        seconds = self.app_state.get("untaken_seconds", 30.0)
        size = self.transport.get_write_buffer_size()
        self._untaken_timer = self.loop.call_later(seconds, self._check_progress, size)

    def _check_progress(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < _PROGRESS_BYTES:
            self._abort()
        else:
            self._check_later()

    def _abort(self) -> None:
        self._stop_checking()
        self.transport.abort()

    def _stop_checking(self) -> None:
        self._untaken.pop(self, None)
        if self._untaken_timer is not None:
            self._untaken_timer.cancel()
            self._untaken_timer = None
