"""What a table costs that only jobs write to: commits of one file each, with and without merged manifests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from app.planning.request.requests import PlanRequest, SelectionForm
from app.storage import ByteCache, Warehouse
from app.storage.writing import Writing
from app.table.commits import Changes, CommitKind, Committer
from app.table.storage import TableReader
from app.table.table import Catalog
from benchmarks.events import DATABASE, TABLE
from benchmarks.services import EVENTS, NO_INDEX, open_service
from benchmarks.synthetic import table_directory, write_table
from benchmarks.workload import Figure, Suite, Unit, Workload

COMMITS: Final = 300
FILES: Final = 100
"""Data files of the table before the first commit."""
_NEVER: Final = {"manifest.merge-min-count": str((1 << 31) - 1)}
WAYS: Final[Mapping[str, Mapping[str, str]]] = {"manifests merged": {}, "manifests not merged": _NEVER}
"""What results call them, and the options of the table."""
_SECONDS: Final = "seconds.json"


def suites() -> Iterator[Suite]:
    """Both ways, one after the other."""
    yield Suite(f"{COMMITS} commits", _items, _prepare)


def commit_name(way: str) -> str:
    """Return what results call a commit."""
    return f"commit of a job, {way}"


def plan_name(way: str) -> str:
    """Return what results call the first plan afterwards."""
    return f"first plan of a table of {COMMITS} commits, {way}"


def _warehouse(directory: Path, way: str) -> Path:
    return directory / f"merging-{way.replace(' ', '-')}"


def _prepare(directory: Path) -> None:
    """Make the tables, and note what each commit took."""
    for way, options in WAYS.items():
        warehouse = _warehouse(directory, way)
        write_table(warehouse, NO_INDEX, FILES, 1)
        schema = table_directory(warehouse) / "schema" / "schema-0"
        document = json.loads(schema.read_text())
        schema.write_text(json.dumps(document | {"options": document["options"] | options}))
        (warehouse / _SECONDS).write_text(json.dumps(list(_commit(warehouse))))


def _commit(root: Path) -> Iterator[float]:
    """Commit a file at a time; the seconds of each."""

    def cache(kind: str) -> ByteCache[Any]:
        return ByteCache(kind, 1 << 28, lambda each: int(each.nbytes))

    warehouse = Warehouse("main", str(root))
    reader = TableReader(warehouse, cache("metadata"), cache("manifests"), warehouse.readers)
    table = Catalog(reader).table(DATABASE, TABLE)
    committer = Committer(table, Writing(warehouse))
    like = table.metadata.manifests(table.resolve())[0].entry(0)
    for number in range(COMMITS):
        added = replace(like, file=replace(like.file, file_name=f"data-new-{number}.parquet"))
        start = time.perf_counter()
        committer.commit(Changes(CommitKind.APPEND, (added,)))
        yield time.perf_counter() - start


def _items(directory: Path) -> Iterator[Figure | Workload]:
    for way in WAYS:
        warehouse = _warehouse(directory, way)
        taken = sorted(json.loads((warehouse / _SECONDS).read_text()))
        yield Figure(
            commit_name(way), FILES, Unit.MILLISECONDS, 1e3 * median(taken), 1e3 * taken[-1], len(taken)
        )

        def plan(warehouse: Path = warehouse) -> int:
            with closing(open_service(warehouse)) as service:
                return service.plan(EVENTS, PlanRequest(selection=SelectionForm.NONE)).summary.files_kept

        yield Workload(plan_name(way), FILES + COMMITS, plan, is_cold=True)
