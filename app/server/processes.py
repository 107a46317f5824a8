r"""Several processes that serve together, each of which can ask the others.

::

    DIRECTORY/                        for one run of the service; nobody else may enter
      lock                            held by the process that started the others, as long as it runs
      PROCESS.sock                    takes a line with a question, answers it, and closes

Other files in the directory belong to whoever asks, see :mod:`app.telemetry.workers`.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from app.errors import SettingsError

VARIABLE: Final = "PAIMON_INDEX_WORKERS_DIRECTORY"
"""Tells the directory to the processes that are started; not a setting."""

_PREFIX: Final = "paimon-index-workers-"
_MEMORY_DIRECTORY: Final = Path("/dev/shm")  # noqa: S108 - a private directory is made in it
_STARTING_SECONDS: Final = 60.0
_ASKING_SECONDS: Final = 2.0
"""For all other processes together."""
_MAX_QUESTION_BYTES: Final = 100


@contextmanager
def shared_directory() -> Iterator[Path]:
    """A directory for the processes of one run, removed at its end.

    Those of earlier runs that ended by force are removed as well.

    Raises SettingsError: there is no place for it.
    """
    for parent in (_MEMORY_DIRECTORY, None):
        with suppress(OSError):
            # Memory, where there is such a place: a container may have no other that can be written to.
            directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            break
    else:
        raise SettingsError(
            "several workers need a directory to write to: set TMPDIR to one, or serve with one worker"
        )
    try:
        with (directory / "lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _remove_abandoned(directory.parent)
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Answer(NamedTuple):
    """What another process said: ``content`` is None if it said nothing in time, or not all."""

    name: str
    content: bytes | None
    is_gone: bool = False


class Processes:
    """The processes of one run, as one of them sees them; ``directory`` is None for one alone."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self.name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._answers: dict[bytes, Callable[[], bytes]] = {}
        self._listener: socket.socket | None = None

    @classmethod
    def of_environment(cls) -> Processes:
        """Those that were started together with this one."""
        directory = os.environ.get(VARIABLE)
        return cls(Path(directory) if directory else None)

    def answer(self, question: bytes, give: Callable[[], bytes]) -> None:
        """Says how to answer a question, which is a word; to be called before :meth:`start`."""
        self._answers[question] = give

    def start(self) -> None:
        """Begins to answer the others; OSError where the directory is gone."""
        if self.directory is None:
            return
        # It must not be seen before it listens: it would be taken for that of a process that is gone.
        unseen = self.directory / f"{self.name}.new"
        self._listener = listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(unseen))
        listener.listen()
        unseen.rename(self.directory / f"{self.name}.sock")
        threading.Thread(target=self._answer_all, args=(listener,), name="processes", daemon=True).start()

    def stop(self) -> None:
        """Answers nobody any more."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def ask(self, question: bytes) -> Iterator[Answer]:
        """Asks all others, one after the other; blocks for two seconds at most."""
        until = time.monotonic() + _ASKING_SECONDS
        for place in sorted(self.directory.glob("*.sock")) if self.directory else ():
            if place.stem == self.name:
                continue
            try:
                yield Answer(place.stem, _ask(place, question, until))
            except ConnectionRefusedError:
                yield Answer(place.stem, None, is_gone=True)
            except OSError:
                yield Answer(place.stem, None)

    def _answer_all(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(_ASKING_SECONDS)
                    question = connection.makefile("rb").readline(_MAX_QUESTION_BYTES).strip()
                    if question in self._answers:
                        connection.sendall(self._answers[question]())


def _ask(place: Path, question: bytes, until: float) -> bytes:
    """Raises ConnectionRefusedError where a process is gone, OSError where it does not answer in time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(max(0.01, until - time.monotonic()))
        connection.connect(str(place))
        connection.sendall(question + b"\n")
        pieces: list[bytes] = []
        while not pieces or pieces[-1]:
            connection.settimeout(max(0.01, until - time.monotonic()))
            pieces.append(connection.recv(1 << 16))
    return b"".join(pieces)


def _remove_abandoned(parent: Path) -> None:
    for directory in parent.glob(_PREFIX + "*"):
        with suppress(OSError):
            found = directory.stat()
            if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _STARTING_SECONDS:
                continue
            with (directory / "lock").open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
