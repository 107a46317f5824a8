"""A golden table whose last snapshots are hidden, so that a test can commit them again."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.golden_tables import DATABASE, GoldenWarehouse

TABLE: Final = "append_dv32"
FIRST: Final = 3
"""The latest snapshot to begin with."""


@dataclass(frozen=True, slots=True)
class GrowingTable:
    """A copy of the table."""

    warehouse: Path
    directory: Path

    @classmethod
    def copy(cls, golden: GoldenWarehouse, warehouse: Path) -> GrowingTable:
        """A copy inside of an empty warehouse."""
        directory = warehouse / f"{DATABASE}.db" / TABLE
        shutil.copytree(golden.table(TABLE), directory)
        for file in directory.glob("snapshot/snapshot-*"):
            if int(file.name.removeprefix("snapshot-")) > FIRST:
                file.rename(directory / f"hidden-{file.name}")
        (directory / "snapshot" / "LATEST").write_text(str(FIRST))
        return cls(warehouse, directory)

    def commit(self, snapshot_id: int) -> None:
        """Brings a snapshot back, which becomes the latest."""
        snapshots = self.directory / "snapshot"
        (self.directory / f"hidden-snapshot-{snapshot_id}").rename(snapshots / f"snapshot-{snapshot_id}")
        (snapshots / "LATEST").write_text(str(snapshot_id))
