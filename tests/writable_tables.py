"""Copies of golden tables that tests commit to."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from app.storage import ByteCache, Readers, Warehouse
from app.storage.writing import Writing
from app.table.commits import Committer
from app.table.manifests.live_files import live_rows
from app.table.manifests.manifest_entry import ManifestEntry
from app.table.storage import TableReader
from app.table.table import Catalog, Table
from tests.golden_tables import DATABASE, GoldenWarehouse


@dataclass(frozen=True, slots=True)
class WritableTable:
    """A table as one process sees it, with caches of its own."""

    table: Table
    warehouse: Warehouse

    @classmethod
    def of(cls, warehouse: Warehouse, name: str) -> WritableTable:
        def cache(kind: str) -> ByteCache[Any]:
            return ByteCache(kind, 1 << 24, lambda each: int(each.nbytes))

        reader = TableReader(warehouse, cache("metadata"), cache("manifests"), warehouse.readers)
        return cls(Catalog(reader).table(DATABASE, name), warehouse)

    @property
    def committer(self) -> Committer:
        """A new one."""
        return Committer(self.table, Writing(self.warehouse))

    def entries(self) -> list[ManifestEntry]:
        """The files of the latest snapshot."""
        manifests = self.table.metadata.manifests(self.table.resolve())
        return [
            manifest.entry(row)
            for manifest, rows in zip(manifests, live_rows(manifests), strict=True)
            for row in rows.tolist()
        ]

    def snapshot(self) -> dict[str, Any]:
        """The document of the latest snapshot."""
        resolved = self.table.resolve().snapshot
        assert resolved is not None
        content = self.warehouse.read(f"{self.table.directory}/snapshot/snapshot-{resolved.id}")
        document: dict[str, Any] = orjson.loads(content)
        return document


def copy_table(golden: GoldenWarehouse, name: str, root: Path) -> Path:
    """A golden table in a new warehouse; the directory of the table."""
    directory = root / f"{DATABASE}.db" / name
    shutil.copytree(golden.table(name), directory)
    return directory


def open_table(root: Path, name: str) -> WritableTable:
    """A table of a warehouse on this machine."""
    return WritableTable.of(Warehouse("main", str(root), readers=Readers(2)), name)


def files_below(directory: Path) -> set[str]:
    """Paths of all files."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
