"""Why a file of a version is not there: the version expired, or it lacks the file for good.

Whoever expires a version deletes its files first and then what names them, a snapshot or a tag. So a file
that is missing is looked for again together with the version:

======================= =================== ==================================================
the file                the version         answer
======================= =================== ==================================================
is there again          any                 it expired, or storage lags: asking again may help
missing                 gone, or another    it expired: asking again reads a newer one
missing                 as it was           the file is missing, until somebody repairs the table
======================= =================== ==================================================

A version that is just being expired may be taken for one that lacks a file. It is the oldest of its table,
and asked for by number.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.errors import FileMissingError, SnapshotExpiredError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.planning.version.version import Version


@contextmanager
def second_look(version: Version) -> Iterator[None]:
    """Looks again where the block finds a file of ``version`` missing.

    Raises:
        SnapshotExpiredError: the version went away.
        FileMissingError: it is there, without the file.
    """
    try:
        yield
    except SnapshotExpiredError as error:
        version.table.forget_newest(version.resolved)
        path = error.path
        if path is None or not version.table.lacks(version.resolved, path):
            raise
        name = f"tag {version.resolved.tag!r}" if version.resolved.tag else f"snapshot {version.snapshot_id}"
        raise FileMissingError(
            f"{path} is not there, though {name} needs it: bring it back, or roll the table back to a "
            f"version that is whole",
            path=path,
        ) from error
