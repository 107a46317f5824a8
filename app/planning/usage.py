"""Counters of the plans of each table: reads saved, indexes that helped, and filters of callers.

Filters are counted by shape (:mod:`app.predicates.model`), so that no value of a caller is stored. Counters
start with the process. The tables planned last are remembered.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cachetools import LRUCache

from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import SkipStep
from app.planning.version.version import Version
from app.types import Json

CALLS_OF_A_FILE: Final = 2
"""Minimum number of calls to read a data file: one for the footer, one for the columns."""

_TABLES: Final = 1_000
# Shapes remembered per table; the least recently used is evicted.
_SHAPES: Final = 64


@dataclass(slots=True)
class TableUsage:
    """Counters of one table."""

    plans: int = 0  # Cached ones included, further pages excluded.
    files: int = 0  # Data files that file indexes skipped, and no earlier step.
    bytes: int = 0  # Bytes of these files.
    # Plans with a test on a column, in which neither bounds nor an index skipped a file.
    columns: Counter[str] = field(default_factory=Counter)
    # By column and kind: plans with a test on a column whose options declare this index.
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Plans among these in which an index of this kind skipped a file.
    useful: Counter[tuple[str, str]] = field(default_factory=Counter)
    shapes: LRUCache[str, int] = field(default_factory=lambda: LRUCache(_SHAPES))

    def add(self, version: Version, plan: Plan, *, with_shape: bool) -> None:
        """Count a plan of a version."""
        self.plans += 1
        self.files += sum(plan.skipped_by_index.values())
        self.bytes += plan.bytes_skipped_by_index
        by_values = plan.summary.skipped_by.keys() - {SkipStep.PARTITION, SkipStep.BUCKET}
        if plan.summary.files_kept and not any(plan.summary.skipped_by[step] for step in by_values):
            self.columns.update(plan.filter_columns)
        for declared in version.schema.options.file_indexes:
            if declared.column in plan.filter_columns:
                self.asked[declared.column, declared.kind] += 1
                self.useful[declared.column, declared.kind] += bool(plan.skipped_by_index.get(declared.kind))
        if with_shape and plan.filter_shape:
            self.shapes[plan.filter_shape] = self.shapes.get(plan.filter_shape, 0) + 1

    def merge(self, other: TableUsage) -> None:
        """Add the counts of another process."""
        self.plans += other.plans
        self.files += other.files
        self.bytes += other.bytes
        self.columns.update(other.columns)
        self.asked.update(other.asked)
        self.useful.update(other.useful)
        for shape, count in other.shapes.items():
            self.shapes[shape] = self.shapes.get(shape, 0) + count

    def most_asked_shapes(self) -> list[str]:
        """List the shapes of filters, the one with the most plans first."""
        return sorted(self.shapes, key=lambda shape: -self.shapes[shape])

    def to_json(self) -> Json:
        """Return the counters for :meth:`of_json` in another process."""
        return {
            "plans": self.plans,
            "files": self.files,
            "bytes": self.bytes,
            "columns": dict(self.columns),
            "asked": [[column, kind, count] for (column, kind), count in self.asked.items()],
            "useful": [[column, kind, count] for (column, kind), count in self.useful.items()],
            "shapes": dict(self.shapes.items()),
        }

    @classmethod
    def of_json(cls, members: Mapping[str, Any]) -> TableUsage:
        """Restore the counters from :meth:`to_json`."""
        usage = cls(members["plans"], members["files"], members["bytes"], Counter(members["columns"]))
        for name, counter in (("asked", usage.asked), ("useful", usage.useful)):
            counter.update({(column, kind): count for column, kind, count in members[name]})
        usage.shapes.update(members["shapes"])
        return usage


class Usage:
    """Counters of every table, in one process."""

    def __init__(self, *, with_shapes: bool = True) -> None:
        self._with_shapes = with_shapes
        self._lock = threading.Lock()
        self._tables: LRUCache[tuple[str, str], TableUsage] = LRUCache(_TABLES)

    def add(self, version: Version, plan: Plan) -> None:
        """Count a plan of a version."""
        place = version.source.warehouse.name, version.table.directory
        with self._lock:
            usage = self._tables.get(place)
            if usage is None:
                usage = self._tables[place] = TableUsage()
            usage.add(version, plan, with_shape=self._with_shapes)

    def of_table(self, version: Version) -> TableUsage:
        """Return a copy of the counters of a version's table."""
        copy = TableUsage()
        with self._lock:
            usage = self._tables.get((version.source.warehouse.name, version.table.directory))
            if usage is not None:
                copy.merge(usage)
        return copy

    def to_json(self) -> list[Json]:
        """List every table with its counters."""
        with self._lock:
            return [
                [warehouse, directory, usage.to_json()]
                for (warehouse, directory), usage in self._tables.items()
            ]
