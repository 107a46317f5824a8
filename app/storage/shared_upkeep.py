"""Removal of old objects of a shared cache, used or not. Objects that are needed are written again."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Final

from app.observation import StorageOperation
from app.storage.warehouse import Warehouse
from app.storage.writing import Writing

_FORMAT: Final = re.compile(r"[0-9]{1,9}")
_NAME: Final = r"[0-9a-f]{64}(-[0-9a-f]{8})?"
# A writer that was killed leaves its draft.
_OBJECT: Final = re.compile(rf"{_NAME}|\.{_NAME}\.[0-9a-f]{{16}}\.tmp")


@dataclass(frozen=True, slots=True)
class Pruned:
    """Numbers and bytes of removed and remaining objects."""

    removed: int
    removed_bytes: int
    left: int
    left_bytes: int


def prune_shared(store: Warehouse, before: dt.datetime, *, is_tried: bool) -> Pruned:
    """Remove objects and drafts of all formats that were written before a time.

    ``is_tried``: counts the objects without removing them. Raises StorageError if the store failed.
    """
    writing = Writing(store)
    counts = {True: [0, 0], False: [0, 0]}
    for directory in filter(_FORMAT.fullmatch, store.list_names("")):
        for file in store.ask(StorageOperation.LIST, directory, lambda found, place: found.files(place)):
            if not _OBJECT.fullmatch(file.name):
                continue
            # Without a time in the listing, the age is unknown, and the object stays.
            is_old = file.written is not None and file.written < before
            if is_old and not is_tried:
                writing.delete(f"{directory}/{file.name}")
            counts[is_old][0] += 1
            counts[is_old][1] += file.size
    return Pruned(*counts[True], *counts[False])
