"""How a server process ends: it says so, goes on for a while, finishes what it has begun, and exits with 0.

======================== =====================================================================================
moment                   what happens
======================== =====================================================================================
SIGTERM                  ``/health/ready`` is 503; connections and requests are taken as before
``drain_seconds`` later  nothing more is accepted; requests under way are finished
``grace_seconds`` later  requests under way get 503, streams break off without their end
shortly after            the process ends, even where a thread hangs in storage
======================== =====================================================================================

SIGINT, which somebody at a terminal sends, skips the first wait. A second signal ends the process at once.
Linux sends SIGINT to workers whose parent was killed: nobody else would end them, and they hold the port.

uvicorn handles signals while it serves and ends its process by the signal in the end. So the handlers here
take the place of its own once it has started the application, wherever it was started from.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
from types import FrameType
from typing import Final

import uvicorn
from typing_extensions import override
from uvicorn.supervisors import Multiprocess

_log = logging.getLogger("paimon_index")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_PR_SET_PDEATHSIG: Final = 1
_LAST_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.1


class Stopping:
    """Whether the process is ending; after SIGTERM it accepts requests for ``drain_seconds``."""

    def __init__(self, drain_seconds: float) -> None:
        self._drain_seconds = drain_seconds
        self._received: list[int] = []
        self._server: uvicorn.Server | None = None

    @property
    def is_begun(self) -> bool:
        """Whether a signal came: the service is not ready any more."""
        return bool(self._received)

    def listen(self) -> None:
        """Handles signals instead of the server that runs in this thread, if one handles them."""
        if threading.current_thread() is not threading.main_thread():
            return
        server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        if isinstance(server, uvicorn.Server):
            self._server = server
            self._loop = asyncio.get_running_loop()
            for number in _SIGNALS:
                signal.signal(number, self._handle)
            _end_with_parent()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._is_repeated(number):
            os._exit(0)
        is_first = not self._received
        self._received.append(number)
        if is_first:
            self._loop.call_soon_threadsafe(self._begin, number)

    def _is_repeated(self, number: int) -> bool:
        # Somebody at a terminal signals workers as well as their parent, which then signals them, too.
        is_worker = multiprocessing.parent_process() is not None
        return number in self._received if is_worker else bool(self._received)

    def _begin(self, number: int) -> None:
        seconds = self._drain_seconds if number == signal.SIGTERM else 0
        _log.info("%s: not ready any more, accepting for %g s", signal.Signals(number).name, seconds)
        self._loop.call_later(seconds, self._close)

    def _close(self) -> None:
        if self._server is not None:
            self._server.should_exit = True

    def finish(self) -> None:
        """Ends the process soon, if a signal asked for it; to be called when nothing is left to do.

        Threads that hang in storage cannot be ended, and Python would wait for them.
        """
        if self.is_begun:
            ending = threading.Timer(_LAST_SECONDS, os._exit, (0,))
            ending.daemon = True
            ending.start()


def _end_with_parent() -> None:
    """Has a worker be sent SIGINT when its parent ends, however that comes about."""
    parent = multiprocessing.parent_process()
    if parent is None or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)
    if os.getppid() != parent.pid:
        # It has ended before the system was asked to tell.
        signal.raise_signal(signal.SIGINT)


class Workers(Multiprocess):
    """uvicorn's supervisor of several processes; a second signal ends them at once."""

    @override
    def join_all(self) -> None:
        self.signal_queue.clear()
        for process in self.processes:
            while process.process.is_alive():
                process.process.join(_LOOK_SECONDS)
                if any(number in _SIGNALS for number in self.signal_queue):
                    for member in self.processes:
                        member.process.kill()


def run_server(config: uvicorn.Config) -> None:
    """Serves until a signal ends it; raises SystemExit where it cannot begin."""
    if config.workers > 1:
        Workers(config, sockets=[config.bind_socket()]).run()
        return
    server = uvicorn.Server(config)
    server.run()
    if not server.started:
        raise SystemExit(uvicorn.config.STARTUP_FAILURE)
