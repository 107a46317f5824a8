"""What the plans of each table came to: what they spared, which indexes helped, which filters were asked.

Filters are counted by their shape (:mod:`app.predicates.model`), so that no value of a caller is kept.
Counting begins with the process, and the tables that were planned last are remembered.

==========  ==================================================================================================
number      what it counts
==========  ==================================================================================================
plans       plans, remembered ones included, but no further pages
files       data files that file indexes left out, and nothing before them
bytes       of these files
asked       plans with a test on a column that has this index by the table's options
useful      those of them in which an index of this kind left out a file
==========  ==================================================================================================
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cachetools import LRUCache

from app.planning.plan.answers import Plan
from app.planning.version.version import Version
from app.types import Json

CALLS_OF_A_FILE: Final = 2
"""The fewest calls that a reader makes for a data file: for its footer, and for its columns."""

_TABLES: Final = 1_000
_SHAPES: Final = 64
"""Of a table; those that were asked last are remembered."""


@dataclass(slots=True)
class TableUsage:
    """What the plans of one table came to, in the terms of this module."""

    plans: int = 0
    files: int = 0
    bytes: int = 0
    columns: Counter[str] = field(default_factory=Counter)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    useful: Counter[tuple[str, str]] = field(default_factory=Counter)
    shapes: LRUCache[str, int] = field(default_factory=lambda: LRUCache(_SHAPES))

    def add(self, version: Version, plan: Plan, *, with_shape: bool) -> None:
        """Counts a plan of a version."""
        self.plans += 1
        self.files += sum(plan.skipped_by_index.values())
        self.bytes += plan.bytes_skipped_by_index
        self.columns.update(plan.filter_columns)
        for declared in version.schema.options.file_indexes:
            if declared.column in plan.filter_columns:
                self.asked[declared.column, declared.kind] += 1
                self.useful[declared.column, declared.kind] += bool(plan.skipped_by_index.get(declared.kind))
        if with_shape and plan.filter_shape:
            self.shapes[plan.filter_shape] = self.shapes.get(plan.filter_shape, 0) + 1

    def merge(self, other: TableUsage) -> None:
        """Adds what another process has counted."""
        self.plans += other.plans
        self.files += other.files
        self.bytes += other.bytes
        self.columns.update(other.columns)
        self.asked.update(other.asked)
        self.useful.update(other.useful)
        for shape, count in other.shapes.items():
            self.shapes[shape] = self.shapes.get(shape, 0) + count

    def most_asked_shapes(self) -> list[str]:
        """The shapes of filters, that of the most plans first."""
        return sorted(self.shapes, key=lambda shape: -self.shapes[shape])

    def to_json(self) -> Json:
        """For :meth:`of_json` of another process."""
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
        """What :meth:`to_json` gave."""
        usage = cls(members["plans"], members["files"], members["bytes"], Counter(members["columns"]))
        for name, counter in (("asked", usage.asked), ("useful", usage.useful)):
            counter.update({(column, kind): count for column, kind, count in members[name]})
        usage.shapes.update(members["shapes"])
        return usage


class Usage:
    """The usage of every table, in one process."""

    def __init__(self, *, with_shapes: bool = True) -> None:
        self._with_shapes = with_shapes
        self._lock = threading.Lock()
        self._tables: LRUCache[tuple[str, str], TableUsage] = LRUCache(_TABLES)

    def add(self, version: Version, plan: Plan) -> None:
        """Counts a plan of a version."""
        place = version.source.warehouse.name, version.table.directory
        with self._lock:
            usage = self._tables.get(place)
            if usage is None:
                usage = self._tables[place] = TableUsage()
            usage.add(version, plan, with_shape=self._with_shapes)

    def of_table(self, version: Version) -> TableUsage:
        """A copy of what is known of the table of a version."""
        copy = TableUsage()
        with self._lock:
            usage = self._tables.get((version.source.warehouse.name, version.table.directory))
            if usage is not None:
                copy.merge(usage)
        return copy

    def to_json(self) -> list[Json]:
        """Every table with its usage."""
        with self._lock:
            return [
                [warehouse, directory, usage.to_json()]
                for (warehouse, directory), usage in self._tables.items()
            ]
