"""Removing old objects of a shared cache, which nobody counts the use of: what is needed is written again."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from app.errors import FileMissingError
from app.observation import StorageOperation
from app.storage.warehouse import Warehouse
from app.storage.writing import Writing

_FORMAT: Final = re.compile(r"[0-9]{1,9}")
_OBJECT: Final = re.compile(r"[0-9a-f]{64}")
_WRITTEN: Final = ("last_modified", "LastModified", "mtime", "updated", "created")
"""What libraries call the time at which a file was written."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """Objects that are older than a time, and those that stay, with their bytes."""

    removed: int
    removed_bytes: int
    left: int
    left_bytes: int


def prune_shared(store: Warehouse, before: dt.datetime, *, is_tried: bool) -> Pruned:
    """Removes objects of all formats that were written before a time; nothing else below the prefix.

    ``is_tried``: only tells which these are. Raises StorageError: the store failed.
    """
    writing = Writing(store)
    counts = {True: [0, 0], False: [0, 0]}
    for path, size, written in _objects(store):
        # What nobody knows the age of stays.
        is_old = written is not None and written < before
        if is_old and not is_tried:
            writing.delete(path)
        counts[is_old][0] += 1
        counts[is_old][1] += size
    return Pruned(*counts[True], *counts[False])


def _objects(store: Warehouse) -> Iterator[tuple[str, int, dt.datetime | None]]:
    """Each with its bytes, and when it was written."""
    for directory in filter(_FORMAT.fullmatch, store.list_names("")):
        for entry in _listed(store, directory):
            name = str(entry["name"]).rstrip("/").rpartition("/")[2]
            if _OBJECT.fullmatch(name):
                yield f"{directory}/{name}", int(entry.get("size") or 0), _time(entry)


def _listed(store: Warehouse, directory: str) -> list[dict[str, Any]]:
    root, place = store.locate(directory)
    try:
        return store.retry.call(
            directory, lambda: list(root.ask("ls", place, detail=True)), kind=StorageOperation.LIST
        )
    except FileMissingError:
        return []


def _time(entry: dict[str, Any]) -> dt.datetime | None:
    found = next((entry[name] for name in _WRITTEN if entry.get(name) is not None), None)
    if isinstance(found, str):
        found = dt.datetime.fromisoformat(found)
    if isinstance(found, (int, float)):
        return dt.datetime.fromtimestamp(found, dt.UTC)
    if isinstance(found, dt.datetime):
        return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
    return None
