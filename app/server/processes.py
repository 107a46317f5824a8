"""Processes that serve together and can ask one another.

::

    DIRECTORY/                        for one run of the service. No other user may enter
      NUMBER.lock                     held by the process of this number for as long as it runs
      NUMBER.sock                     takes a line with a question, answers with a line, and closes

A process takes the lowest free number, which may be that of an ended one. Other files in the directory belong
to callers, see :mod:`app.telemetry.workers`.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

from app.errors import SettingsError

VARIABLE: Final = "PAIMON_INDEX_WORKERS_DIRECTORY"
"""Environment variable that passes the directory to child processes. It is not a setting."""

_MEMORY_DIRECTORY: Final = "/dev/shm"  # noqa: S108 - a private directory is made in it
# Time limit for all other processes together.
_ASKING_SECONDS: Final = 2.0
_MAX_QUESTION_BYTES: Final = 100


@contextmanager
def shared_directory() -> Iterator[Path]:
    """Make a directory for the processes of one run, and remove it at the end.

    Raises SettingsError if no place can be written to.
    """
    # A directory is given: without one, the standard library may take the current directory.
    for parent in (_MEMORY_DIRECTORY, os.environ.get("TMPDIR") or "/tmp"):  # noqa: S108 - as above
        with suppress(OSError):
            # Shared memory first: a container may have no other writable place.
            directory = TemporaryDirectory(
                prefix="paimon-index-workers-", dir=parent, ignore_cleanup_errors=True
            )
            break
    else:
        raise SettingsError(
            "several workers need a directory to write to: set TMPDIR to one, or serve with one worker"
        )
    with directory as path:
        yield Path(path)


class Processes:
    """The processes of one run, seen from one of them. ``directory`` is None for a single one."""

    def __init__(self, directory: Path | None, asking_seconds: float = _ASKING_SECONDS) -> None:
        self.directory = directory
        self._asking_seconds = asking_seconds
        self.name = ""
        self._answers: dict[bytes, Callable[[], bytes]] = {}
        self._listener: socket.socket | None = None
        if directory is not None:
            self.name, self._lock = _lowest_free(directory)

    @classmethod
    def of_environment(cls) -> Processes:
        """Join the run whose directory the environment names, if any."""
        directory = os.environ.get(VARIABLE)
        return cls(Path(directory) if directory else None)

    def answer(self, question: bytes, give: Callable[[], bytes]) -> None:
        """Register the answer, a line, to a question, a word. Call it before :meth:`start`."""
        self._answers[question] = give

    def start(self) -> None:
        """Start answering. Raises OSError if the directory is gone."""
        if self.directory is None:
            return
        place = self.directory / f"{self.name}.sock"
        place.unlink(missing_ok=True)
        self._listener = listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(place))
        listener.listen()
        threading.Thread(target=self._answer_all, args=(listener,), name="processes", daemon=True).start()

    def stop(self) -> None:
        """Stop answering, and release the number."""
        if self.directory is not None and self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._lock.close()
            parent = multiprocessing.parent_process()
            if parent is not None and os.getppid() != parent.pid:
                # The parent was killed, so this process removes it.
                shutil.rmtree(self.directory, ignore_errors=True)

    def ask(self, question: bytes) -> Iterator[tuple[str, bytes | None]]:
        """Ask all other processes in turn. Yield names and answers. Blocks for two seconds at most.

        The answer is None for a process that does not answer completely in time.
        """
        until = time.monotonic() + self._asking_seconds
        for place in sorted(self.directory.glob("*.sock")) if self.directory else ():
            if place.stem != self.name:
                with suppress(_EndedError):
                    yield place.stem, _ask(place, question, until)

    def _answer_all(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(self._asking_seconds)
                    question = connection.makefile("rb").readline(_MAX_QUESTION_BYTES).strip()
                    if question in self._answers:
                        connection.sendall(self._answers[question]() + b"\n")


class _EndedError(Exception):
    pass


def _lowest_free(directory: Path) -> tuple[str, BinaryIO]:
    number = 0
    while True:
        lock = (directory / f"{number}.lock").open("wb")
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return str(number), lock
        lock.close()
        number += 1


def _ask(place: Path, question: bytes, until: float) -> bytes | None:
    """Return a process's answer, or None. Raises _EndedError if the process has ended."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(max(0.01, until - time.monotonic()))
        try:
            connection.connect(str(place))
            connection.sendall(question + b"\n")
            line = connection.makefile("rb").readline()
        except (ConnectionRefusedError, FileNotFoundError) as error:
            # Its socket has no listener, or a successor of the same number has removed it.
            raise _EndedError from error
        except OSError:
            return None
    return line[:-1] if line.endswith(b"\n") else None
