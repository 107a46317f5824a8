"""Checks that warehouses can be listed: otherwise a missing directory or bucket looks like an empty one.

Object stores have no directories: a prefix without objects equals an empty warehouse. A missing bucket, a
missing directory of a file system, and a refused listing differ from it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from app.errors import PaimonIndexError, StorageError
from app.storage.warehouse import Warehouse
from app.work import time_limit

_log = logging.getLogger("paimon_index.storage")

_CHECK_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 60.0


def check_listable(warehouse: Warehouse) -> None:
    """List a warehouse.

    Raises StorageError with its name if it cannot be listed, and with its URL if nothing is there.
    """
    label = f"warehouse {warehouse.name!r} cannot be listed"
    try:
        is_there = bool(warehouse.list_names("")) or warehouse.has_root()
    except StorageError as error:
        raise StorageError(f"{label}: {error}") from error
    if not is_there:
        raise MissingWarehouseError(
            f"{label}: there is no directory or bucket {warehouse.public_url}: check its URL"
        )


class MissingWarehouseError(StorageError):
    """Storage reports that the directory or bucket of a warehouse does not exist."""


class Listings:
    """Lists each warehouse at start and then every minute, in the background, and warns of failures.

    ``listable``: success of the last listing by name, once there was one. ``missing``: names of warehouses
    whose directory or bucket does not exist.
    """

    def __init__(self, warehouses: Mapping[str, Warehouse]) -> None:
        self._warehouses = warehouses
        self._ended = threading.Event()
        self.listable: dict[str, bool] = {}
        self.missing: set[str] = set()

    def start(self) -> None:
        """Start a thread per warehouse, so that one that hangs does not hold up the others."""
        for warehouse in self._warehouses.values():
            threading.Thread(
                target=self._watch, args=(warehouse,), name=f"list {warehouse.name}", daemon=True
            ).start()

    def stop(self) -> None:
        """Stop the listings."""
        self._ended.set()

    @property
    def failing(self) -> int:
        """Number of warehouses whose last listing failed."""
        return sum(not is_listable for is_listable in self.listable.values())

    @property
    def all_missing(self) -> bool:
        """True if no warehouse exists."""
        return len(self.missing) == len(self._warehouses)

    def check(self, warehouse: Warehouse) -> None:
        """List one warehouse. Warn when listing begins to fail."""
        try:
            with time_limit(_CHECK_SECONDS):
                check_listable(warehouse)
        except PaimonIndexError as error:
            if self.listable.get(warehouse.name, True):
                _log.warning("%s", error)
            self.listable[warehouse.name] = False
            if isinstance(error, MissingWarehouseError):
                self.missing.add(warehouse.name)
        else:
            self.listable[warehouse.name] = True
            self.missing.discard(warehouse.name)

    def _watch(self, warehouse: Warehouse) -> None:
        while not self._ended.is_set():
            self.check(warehouse)
            self._ended.wait(_PAUSE_SECONDS)
