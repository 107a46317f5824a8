"""Connections of a process, bounded by its file descriptors, so that storage and health have some, too.

Half of the descriptors that a process may have are for connections, the others for files and for storage.
Connections of which nobody waits for an answer give way to newer ones:

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
from contextlib import suppress
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Final, Protocol

_SHARE: Final = 2
_SILENT_SHARE: Final = 8
_SPARE_SHARE: Final = 8
_MOST_ACCEPTED: Final = 2_048
_ACCEPTED_SHARE: Final = 4
_UNBOUNDED: Final = 1 << 20
"""Where the system sets no limit."""


def connection_limit() -> int:
    """How many connections this process may have."""
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return (_UNBOUNDED if soft == RLIM_INFINITY else soft) // _SHARE


class Connection(Protocol):
    """What is known of a connection here."""

    @property
    def client(self) -> tuple[str, int] | None:
        """The caller's address; None for a local socket."""

    @property
    def transport(self) -> asyncio.Transport:
        """What it is closed by."""


class OpenConnections:
    """The connections that are open; used by the event loop alone.

    Attributes:
        limit: connections that may be open.
    """

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
        beside = self._silent_of.setdefault(address, {})
        beside[connection] = None
        if address and len(beside) > max(1, self.limit // _SILENT_SHARE):
            self._close(next(iter(beside)))
        if len(self._all) > self.limit:
            # The newest of those who are silent is this one, which has had no time to speak.
            eldest = next(iter(self._silent))
            self._close(eldest if eldest is not connection else next(iter(self._idle), connection))

    def ask(self, connection: Connection) -> None:
        """The head of a request has come: the connection is neither silent nor idle."""
        self._idle.pop(connection, None)
        self._speak(connection)

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

    def _speak(self, connection: Connection) -> None:
        if connection in self._silent:
            del self._silent[connection]
            address = connection.client[0] if connection.client else ""
            beside = self._silent_of[address]
            del beside[connection]
            if not beside:
                del self._silent_of[address]


OPEN_CONNECTIONS: Final = OpenConnections(connection_limit())
"""Those of this process."""


def raise_descriptor_limit() -> None:
    """Lets this process, and those that it starts, open as many files as its user may let it."""
    _, most = getrlimit(RLIMIT_NOFILE)
    # Some systems allow less than what they call the hard limit.
    with suppress(ValueError, OSError):
        setrlimit(RLIMIT_NOFILE, (most, most))
    OPEN_CONNECTIONS.limit = connection_limit()
