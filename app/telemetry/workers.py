r"""Several processes that serve together, each of which can speak for all of them.

::

    DIRECTORY/                        for one run of the service; nobody else may enter
      lock                            held by the process that started the others, as long as it runs
      gathering                       held by the process that asks the others
      WORKER.sock                     answers with what the worker has counted, and closes
      WORKER.json                     what it has answered last, or counted when it ended
      ended.json                      of workers that are gone, added up, and which these are

Whoever is asked for the metrics asks the others. A worker writes down what it answers before it answers, so
what was told once is told again after the worker was killed: counters never go backwards.
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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.errors import SettingsError
from app.telemetry.merging import dump, load, merge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric

VARIABLE: Final = "PAIMON_INDEX_WORKERS_DIRECTORY"
"""Tells the directory to the processes that are started; not a setting."""

_PREFIX: Final = "paimon-index-workers-"
_MEMORY_DIRECTORY: Final = Path("/dev/shm")  # noqa: S108 - a private directory is made in it
_STARTING_SECONDS: Final = 60.0
_ASKING_SECONDS: Final = 2.0
"""For all other workers together; of one that hangs, what it told last is told again."""


@contextmanager
def shared_directory() -> Iterator[Path]:
    """A directory for the processes of one run, removed at its end.

    Those of earlier runs that ended by force are removed as well.

    Raises:
        SettingsError: there is no place for it.
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


class Workers:
    """The processes of one run, as one of them sees them.

    Args:
        directory: of the run.
        count: gives what this process has counted.
    """

    def __init__(self, directory: Path, count: Callable[[], list[Metric]]) -> None:
        self._directory = directory
        self._count = count
        self._publishing = threading.Lock()
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._thread = threading.Thread(target=self._answer_all, name="paimon-index-workers", daemon=True)

    def start(self) -> None:
        """Begins to answer the others.

        Raises:
            OSError: the directory is gone.
        """
        # It must not be seen before it listens: it would be taken for that of a worker that is gone.
        unseen = self._directory / f"{self._name}.new"
        self._listener.bind(str(unseen))
        self._listener.listen()
        self._publish()
        unseen.rename(self._directory / f"{self._name}.sock")
        self._thread.start()

    def stop(self) -> None:
        """Writes down what was counted, for those that go on."""
        with suppress(OSError):
            self._publish()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def gather(self) -> list[Metric]:
        """What all workers have counted together; blocks for two seconds at most."""
        try:
            lock_file = (self._directory / "gathering").open("wb")
        except FileNotFoundError:
            # The process that started this one is gone, and its directory with it.
            return self._count()
        with lock_file as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            living, gone = [load(self._publish())[0]], {}
            until = time.monotonic() + _ASKING_SECONDS
            for place in sorted(self._directory.glob("*.sock")):
                if place.stem == self._name:
                    continue
                try:
                    living.append(load(_ask(place, until))[0])
                except ConnectionRefusedError:
                    gone[place.stem] = self._last_words(place.stem)
                except (OSError, ValueError):
                    living.append(self._last_words(place.stem))
            return merge(living, [self._bury(gone)])

    def _publish(self) -> bytes:
        """Writes down what was counted, and gives it."""
        with self._publishing:
            content = dump(self._count())
            _write(self._directory / f"{self._name}.json", content)
            return content

    def _answer_all(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(_ASKING_SECONDS)
                    connection.sendall(self._publish())

    def _last_words(self, name: str) -> list[Metric]:
        return _read(self._directory / f"{name}.json")[0]

    def _bury(self, gone: dict[str, list[Metric]]) -> list[Metric]:
        """Adds workers that are gone to those that went before; gives all of them."""
        place = self._directory / "ended.json"
        ended, members = _read(place)
        # Should this process be killed before it has removed their files, they are not counted twice.
        counted = set(members.get("workers", ()))
        added = [families for name, families in gone.items() if name not in counted]
        if added:
            ended = merge([], [ended, *added])
            _write(place, dump(ended, workers=sorted(gone)))
        for name in gone:
            (self._directory / f"{name}.json").unlink(missing_ok=True)
            (self._directory / f"{name}.sock").unlink(missing_ok=True)
        return ended


def _ask(place: Path, until: float) -> bytes:
    """What a worker answers.

    Raises:
        ConnectionRefusedError: it is gone.
        OSError: it does not answer in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        pieces: list[bytes] = []
        while True:
            connection.settimeout(max(0.01, until - time.monotonic()))
            if not pieces:
                connection.connect(str(place))
            piece = connection.recv(1 << 16)
            pieces.append(piece)
            if not piece:
                return b"".join(pieces)


def _read(place: Path) -> tuple[list[Metric], dict[str, list[str]]]:
    try:
        families, members = load(place.read_bytes())
    except FileNotFoundError:
        return [], {}
    return families, dict(members)


def _write(place: Path, content: bytes) -> None:
    """Replaces a file at once: whoever reads it sees one content or the other."""
    written = place.with_suffix(".tmp")
    written.write_bytes(content)
    written.replace(place)


def _remove_abandoned(parent: Path) -> None:
    """Removes the directories of this user's runs whose first process is gone."""
    for directory in parent.glob(_PREFIX + "*"):
        with suppress(OSError):
            found = directory.stat()
            if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _STARTING_SECONDS:
                continue
            with (directory / "lock").open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
