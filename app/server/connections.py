"""Connections of the HTTP server: how many there may be, and that none of them waits for ever.

uvicorn closes a connection that is silent between two requests, but waits without end for the first request,
for the rest of a head of which some bytes have come, and for callers to take their answers. Bodies have a
deadline of their own, see :mod:`app.api.bodies`.

Half of the file descriptors that a process may have are for connections, the others for files and for
storage. Connections of which nobody waits for an answer give way to newer ones:

======== ================================== ==================================================================
kind     what it waits for                  when the eldest is closed
======== ================================== ==================================================================
silent   the head of its first request      where an eighth of all are silent and from one address, and where
                                            there are too many connections
idle     the next request, after an answer  where there are too many connections, and none is silent
======== ================================== ==================================================================

Fewer requests than connections may be under way (:attr:`OpenConnections.requests`), so there is always one
that gives way to somebody who asks for the service's health.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import sys
from asyncio.trsock import TransportSocket
from contextlib import suppress
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit
from typing import ClassVar, Final, Protocol, TypeAlias

import h11
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_Event: TypeAlias = h11.Event | type[h11.NEED_DATA | h11.PAUSED]

_PROGRESS_BYTES: Final = 1 << 16
"""Who takes fewer bytes of an answer in the time that there is takes none."""

_UNSENT_BYTES: Final = 1 << 18
_PATIENCE_SECONDS: Final = 1.0

_TELLS_STATE: Final = sys.platform == "linux"
_ENDED_STATES: Final = (7, 8)
"""``TCP_CLOSE`` and ``TCP_CLOSE_WAIT``, as Linux numbers the states of a connection."""

_TCP_INFO: Final = struct.Struct("=B51xI")
"""Of ``struct tcp_info``: the state, and the milliseconds since data came."""

_BODY: Final = (
    b'{"type":"urn:paimon-index:error:too-many-requests","title":"Too Many Requests","status":429,"detail":'
    b'"more requests come than this process can look at: ask again in a moment","instance":""}'
)
"""As :mod:`app.api.problems` writes problems."""
_REFUSAL: Final = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)
_GUARDED: Final = (b" /v1/", b" /iceberg/")
"""As in :mod:`app.api.admission`: health answers always."""

_METHOD_BYTES: Final = 16

_HEAD_BYTES: Final = 1 << 14
_LENGTHS: Final = {b"content-length", b"transfer-encoding"}

_DESCRIPTORS_SHARE: Final = 2
_SILENT_SHARE: Final = 8
_SPARE_SHARE: Final = 8
_MOST_ACCEPTED: Final = 2_048
_ACCEPTED_SHARE: Final = 4
_UNBOUNDED: Final = 1 << 20
"""Where the system sets no limit."""

_log = logging.getLogger("paimon_index")


def connection_limit() -> int:
    """How many connections this process may have."""
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return (_UNBOUNDED if soft == RLIM_INFINITY else soft) // _DESCRIPTORS_SHARE


class Connection(Protocol):
    """What is known of a connection here."""

    @property
    def client(self) -> tuple[str, int] | None:
        """None for a local socket."""

    @property
    def transport(self) -> asyncio.Transport:
        """What it is closed by."""


class OpenConnections:
    """The connections that are open, of which there may be ``limit``; used by the event loop alone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._all: set[Connection] = set()
        # In the order in which they began to wait; the values are not used.
        self._silent: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}
        self._silent_of: dict[str, dict[Connection, None]] = {}

    @property
    def requests(self) -> int:
        """Requests that may be under way, so that other connections are left."""
        return self.limit - self.limit // _SPARE_SHARE

    @property
    def accepted_at_once(self) -> int:
        """Connections that may be accepted before any of them is counted."""
        return min(self.limit // _ACCEPTED_SHARE, _MOST_ACCEPTED)

    def open(self, connection: Connection) -> None:
        """A new connection, silent at first."""
        self._all.add(connection)
        self._silent[connection] = None
        address = connection.client[0] if connection.client else ""
        # Connections without an address are those of a local socket.
        of_address = self._silent_of.setdefault(address, {})
        of_address[connection] = None
        if address and len(of_address) > max(1, self.limit // _SILENT_SHARE):
            self._close(next(iter(of_address)))
        if len(self._all) > self.limit:
            # The newest of those who are silent is this one, which has had no time to speak.
            eldest = next(iter(self._silent))
            self._close(eldest if eldest is not connection else next(iter(self._idle), connection))

    def ask(self, connection: Connection) -> None:
        """The head of a request has come: the connection is neither silent nor idle."""
        self._idle.pop(connection, None)
        if connection in self._silent:
            del self._silent[connection]
            address = connection.client[0] if connection.client else ""
            of_address = self._silent_of[address]
            del of_address[connection]
            if not of_address:
                del self._silent_of[address]

    def rest(self, connection: Connection) -> None:
        """An answer was given: the connection is idle."""
        if connection in self._all:
            self._idle[connection] = None

    def close(self, connection: Connection) -> None:
        """The connection is closed."""
        self._all.discard(connection)
        self.ask(connection)

    def _close(self, connection: Connection) -> None:
        self.close(connection)
        connection.transport.abort()


OPEN_CONNECTIONS: Final = OpenConnections(connection_limit())
"""Those of this process."""


def raise_descriptor_limit() -> None:
    """Lets this process, and those that it starts, open as many files as its user may let it."""
    _, most = getrlimit(RLIMIT_NOFILE)
    # Some systems allow less than what they call the hard limit.
    with suppress(ValueError, OSError):
        setrlimit(RLIMIT_NOFILE, (most, most))
    OPEN_CONNECTIONS.limit = connection_limit()


class UntakenAnswers:
    """Answers that were made and that their callers do not take as fast as they come.

    An answer of which nothing is taken for ``seconds`` is broken off. Where all of them together hold more
    than ``limit`` bytes, about, the one that was left for longest is.
    """

    def __init__(self) -> None:
        self.seconds = 30.0
        self.limit = 256 << 20
        self._waiting: dict[PunctualProtocol, tuple[float, asyncio.TimerHandle]] = {}

    @property
    def unsent_bytes(self) -> int:
        """Bytes of all answers that wait."""
        return sum(each.transport.get_write_buffer_size() for each in list(self._waiting))

    def add(self, connection: PunctualProtocol) -> None:
        """The caller of ``connection`` takes its answer too slowly for now."""
        loop, size = connection.loop, connection.transport.get_write_buffer_size()
        timer = loop.call_later(self.seconds, self._look, connection, size)
        self._waiting[connection] = loop.time(), timer
        while self._waiting and self.unsent_bytes > self.limit:
            oldest, (since, _) = next(iter(self._waiting.items()))
            if loop.time() - since < _PATIENCE_SECONDS:
                return
            self._break_off(oldest)

    def remove(self, connection: PunctualProtocol) -> None:
        """The answer was taken, or the connection is gone."""
        _, timer = self._waiting.pop(connection, (0.0, None))
        if timer is not None:
            timer.cancel()

    def _look(self, connection: PunctualProtocol, before: int) -> None:
        left = connection.transport.get_write_buffer_size()
        if before - left < _PROGRESS_BYTES:
            self._break_off(connection)
            return
        timer = connection.loop.call_later(self.seconds, self._look, connection, left)
        self._waiting[connection] = connection.loop.time(), timer

    def _break_off(self, connection: PunctualProtocol) -> None:
        self.remove(connection)
        connection.transport.abort()


UNTAKEN_ANSWERS: Final = UntakenAnswers()
"""Those of this process; used by its event loop alone."""


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

    ``head_seconds``: from the connection's start, or from the first byte of a later request.
    ``unread_seconds``: a request that nobody looked at for so long is refused: more come than the event loop
    can take.
    """

    head_seconds: ClassVar[float] = 20.0
    unread_seconds: ClassVar[float] = 1.0

    _head_timer: asyncio.TimerHandle | None = None
    _socket: TransportSocket | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        super().connection_made(transport)
        self.conn = _StrictConnection(h11.SERVER, _HEAD_BYTES)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family != getattr(socket, "AF_UNIX", None):
            self._socket = connected
            # asyncio does so only for sockets that say they are TCP's, which those shared by workers do not.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                # Else the system takes megabytes for each caller who takes nothing.
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        self._expect_head()
        OPEN_CONNECTIONS.open(self)

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_left_out(data):
            return
        # One cycle per request; there is none before the first.
        last: RequestResponseCycle | None = self.cycle
        if self._head_timer is None and (last is None or last.response_complete):
            self._expect_head()
        super().data_received(data)
        if self.cycle is not last:
            self._stop_waiting()
            if not self.cycle.response_complete:
                OPEN_CONNECTIONS.ask(self)

    @override
    def on_response_complete(self) -> None:
        last = self.cycle
        super().on_response_complete()
        if self.cycle is last:
            OPEN_CONNECTIONS.rest(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        UNTAKEN_ANSWERS.remove(self)
        OPEN_CONNECTIONS.close(self)
        super().connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        UNTAKEN_ANSWERS.add(self)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        UNTAKEN_ANSWERS.remove(self)

    @override
    def timeout_keep_alive_handler(self) -> None:
        """Closes a silent connection, and does not wait for ever for the rest of an answer to be taken."""
        super().timeout_keep_alive_handler()
        self.loop.call_later(UNTAKEN_ANSWERS.seconds, self.transport.abort)

    def _is_left_out(self, data: bytes) -> bool:
        """Whether a request is not looked at: its caller has gone, or it waited for too long.

        Under overload each would be looked at when its caller is about to give up, and uvicorn learns of that
        only after it has begun to answer. Leaving one out costs a hundredth of an answer.
        """
        last: RequestResponseCycle | None = self.cycle
        is_first_piece = last is None or last.response_complete
        is_guarded = is_first_piece and any(path in data[:_METHOD_BYTES] for path in _GUARDED)
        if not _TELLS_STATE or self._socket is None or not is_guarded:
            return False
        try:
            tcp_info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        except OSError:
            return False
        state, unread = _TCP_INFO.unpack(tcp_info)
        if state in _ENDED_STATES:
            self.transport.abort()
            return True
        if unread < self.unread_seconds * 1_000:
            return False
        _log.warning(
            "requests that waited for %g s are refused: more come than can be read", self.unread_seconds
        )
        self.transport.write(_REFUSAL)
        self.transport.close()
        return True

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
