"""A golden table whose last snapshots are hidden, so that a test can commit them again."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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

    def schema(self) -> dict[str, Any]:
        """The newest schema."""
        newest = max(
            (self.directory / "schema").iterdir(), key=lambda path: int(path.name.rpartition("-")[2])
        )
        document: dict[str, Any] = json.loads(newest.read_text())
        return document

    def alter(self, *, options: dict[str, str] | None = None, **changes: Any) -> None:
        """Makes a newer schema, as ALTER does, and no snapshot."""
        old = self.schema()
        new = {**old, **changes, "id": old["id"] + 1, "options": {**old["options"], **(options or {})}}
        (self.directory / "schema" / f"schema-{new['id']}").write_text(json.dumps(new))
