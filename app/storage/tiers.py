"""Where decoded columns lie beneath memory: a directory of this machine, then a store that processes share.

Each entry holds what was made of one file that never changes. Whoever makes it looks for it here first, and
puts it here if nobody has it: nothing else knows in which of the two it lies.
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
    """The tiers of a service, each if there is one."""

    directory: DiskTier | None = None
    store: SharedTier | None = None

    @property
    def on_disk(self) -> Tiers:
        """The directory alone, for what processes do not share."""
        return replace(self, store=None)

    def entry(self, warehouse: str, path: str, size: int | None, form: str) -> TierEntry | None:
        """The entry of one thing made of a file; None without tiers.

        Args:
            warehouse: its URL, which is the same in every process.
            size: bytes of the file, if metadata state them.
            form: what was made of the file; it goes up with every change of what that is.
        """
        if self.directory is None and self.store is None:
            return None
        return TierEntry(self, entry_key(warehouse, path, size, form))


@dataclass(frozen=True, slots=True)
class TierEntry:
    """An entry of columns, wherever it lies."""

    tiers: Tiers
    key: bytes

    @property
    def is_on_disk(self) -> bool:
        """Tells whether the directory has the entry, whatever is in it."""
        return self.tiers.directory is not None and self.tiers.directory.has(self.key)

    def get(self) -> Columns | None:
        """The columns, mapped, if the directory has them."""
        return None if self.tiers.directory is None else self.tiers.directory.get(self.key)

    def fetch(self, expected_bytes: int = 0) -> Columns | None:
        """The columns, if the store has them; from now on the directory has them too.

        Args:
            expected_bytes: of the columns, as far as known.

        Raises DeadlineExceededError: the request's time ran out.
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
        """Keeps columns, each of one item, in the directory."""
        if self.tiers.directory is not None:
            self.tiers.directory.put(self.key, columns)

    def share(self, columns: Mapping[str, pa.Array]) -> None:
        """Leaves columns in the store, in the background, unless it has them."""
        if self.tiers.store is not None:
            self.tiers.store.offer(self.key, columns)

    def drop(self) -> None:
        """Forgets columns that turned out to be damaged."""
        if self.tiers.directory is not None:
            self.tiers.directory.drop(self.key)
