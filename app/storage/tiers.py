"""Decoded columns beneath memory: a directory of this machine, then a store that processes share.

An entry holds columns derived from one immutable file. Callers look it up here before they decode the file,
and put it here afterwards. They need not care which tier has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from app.storage.disk.column_entry import Columns, DamagedEntryError
from app.storage.disk.disk_tier import DiskTier, entry_key
from app.storage.shared_tier import SharedTier


@dataclass(frozen=True, slots=True)
class Tiers:
    """The tiers of a service, each optional."""

    directory: DiskTier | None = None
    store: SharedTier | None = None

    @property
    def on_disk(self) -> Tiers:
        """The directory alone, for entries that processes do not share."""
        return replace(self, store=None)

    def entry(self, warehouse: str, path: str, size: int | None, form: str) -> TierEntry | None:
        """Return the entry of something derived from a file. Return None without tiers.

        ``warehouse``: its URL, equal in every process. ``size``: bytes of the file, if metadata state them.
        ``form``: kind and version of the derived columns.
        """
        if self.directory is None and self.store is None:
            return None
        return TierEntry(self, entry_key(warehouse, path, size, form))


@dataclass(frozen=True, slots=True)
class TierEntry:
    """An entry of columns, in any tier."""

    tiers: Tiers
    key: bytes

    @property
    def is_on_disk(self) -> bool:
        """True if the directory has the entry, whatever its content."""
        return self.tiers.directory is not None and self.tiers.directory.has(self.key)

    def get(self) -> Columns | None:
        """Map the columns from the directory. Return None if it lacks them."""
        return None if self.tiers.directory is None else self.tiers.directory.get(self.key)

    def fetch(self, expected_bytes: int = 0) -> Columns | None:
        """Read the columns from the store, and copy them to the directory.

        Return None if the store lacks them.

        ``expected_bytes``: size of the columns, if known. Raises DeadlineExceededError.
        """
        directory, store = self.tiers.directory, self.tiers.store
        entry = None if store is None else store.get(self.key, expected_bytes)
        if entry is None:
            return None
        if directory is not None:
            directory.put_entry(self.key, [pa.py_buffer(entry)])
            if (mapped := directory.get(self.key)) is not None:
                return mapped
        try:
            return Columns.read(self.key, entry, held=len(entry))
        except DamagedEntryError:
            return None

    def put(self, columns: Mapping[str, pa.Array]) -> None:
        """Write columns, each of one item, to the directory."""
        if self.tiers.directory is not None:
            self.tiers.directory.put(self.key, columns)

    def share(self, columns: Mapping[str, pa.Array]) -> None:
        """Write columns to the store in the background, unless it has them."""
        if self.tiers.store is not None:
            self.tiers.store.offer(self.key, columns)

    def drop(self) -> None:
        """Remove damaged columns from the directory."""
        if self.tiers.directory is not None:
            self.tiers.directory.drop(self.key)
