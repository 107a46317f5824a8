"""What a job that fails has written is removed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from app.errors import StorageError, UncertainCommitError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.storage.writing import Writing

_log = logging.getLogger("paimon_index.jobs")


@dataclass(slots=True)
class WrittenFiles:
    """Files that are removed if a block raises; those that were not written yet are passed over.

    They stay where a snapshot may name them: if nobody knows whether it was made, and if the process is
    stopped while it is made.

    Attributes:
        writing: of the warehouse.
        paths: under names that only this run uses; more may come while the block lasts.
        are_committed: set by the block when it begins to make the snapshot.
    """

    writing: Writing
    paths: Iterable[str]
    are_committed: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, UncertainCommitError):
            return
        if self.are_committed and not issubclass(kind, Exception):
            return
        for path in self.paths:
            try:
                self.writing.delete(path)
            except StorageError as error:
                _log.warning("%s stays, which nothing refers to: %s", path, error)
