"""Ends a server process: it reports unready, drains, finishes requests in flight, and exits with 0.

======================== =====================================================================================
moment                   what happens
======================== =====================================================================================
SIGTERM                  ``/health/ready`` is 503; connections and requests are taken as before
``drain_seconds`` later  nothing more is accepted; requests in flight are finished
``grace_seconds`` later  requests in flight get 503, streams break off without their end
shortly after            the process ends, even if a thread hangs in storage
======================== =====================================================================================

SIGINT, from a terminal, skips the first wait. A second signal ends the process at once. Linux sends SIGINT to
workers whose parent was killed: nothing else would end them, and they hold the port.
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
import time
from contextlib import suppress
from types import FrameType
from typing import Final

import uvicorn
from typing_extensions import override
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

_log = logging.getLogger("paimon_index")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_PR_SET_PDEATHSIG: Final = 1
_LAST_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.1


class Stopping:
    """State of a process that is stopping. After SIGTERM it accepts requests for ``drain_seconds``."""

    def __init__(self, drain_seconds: float) -> None:
        self._drain_seconds = drain_seconds
        self._received: list[int] = []
        self._server: uvicorn.Server | None = None

    @property
    def is_begun(self) -> bool:
        """True after a signal: the service is not ready any more."""
        return bool(self._received)

    def listen(self) -> None:
        """Replace the signal handlers of the server that runs in this thread, if it has any."""
        if threading.current_thread() is not threading.main_thread():
            return
        # uvicorn's handlers end the process by the signal, and not with 0: these replace them once it has
        # started the application, from wherever it was started.
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
        if multiprocessing.parent_process() is None:
            return bool(self._received)
        # A terminal signals workers and their parent, which then signals them again. Linux sends SIGINT as
        # each thread of a killed parent ends. So in a worker only a second SIGTERM counts.
        return number == signal.SIGTERM and number in self._received

    def _begin(self, number: int) -> None:
        seconds = self._drain_seconds if number == signal.SIGTERM else 0
        _log.info("%s: not ready any more, accepting for %g s", signal.Signals(number).name, seconds)
        self._loop.call_later(seconds, self._close)

    def _close(self) -> None:
        if self._server is not None:
            self._server.should_exit = True

    def finish(self) -> None:
        """End the process shortly, if a signal came. Call it when all work is done."""
        if self.is_begun:
            # Python would wait for threads that hang in storage, which nothing can end.
            ending = threading.Timer(_LAST_SECONDS, os._exit, (0,))
            ending.daemon = True
            ending.start()


def _end_with_parent() -> None:
    """Have Linux send SIGINT to this worker when its parent ends."""
    parent = multiprocessing.parent_process()
    if parent is None or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)
    if os.getppid() != parent.pid:
        # The parent ended before the call above.
        signal.raise_signal(signal.SIGINT)


class WorkerSupervisor(Multiprocess):
    """uvicorn's supervisor of several processes. A second signal ends them at once."""

    @override
    def keep_subprocess_alive(self) -> None:
        if self.should_exit.is_set() or not all(map(self._is_awake, self.processes)):
            return
        super().keep_subprocess_alive()

    def _is_awake(self, worker: Process) -> bool:
        """Wait until a worker answers or ends. Kill a silent one. Return False after a signal.

        uvicorn waits in one call: a signal would be noticed only after a worker has started. A worker's end
        does not close the pipe, whose other side this process holds as well.
        """
        until = time.monotonic() + self.config.timeout_worker_healthcheck
        with suppress(OSError, EOFError):
            worker.parent_conn.send(b"ping")
            while not worker.parent_conn.poll(_LOOK_SECONDS):
                if self._is_told_to_end():
                    return False
                if not worker.process.is_alive():
                    return True
                if time.monotonic() > until:
                    worker.kill()
            worker.parent_conn.recv()
        return True

    def _is_told_to_end(self) -> bool:
        return any(number in _SIGNALS for number in self.signal_queue)

    @override
    def join_all(self) -> None:
        self.signal_queue.clear()
        for process in self.processes:
            while process.process.is_alive():
                process.process.join(_LOOK_SECONDS)
                if self._is_told_to_end():
                    for member in self.processes:
                        member.process.kill()


def run_server(config: uvicorn.Config) -> None:
    """Serve until a signal comes. Raises SystemExit if the server cannot start."""
    if config.workers > 1:
        WorkerSupervisor(config, sockets=[config.bind_socket()]).run()
        return
    server = uvicorn.Server(config)
    server.run()
    if not server.started:
        raise SystemExit(uvicorn.config.STARTUP_FAILURE)
