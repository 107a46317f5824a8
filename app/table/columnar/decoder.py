"""Processes that decode ORC and Parquet files, so that hostile bytes can harm nothing but the decoder.

A warehouse starts one at its first such file. It decodes one file at a time within limits of memory and time,
and has no environment, files, connections or child processes of its own. A process that ended is replaced at
the next file. It ends with the process that started it, however that ends, and when it is idle while memory
is short. Only Linux limits its memory.

========  ==================================================================================================
message   a line of JSON, and bytes
========  ==================================================================================================
request   ``format`` (``ORC`` or ``Parquet``), ``columns``, ``memory_bytes``, ``seconds``, ``bytes`` of the
          file, which follow
answer    ``bytes`` of the columns as an Arrow stream, which follow, half of ``memory_bytes`` at most; or
          ``error``. The first one has neither: the process has started
========  ==================================================================================================
"""

from __future__ import annotations

import atexit
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from app.errors import MemoryShortError
from app.types.roaring import Buffer
from app.work import GLANCE_SECONDS, LEDGER, check_deadline, line_of_work, remaining_seconds, waiting
from app.work.memory import HELPERS, resident_bytes_of

_SECONDS: Final = 30.0
_START_SECONDS: Final = 60.0
_MOST_IDLE: Final = 4
# Memory of a decoder process, without files.
PROCESS_BYTES: Final = 24 << 20
_MAX_LINE_BYTES: Final = 8 << 10
_PROGRAM: Final = Path(__file__).with_name("program.py")
_ENVIRONMENT: Final = {
    # Reservations of allocators and threads count against the limit, too.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

_NEEDED: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")


class DecodedStream(NamedTuple):
    """Result of decoding a file: a stream, or a fault."""

    stream: bytes = b""
    fault: str = ""
    may_be_short: bool = False


class Decoder:
    """Decodes files in one process per warehouse, so that a hanging file blocks no other warehouse."""

    def __init__(self) -> None:
        self.seconds = _SECONDS
        self._lock = threading.Lock()
        self._lines: dict[str | None, _Line] = {}
        LEDGER.add(self)

    @property
    def weight(self) -> int:
        """Memory of idle processes in bytes. They are evicted as caches are."""
        return sum(line.idle_bytes for line in list(self._lines.values()))

    def shrink(self, weight: int, *, unused_seconds: float = 0) -> None:
        """End idle processes, longest idle first, until the rest fit into ``weight``."""
        latest = time.monotonic() - unused_seconds
        self._end_idle(lambda idle: sum(each.idle_bytes for each in idle) > weight, latest)

    @property
    def process_id(self) -> int | None:
        """Process id of the decoder for this thread's work, if there is one."""
        line = self._lines.get(line_of_work())
        process = None if line is None else line.process
        return process.popen.pid if process is not None and process.is_alive else None

    @contextmanager
    def turn(self, line: str | None = None) -> Iterator[Turn]:
        """Lease the decoder of a warehouse for the block. A thread that waits gives up its core.

        ``line`` names the warehouse. The default is the one this thread works for. Callers claim memory
        inside the block, so that no caller holds memory while it waits for a slow file.

        Raises DeadlineExceededError if the request's time was used up first.
        """
        with self._lock:
            of_line = self._lines.setdefault(line or line_of_work(), _Line())
        with waiting():
            while not of_line.turn.acquire(timeout=GLANCE_SECONDS):
                check_deadline()
            of_line.idle_bytes = 0
            try:
                check_deadline()
                yield Turn(self, of_line)
            finally:
                of_line.used_at = time.monotonic()
                of_line.idle_bytes = 0 if of_line.process is None else of_line.process.resident_bytes
                of_line.turn.release()
                self._end_idle(lambda idle: len(idle) > _MOST_IDLE)

    def close(self) -> None:
        """End the processes."""
        for line in list(self._lines.values()):
            if line.process is not None:
                line.process.end()

    def forget(self) -> None:
        """Leave the processes to the parent after a fork, and start without any."""
        self._lock = threading.Lock()
        self._lines = {}
        HELPERS.clear()

    def _end_idle(self, are_too_many: Callable[[Sequence[_Line]], bool], latest: float = math.inf) -> None:
        """End processes idle since ``latest`` or longer, longest first, while there are too many."""
        with self._lock:
            idle = [line for line in self._lines.values() if line.process and not line.turn.locked()]
            idle.sort(key=lambda line: line.used_at)
            while idle and idle[0].used_at <= latest and are_too_many(idle):
                line = idle.pop(0)
                if line.turn.acquire(blocking=False):
                    if line.process is not None:
                        line.process.end()
                    line.process, line.idle_bytes = None, 0
                    line.turn.release()


@dataclass(slots=True, eq=False)
class _Line:
    """Decoder process of a warehouse, and the lock of its current user."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    process: _Process | None = None
    used_at: float = 0.0
    idle_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """Lease of a warehouse's decoder process."""

    decoder: Decoder
    line: _Line

    def decode(self, kind: str, data: Buffer, columns: Sequence[str], memory_bytes: int) -> DecodedStream:
        """Decode columns of a file within ``memory_bytes``.

        ``kind``: ``ORC`` or ``Parquet``.
        ``columns``: dotted names.

        Raises MemoryShortError if there is no process, and none can be started. Raises DeadlineExceededError
        if the request's time was used up first.
        """
        check_deadline()
        remaining, seconds = remaining_seconds(), self.decoder.seconds
        request = {
            "format": kind,
            "columns": columns,
            "memory_bytes": memory_bytes,
            "seconds": seconds,
            "bytes": len(data),
        }
        process = self.line.process
        if process is not None and not process.is_alive:
            process.end()
            process = self.line.process = None
        if process is None:
            process = self.line.process = _Process()
        try:
            return process.ask(request, data, seconds if remaining is None else min(remaining, seconds))
        except TimeoutError:
            process.end()
            check_deadline()
            return DecodedStream(fault=f"it takes more than {seconds:g} s")
        except (OSError, ValueError):
            return DecodedStream(fault=f"its decoder ended with status {process.end()}", may_be_short=True)


class _Process:
    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        self._channel = self._socket.makefile("rwb")
        try:
            with other:
                self.popen = subprocess.Popen(  # noqa: S603 - a program of this package
                    [sys.executable, "-P", str(_PROGRAM)],
                    stdin=other.fileno(),
                    stdout=other.fileno(),
                    stderr=subprocess.DEVNULL,
                    env={**_inherited(), **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
                    # Ctrl-C at a terminal is meant for the command, not for its decoder.
                    start_new_session=True,
                )
        except OSError as error:
            self._close()
            raise MemoryShortError(f"no process can be started to decode ORC or Parquet: {error}") from error
        HELPERS[str(self.popen.pid)] = None
        self._socket.settimeout(_START_SECONDS)
        try:
            self._answer()
        except (OSError, ValueError) as error:
            raise MemoryShortError(
                f"the process that decodes ORC and Parquet does not start: {sys.executable} ended with "
                f"status {self.end()}"
            ) from error

    @property
    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def ask(self, request: Mapping[str, Any], data: Buffer, seconds: float) -> DecodedStream:
        """Send a file, read the answer. Raises TimeoutError if the answer is late.

        Raises OSError or ValueError if the process ended.
        """
        self._socket.settimeout(seconds)
        self._channel.write(json.dumps(request).encode() + b"\n")
        self._channel.write(data)
        self._channel.flush()
        answer = self._answer()
        if "error" in answer:
            return DecodedStream(fault=str(answer["error"]), may_be_short=True)
        size = int(answer["bytes"])
        if size > request["memory_bytes"] // 2 or len(stream := self._channel.read(size)) < size:
            raise ValueError(f"expected a stream of {size} bytes")
        return DecodedStream(stream)

    @property
    def resident_bytes(self) -> int:
        return resident_bytes_of(str(self.popen.pid))

    def end(self) -> int:
        self.popen.kill()
        status = self.popen.wait()
        HELPERS.pop(str(self.popen.pid), None)
        self._close()
        return status

    def _answer(self) -> Any:
        return json.loads(self._channel.readline(_MAX_LINE_BYTES))

    def _close(self) -> None:
        with suppress(OSError):
            # Unwritten data is of no use.
            self._channel.close()
        self._socket.close()


def _inherited() -> dict[str, str]:
    # Storage credentials are withheld from a process that hostile bytes may take over.
    return {name: os.environ[name] for name in _NEEDED if name in os.environ}


# Decoder of this process.
DECODER: Final = Decoder()

atexit.register(DECODER.close)
# A forked child would interleave its requests with its parent's.
os.register_at_fork(after_in_child=DECODER.forget)
