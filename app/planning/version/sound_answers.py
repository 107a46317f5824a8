"""Answers from what the disk cache keeps, which is verified while it is used, and else from the source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from app.errors import DeadlineExceededError, OverloadedError, RequestError
from app.planning.version.second_look import second_look
from app.storage.mapped_files import Look

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.planning.version.version import Version

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
