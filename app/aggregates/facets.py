"""How many rows have each value of a column.

Of partition columns that is known without an index. Of others one file's index takes 20 to 400 µs. What all
files give that a manifest has of a partition never changes, so it is made once and stays with the manifest;
where a version has all of them, and every row of them counts, it is looked up.
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
from app.aggregates.question import Question
from app.aggregates.values import NotKnownError, open_files, partition_counts
from app.errors import CorruptIndexError
from app.planning import Version
from app.planning.plan import PlanState
from app.table.manifests import FileKind
from app.types import DataField, Value, sql_key, to_json
from app.types.values import group_rows

_Counts: TypeAlias = Mapping[Value | None, int]
"""How many rows have each value (None: NULL)."""

_BYTES_OF_VALUE: Final = 150


@dataclass(slots=True, eq=False)
class Facets:
    """The rows of each value of a question's group."""

    version: Version
    question: Question
    state: PlanState
    column: DataField
    warnings: list[str] = field(default_factory=list)
    _sizes: dict[Any, tuple[Value | None, int]] = field(default_factory=dict)
    """By what SQL holds equal: one of the values, and the number of rows."""

    def take(self, files: NDArray[np.int64]) -> list[int]:
        """Counts the rows of files whose matching rows are known; gives those whose values are not."""
        if self.column.id in self.question.doubts:
            return [int(file) for file in files]
        if self._place is not None:
            self._add(partition_counts(self.version, self.state, self._place, files))
            return []
        left = dict.fromkeys(files.tolist())
        if self.version.schema.options.file_index_read:
            for at, counts in _remembered(self.version, self.state, self.column, files):
                self._add(counts.items())
                for file in files[at].tolist():
                    del left[file]
        single = np.array(list(left), np.int64)
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
            del left[values.file]
        return list(left)

    def groups(self, opened: NDArray[np.int64], top: int | None) -> tuple[list[AggregateGroup], int]:
        """The values of most rows, with what open files may add; and how many values there are."""
        if self._place is None:
            rows = int(self.state.rows_left[opened].sum())
            may_add = dict.fromkeys(self._sizes, rows)
        else:
            # A partition's value is known of open files, too.
            may_add = {}
            for value, rows in partition_counts(self.version, self.state, self._place, opened):
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
    def _place(self) -> int | None:
        return self.question.places.get(self.column.id)

    def _key(self, value: Value | None) -> Any:
        return None if value is None else sql_key(self.column.type)(value)

    def _add(self, counts: Iterable[tuple[Value | None, int]]) -> None:
        for value, size in counts:
            key = self._key(value)
            first, before = self._sizes.get(key, (value, 0))
            self._sizes[key] = first, before + size

    def _count(self, rows: int, more: int, *, is_open: bool) -> AggregateValue:
        asked, _ = self.question.aggregates[0]
        value = None if is_open else rows
        return AggregateValue(asked.function, None, not is_open, value, rows, rows + more, rows)


def _remembered(
    version: Version, state: PlanState, column: DataField, files: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], _Counts]]:
    """Positions in ``files`` of all that a manifest has of a partition, and their counts."""
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
                partial(_counted, version, state, column, files[at]),
                lambda made: _BYTES_OF_VALUE * len(made or ()),
            )
            if counts is not None:
                yield at, counts


def _counted(
    version: Version, state: PlanState, column: DataField, files: NDArray[np.int64]
) -> _Counts | None:
    """The counts of all rows of files; None where an index does not tell them."""
    counts: Counter[Value | None] = Counter()
    left = len(files)
    for values in open_files(version, state, files, [column.id], []):
        try:
            for value, size in values.counts(column, None, int(state.files.columns.row_counts[values.file])):
                counts[value] += size
        except (NotKnownError, CorruptIndexError):
            return None
        left -= 1
    return None if left else counts
