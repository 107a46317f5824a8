"""Golden tables that tests may damage: copies of their own, and the service that plans them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import FilePlan
from app.planning.request.limits import CacheBytes, Limits
from app.planning.request.requests import PlanRequest, TableRef
from app.planning.service import IndexService
from app.storage import DiskTier, Warehouse
from app.storage.shared_tier import SharedTier
from tests.golden_tables import DATABASE, GoldenWarehouse


def open_service(  # noqa: PLR0913 - what differs between tests
    root: Path,
    allow_external: Sequence[str] = (),
    *,
    disk: DiskTier | None = None,
    shared: SharedTier | None = None,
    time_zone: str | None = "UTC",
    cache_bytes: CacheBytes | None = None,
    engine_writes_only: bool = False,
    url: str | None = None,
) -> IndexService:
    """A service of one warehouse, named ``golden``, in a directory or at another URL."""
    warehouse = Warehouse(
        "golden",
        url or root.as_uri(),
        allow_external=allow_external,
        disk=disk,
        engine_writes_only=engine_writes_only,
    )
    return IndexService(
        {"golden": warehouse},
        cache_bytes=cache_bytes or CacheBytes(),
        limits=Limits(),
        time_zone=time_zone,
        disk=disk,
        shared=shared,
    )


def golden_ref(table: str) -> TableRef:
    return TableRef("golden", DATABASE, table)


def equals(values: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON filter that holds each column to a value."""
    return {
        "kind": "COMPOUND",
        "function": "AND",
        "children": [
            {
                "kind": "LEAF",
                "transform": {"name": "FIELD_REF", "fieldRef": {"name": column, "type": "INT"}},
                "function": "EQUAL",
                "literals": [value],
            }
            for column, value in values.items()
        ],
    }


def either(*filters: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "COMPOUND", "function": "OR", "children": list(filters)}


def all_files(plan: Plan) -> tuple[FilePlan, ...]:
    """Kept and skipped files of a plan that was asked to explain itself."""
    return (*plan.files, *plan.skipped_files)


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table whose files may be changed."""

    directory: Path
    ref: TableRef
    service: IndexService

    @classmethod
    def copy(cls, golden: GoldenWarehouse, table: str, root: Path) -> CopiedTable:
        directory = root / f"{DATABASE}.db" / table
        shutil.copytree(golden.table(table), directory)
        return cls(directory, golden_ref(table), open_service(root))

    def plan(self, written: str | dict[str, Any] | None = None, **asked: Any) -> Plan:
        """Plans with nothing remembered from before."""
        self.service.clear_caches()
        return self.service.plan(self.ref, PlanRequest(filter=written, explain=True, **asked))

    def change_schema(self, change: Callable[[dict[str, Any]], None]) -> None:
        path = self.directory / "schema" / "schema-0"
        document = json.loads(path.read_bytes())
        change(document)
        path.write_text(json.dumps(document))
