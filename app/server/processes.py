r"""Several processes that serve together, each of which can ask the others.

::

    DIRECTORY/                        for one run of the service; nobody else may enter
      NUMBER.lock                     held by the process of this number for as long as it runs
      NUMBER.sock                     takes a line with a question, answers with a line, and closes

A process takes the lowest number that is free: that of one that has ended, or a new one. Other files in the
directory belong to whoever asks, see :mod:`app.telemetry.workers`.
"""

from __future__ import annotations

import fcntl
import os
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
"""Tells the directory to the processes that are started; not a setting."""

_MEMORY_DIRECTORY: Final = "/dev/shm"  # noqa: S108 - a private directory is made in it
_ASKING_SECONDS: Final = 2.0
"""For all other processes together."""
_MAX_QUESTION_BYTES: Final = 100


@contextmanager
def shared_directory() -> Iterator[Path]:
    """A directory for the processes of one run, removed at its end.

    Raises SettingsError: there is no place for it.
    """
    for parent in (_MEMORY_DIRECTORY, None):
        with suppress(OSError):
            # Memory, where there is such a place: a container may have no other that can be written to.
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
    """The processes of one run, as one of them sees them; ``directory`` is None for one alone."""

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
        """Those that were started together with this one."""
        directory = os.environ.get(VARIABLE)
        return cls(Path(directory) if directory else None)

    def answer(self, question: bytes, give: Callable[[], bytes]) -> None:
        """Says how to answer a question, a word, with a line; to be called before :meth:`start`."""
        self._answers[question] = give

    def start(self) -> None:
        """Begins to answer the others; OSError where the directory is gone."""
        if self.directory is None:
            return
        place = self.directory / f"{self.name}.sock"
        place.unlink(missing_ok=True)
        self._listener = listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(place))
        listener.listen()
        threading.Thread(target=self._answer_all, args=(listener,), name="processes", daemon=True).start()

    def stop(self) -> None:
        """Answers nobody any more, and leaves the number to another process."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._lock.close()

    def ask(self, question: bytes) -> Iterator[tuple[str, bytes | None]]:
        """Names and answers of all others that run, one after the other; blocks for two seconds at most.

        The answer is None of a process that says nothing in time, or not all.
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
    """The line that a process answers with, None if it does not. Raises _EndedError: it has ended."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(max(0.01, until - time.monotonic()))
        try:
            connection.connect(str(place))
            connection.sendall(question + b"\n")
            line = connection.makefile("rb").readline()
        except (ConnectionRefusedError, FileNotFoundError) as error:
            # Nobody listens, or one who takes the number has removed the socket.
            raise _EndedError from error
        except OSError:
            return None
    return line[:-1] if line.endswith(b"\n") else None
