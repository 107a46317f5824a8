"""Counts the rows of each value of a column.

For partition columns, no index is needed. For others, reading one file's index takes 20 to 400 µs. So the sum
over a manifest's files in one partition, which never changes, is cached with the manifest. The sum is used
only if the version has all of these files and all of their rows match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.aggregates.answers import AggregateGroup, AggregateValue
from app.aggregates.question import ResolvedRequest
from app.aggregates.values import NotKnownError, open_files, partition_counts
from app.errors import CorruptIndexError
from app.planning import Version
from app.planning.plan import PlanState
from app.table.manifests import FileKind
from app.types import DataField, Value, sql_key, to_json
from app.types.values import group_rows

# Number of rows by value (None: NULL).
_Counts: TypeAlias = Mapping[Value | None, int]

_BYTES_OF_VALUE: Final = 150


@dataclass(slots=True, eq=False)
class Facets:
    """Number of rows of each value of a question's group column."""

    version: Version
    question: ResolvedRequest
    state: PlanState
    column: DataField
    warnings: list[str] = field(default_factory=list)
    # Keyed by SQL equality: the first of the equal values, and the number of rows.
    _sizes: dict[Any, tuple[Value | None, int]] = field(default_factory=dict)

    def take(self, files: NDArray[np.int64]) -> list[int]:
        """Count the rows of files whose matching rows are known. Return files whose values are unknown."""
        if self.column.id in self.question.doubts:
            return [int(file) for file in files]
        if self._position is not None:
            self._add(partition_counts(self.version, self.state, self._position, files))
            return []
        open_numbers = dict.fromkeys(files.tolist())
        if self.version.schema.options.file_index_read:
            for at, counts in _cached_counts(self.version, self.state, self.column, files):
                self._add(counts.items())
                for file in files[at].tolist():
                    del open_numbers[file]
        single = np.array(list(open_numbers), np.int64)
        for values in open_files(self.version, self.state, single, [self.column.id], self.warnings):
            try:
                counts_of_file = list(values.counts(self.column, *values.matching()))
            except NotKnownError:
                continue
            except CorruptIndexError as error:
                name = self.state.files.name(values.file)
                self.warnings.append(f"the index of {name} is not used: {error}")
                continue
            self._add(counts_of_file)
            del open_numbers[values.file]
        return list(open_numbers)

    def groups(self, opened: NDArray[np.int64], top: int | None) -> tuple[list[AggregateGroup], int]:
        """Return the ``top`` largest groups and the number of groups. Rows of ``opened`` may add to each."""
        if self._position is None:
            rows = int(self.state.rows_left[opened].sum())
            may_add = dict.fromkeys(self._sizes, rows)
        else:
            # The values of partition columns are known, even if the matching rows of a file are not.
            may_add = {}
            for value, rows in partition_counts(self.version, self.state, self._position, opened):
                may_add[self._key(value)] = may_add.get(self._key(value), 0) + rows
                self._add([(value, 0)])
        groups = sorted(self._sizes.items(), key=lambda item: -item[1][1])
        return [
            AggregateGroup(
                {self.column.name: to_json(value, self.column.type)},
                rows,
                [self._count(rows, may_add.get(key, 0), is_open=key in may_add and len(opened) > 0)]
                * len(self.question.aggregates),
            )
            for key, (value, rows) in groups[:top]
        ], len(groups)

    @property
    def _position(self) -> int | None:
        return self.question.places.get(self.column.id)

    def _key(self, value: Value | None) -> Any:
        return None if value is None else sql_key(self.column.type)(value)

    def _add(self, counts: Iterable[tuple[Value | None, int]]) -> None:
        for value, size in counts:
            key = self._key(value)
            first, before = self._sizes.get(key, (value, 0))
            self._sizes[key] = first, before + size

    def _count(self, rows: int, additional: int, *, is_open: bool) -> AggregateValue:
        aggregate, _ = self.question.aggregates[0]
        value = None if is_open else rows
        return AggregateValue(aggregate.function, None, not is_open, value, rows, rows + additional, rows)


def _cached_counts(
    version: Version, state: PlanState, column: DataField, files: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], _Counts]]:
    """Yield positions in ``files`` and counts for each partition of a manifest of which every row remains."""
    columns = state.files.columns
    is_whole = state.rows_left[files] == columns.row_counts[files]
    for number, part, rows in state.files.by_manifest(files):
        manifest = state.files.manifests[number]
        totals = np.bincount(manifest.partition_codes[manifest.kinds == FileKind.ADD])
        codes, whole = manifest.partition_codes[rows], is_whole[part]
        for members in group_rows(codes):
            code = int(codes[members[0]])
            if len(members) < totals[code] or not whole[members].all():
                continue
            at = part.start + members
            counts = manifest.derived.get_or_make(
                ("facets", column.id, column.type, code),
                partial(_count_all, version, state, column, files[at]),
                lambda made: _BYTES_OF_VALUE * len(made or ()),
            )
            if counts is not None:
                yield at, counts


def _count_all(
    version: Version, state: PlanState, column: DataField, files: NDArray[np.int64]
) -> _Counts | None:
    """Count all rows of files by value. Return None if an index does not determine them."""
    counts: Counter[Value | None] = Counter()
    remaining = len(files)
    for values in open_files(version, state, files, [column.id], []):
        try:
            for value, size in values.counts(column, None, int(state.files.columns.row_counts[values.file])):
                counts[value] += size
        except (NotKnownError, CorruptIndexError):
            return None
        remaining -= 1
    return None if remaining else counts
