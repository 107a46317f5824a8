"""Copies of golden tables, to be damaged, committed to and planned."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import orjson

from app.planning.plan.answers import Plan
from app.planning.request.requests import PlanRequest, TableRef
from app.planning.service import IndexService
from app.storage import ByteCache, Readers, Warehouse
from app.storage.writing import Writing
from app.table import Catalog, Table, TableReader
from app.table.commits import Committer
from app.table.manifests.live_files import live_rows
from app.table.manifests.manifest_entry import ManifestEntry
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.tables import golden_ref, open_service

CopyTable: TypeAlias = "Callable[[str], CopiedTable]"


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table whose files may be changed."""

    directory: Path
    ref: TableRef
    service: IndexService

    @classmethod
    def copy(cls, golden: GoldenWarehouse, table: str, root: Path) -> Self:
        directory = golden.copy(table, root)
        return cls(directory, golden_ref(table), open_service(root))

    def plan(self, written: str | dict[str, Any] | None = None, **asked: Any) -> Plan:
        """Plan with nothing remembered from before."""
        self.service.caches.clear()
        return self.service.plan(self.ref, PlanRequest(filter=written, explain=True, **asked))

    def change_schema(self, change: Callable[[dict[str, Any]], None]) -> None:
        path = self.directory / "schema" / "schema-0"
        document = json.loads(path.read_bytes())
        change(document)
        path.write_text(json.dumps(document))


GROWING: Final = "append_dv32"
FIRST_SNAPSHOT: Final = 3
"""The latest snapshot to begin with."""


@dataclass(frozen=True, slots=True)
class GrowingTable:
    """A golden table whose last snapshots are hidden, so that a test can commit them again."""

    warehouse: Path
    directory: Path

    @classmethod
    def copy(cls, golden: GoldenWarehouse, warehouse: Path) -> Self:
        directory = golden.copy(GROWING, warehouse)
        for file in directory.glob("snapshot/snapshot-*"):
            if int(file.name.removeprefix("snapshot-")) > FIRST_SNAPSHOT:
                file.rename(directory / f"hidden-{file.name}")
        (directory / "snapshot" / "LATEST").write_text(str(FIRST_SNAPSHOT))
        return cls(warehouse, directory)

    def commit(self, snapshot_id: int) -> None:
        """Bring a snapshot back, which becomes the latest."""
        snapshots = self.directory / "snapshot"
        (self.directory / f"hidden-snapshot-{snapshot_id}").rename(snapshots / f"snapshot-{snapshot_id}")
        (snapshots / "LATEST").write_text(str(snapshot_id))

    def schema(self) -> dict[str, Any]:
        newest = max(
            (self.directory / "schema").iterdir(), key=lambda path: int(path.name.rpartition("-")[2])
        )
        document: dict[str, Any] = json.loads(newest.read_text())
        return document

    def alter(self, *, options: dict[str, str] | None = None, **changes: Any) -> None:
        """Make a newer schema, as ALTER does, and no snapshot."""
        old = self.schema()
        new = {**old, **changes, "id": old["id"] + 1, "options": {**old["options"], **(options or {})}}
        (self.directory / "schema" / f"schema-{new['id']}").write_text(json.dumps(new))


@dataclass(frozen=True, slots=True)
class WritableTable:
    """A table as one process sees it, with caches of its own."""

    table: Table
    warehouse: Warehouse

    @classmethod
    def of(cls, warehouse: Warehouse, name: str) -> Self:
        def cache(kind: str) -> ByteCache[Any]:
            return ByteCache(kind, 1 << 24, lambda each: int(each.nbytes))

        reader = TableReader(warehouse, cache("metadata"), cache("manifests"), warehouse.readers)
        return cls(Catalog(reader).table(DATABASE, name), warehouse)

    @property
    def committer(self) -> Committer:
        return Committer(self.table, Writing(self.warehouse))

    def entries(self) -> list[ManifestEntry]:
        manifests = self.table.metadata.manifests(self.table.resolve())
        return [
            manifest.entry(row)
            for manifest, rows in zip(manifests, live_rows(manifests), strict=True)
            for row in rows.tolist()
        ]

    def snapshot(self) -> dict[str, Any]:
        resolved = self.table.resolve().snapshot
        assert resolved is not None
        content = self.warehouse.read(f"{self.table.directory}/snapshot/snapshot-{resolved.id}")
        document: dict[str, Any] = orjson.loads(content)
        return document


def open_table(root: Path, name: str) -> WritableTable:
    return WritableTable.of(Warehouse("main", str(root), readers=Readers(2)), name)


def files_below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
