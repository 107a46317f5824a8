"""What a job that fails has written is removed, also what a task wrote that was killed before it told.

The names of all files that the tasks of one run write have its token in them, so listings of the directories
show them, whether or not the driver has heard of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from app.errors import PaimonIndexError, StorageError, UncertainCommitError
from app.jobs.run import Run
from app.storage.writing import Writing

_log = logging.getLogger("paimon_index.jobs")

_LISTINGS: Final = 5
_PAUSE_SECONDS: Final = 1.0
"""Between two listings: a Python worker may outlive its task until it writes to Spark again."""


@dataclass(frozen=True, slots=True)
class FilesOfRun:
    """Paths of what the tasks of a run have written, looked for each time that they are iterated over.

    That begins by waiting for the end of the tasks. Where some were killed, directories are listed again
    until there is nothing new.

    Attributes:
        run: the run.
        listed: gives the paths of all files in the directories that the run may write to.
        named: names of files that a snapshot names, which are left out.
    """

    run: Run
    listed: Callable[[], Iterable[str]]
    named: Collection[str] = frozenset()

    def __iter__(self) -> Iterator[str]:
        is_complete = self.run.settle()
        for listing in range(1 if is_complete else _LISTINGS):
            if listing:
                time.sleep(_PAUSE_SECONDS)
            try:
                found = [path for path in self.listed() if self._is_of_run(path)]
            except PaimonIndexError as error:
                _log.warning("files named %s may stay, which nothing refers to: %s", self.run.token, error)
                return
            if listing and not found:
                return
            yield from found

    def _is_of_run(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return self.run.token in name and name not in self.named


@dataclass(slots=True)
class WrittenFiles:
    """Files that are removed if a block raises; those that were not written yet are passed over.

    They stay where a snapshot may name them: if nobody knows whether it was made, and if the process is
    stopped, or fails for a reason that nobody has thought of, while it is made.

    Attributes:
        writing: of the warehouse.
        paths: under names that only this run uses; more may come while the block lasts.
        is_committing: set by the block when it begins to make the snapshot.
    """

    writing: Writing
    paths: Iterable[str]
    is_committing: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, UncertainCommitError):
            return
        if self.is_committing and not issubclass(kind, PaimonIndexError):
            return
        remove(self.writing, self.paths)


def remove(writing: Writing, paths: Iterable[str]) -> None:
    """Removes files that nothing refers to; those that cannot be removed are logged."""
    for path in paths:
        try:
            writing.delete(path)
        except StorageError as error:
            _log.warning("%s stays, which nothing refers to: %s", path, error)
