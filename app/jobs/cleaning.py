"""What a job that fails has written is removed."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.errors import StorageError, UncertainCommitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.storage.writing import Writing

_log = logging.getLogger("paimon_index.jobs")


@contextmanager
def removed_on_failure(writing: Writing, paths: Iterable[str]) -> Iterator[None]:
    """Removes files if a block raises; what was not written yet is passed over.

    If nobody knows whether a snapshot was made that names them, they stay.

    Args:
        writing: of the warehouse.
        paths: under names that only this run uses; asked for when the block has ended.
    """
    try:
        yield
    except UncertainCommitError:
        raise
    except BaseException:
        for path in paths:
            try:
                writing.delete(path)
            except StorageError as error:
                _log.warning("%s stays, which nothing refers to: %s", path, error)
        raise
