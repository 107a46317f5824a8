"""Answers from what the disk cache keeps, which is verified while it is used, and else from the source.

Where a file of a version is not there, the version expired, or it lacks the file for good. Whoever expires a
version deletes its files first and then what names them, a snapshot or a tag. So a file that is missing is
looked for again together with the version:

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

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeVar

from app.errors import (
    DeadlineExceededError,
    FileMissingError,
    OverloadedError,
    RequestError,
    SnapshotExpiredError,
)
from app.planning.version.version import Version
from app.storage.mapped_files import Look


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


Found = TypeVar("Found")

_ATTEMPTS: Final = 3
"""With the disk cache; one more follows without it."""


def sound_answer(version: Version, work: Callable[[Version], Found], forget: Callable[[], None]) -> Found:
    """What ``work`` finds of a version; found again where mapped files turn out to be damaged.

    Damage may end in an answer, or in any exception.

    Args:
        version: what is asked about.
        work: is given the version, without what it has read before.
        forget: empties all caches, since nobody knows what in them is of damaged files.

    Raises:
        Exception: of ``work``, where no damage explains it.
    """
    storage, directory = version.source.warehouse, version.table.directory
    for _ in range(_ATTEMPTS):
        lost = storage.lost_arrays(directory, Look.NONE)
        if storage.lost_arrays(directory, Look.LENGTHS) == lost:
            try:
                with second_look(version):
                    found = work(version)
            except (RequestError, OverloadedError, DeadlineExceededError):
                raise
            except Exception:
                if storage.lost_arrays(directory, Look.ALL) == lost:
                    raise
            else:
                # Others may have found out meanwhile.
                if storage.lost_arrays(directory, Look.SOME) == lost:
                    return found
        forget()
        version = replace(version)
    storage.give_up_disk()
    with second_look(version):
        return work(version)
