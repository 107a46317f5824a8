"""COUNT, MIN, MAX and SUM of all rows, over the files of which what they need is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.aggregates.answers import Aggregate, AggregateGroup, AggregateValue, Function
from app.aggregates.question import Question, type_of
from app.aggregates.values import Ends, FileValues, NotKnownError, open_files, partition_counts
from app.errors import CorruptIndexError, RequestError
from app.planning.plan.state import PlanState
from app.planning.version.file_bounds import FileBounds
from app.planning.version.version import Version
from app.predicates.verdicts import ColumnBounds
from app.table.statistics.statistics import bounds_are_values
from app.types import DataField, DataType, TypeRoot, Value, to_json
from app.types.values import sql_key

Counts: TypeAlias = Sequence[tuple[Value, int]]
"""Values of a column in some rows, and how many rows have each; of COUNT any value stands for all."""


@dataclass(slots=True, eq=False)
class _Statistics:
    """Of one aggregate: bounds of its column in files all of whose rows match, and where they tell it.

    ``is_known`` is bool, shape (k,).
    """

    bounds: ColumnBounds
    is_known: NDArray[np.bool_]

    def counts(self, at: NDArray[np.int64], function: Function) -> Counts:
        bounds = self.bounds.take(at)
        valued = bounds.row_count - bounds.null_count
        count, having = int(valued.sum()), valued > 0
        if not count or function is Function.COUNT:
            return ((0, count),) if count else ()
        is_min = function is Function.MIN
        return ((int(bounds.low[having].min() if is_min else bounds.high[having].max()), count),)


@dataclass(slots=True)
class _Part:
    """One aggregate of a question: what settled files give, and statistics of the files at hand."""

    asked: Aggregate
    column: DataField | None
    key: Callable[[Value], Any]
    statistics: _Statistics | None = None
    count: int = 0
    end: Value | None = None
    total: int = 0

    def add(self, counts: Counts) -> None:
        self.count += sum(count for _, count in counts)
        if self.asked.function is Function.SUM:
            self.total += sum(int(value) * count for value, count in counts)
        elif counts and self.asked.function is not Function.COUNT:
            values = [value for value, _ in counts] + ([] if self.end is None else [self.end])
            self.end = (min if self.asked.function is Function.MIN else max)(values, key=self.key)

    @property
    def value(self) -> Value | None:
        """None is SQL's NULL."""
        if self.asked.function is Function.COUNT:
            return self.count
        if self.asked.function is Function.SUM:
            return self.total if self.count else None
        return self.end


@dataclass(slots=True, eq=False)
class Totals:
    """The aggregates of a question without a group."""

    version: Version
    question: Question
    state: PlanState
    rows: int = 0
    warnings: list[str] = field(default_factory=list)
    _parts: list[_Part] = field(init=False)

    def __post_init__(self) -> None:
        self._parts = [
            _Part(aggregate, column, int if column is None else sql_key(column.type))
            for aggregate, column in self.question.aggregates
        ]

    def take(self, files: NDArray[np.int64]) -> list[int]:
        """Adds what files give whose matching rows are known; gives those that no aggregate has taken.

        A file is taken by all aggregates or by none: callers add what they compute of the others.
        """
        row_counts = self.state.files.columns.row_counts
        whole = files[self.state.rows_left[files] == row_counts[files]]
        is_known = np.ones(len(whole), np.bool_)
        for part in self._parts:
            part.statistics = self._statistics(part, whole)
            if not self._is_plain(part.column):
                is_known &= False if part.statistics is None else part.statistics.is_known
        if self.question.needs_values:
            at_once, at = whole[is_known], np.flatnonzero(is_known)
        else:
            at_once, at = files, np.arange(0)
        self._add(at_once, [self._counts_at_once(part, at_once, at) for part in self._parts])
        places = {file: place for place, file in enumerate(whole.tolist())}
        left = dict.fromkeys(files[~np.isin(files, at_once)].tolist())
        columns = {
            part.column.id
            for part in self._parts
            if part.column is not None and not self._is_plain(part.column)
        }
        single = np.array(list(left), np.int64)
        for values in open_files(self.version, self.state, single, columns, self.warnings):
            if self._take_file(values, places.get(values.file)):
                del left[values.file]
        return list(left)

    def groups(self, opened: NDArray[np.int64], top: int | None) -> tuple[list[AggregateGroup], int]:  # noqa: ARG002 - of groups
        """The one group, with what open files may add. RequestError: a sum is beyond its type."""
        return [AggregateGroup({}, self.rows, [self._value(part, opened) for part in self._parts])], 1

    def _is_plain(self, column: DataField | None) -> bool:
        """Whether the number of matching rows is enough: COUNT of rows, or a partition column."""
        return column is None or column.id in self.question.places

    def _add(self, files: NDArray[np.int64], counts: Sequence[Counts]) -> None:
        self.rows += int(self.state.rows_left[files].sum())
        for part, of_part in zip(self._parts, counts, strict=True):
            part.add(of_part)

    def _statistics(self, part: _Part, files: NDArray[np.int64]) -> _Statistics | None:
        column, function = part.column, part.asked.function
        if column is None or self._is_plain(column):
            return None
        file_bounds = FileBounds(self.version)
        bounds = file_bounds.values(column, files) if len(files) else None
        if bounds is None:
            return None
        is_known = self._are_written_alike(files, column) & (bounds.null_count >= 0)
        if function is not Function.COUNT:
            is_empty = bounds.null_count == bounds.row_count
            if function is Function.SUM:
                return _Statistics(bounds, is_known & is_empty)
            are_values = np.zeros(len(files), np.bool_)
            for number, some, rows in self.state.files.by_manifest(files):
                names = self.state.files.manifests[number].file_names.take(rows)
                are_values[some] = bounds_are_values(column.type, names, of_engine=file_bounds.is_of_engine)
            bounds = replace(
                bounds, has_low=bounds.has_low & are_values, has_high=bounds.has_high & are_values
            )
            is_known &= is_empty | (bounds.has_low & bounds.has_high)
        return _Statistics(bounds, is_known)

    def _are_written_alike(self, files: NDArray[np.int64], column: DataField) -> NDArray[np.bool_]:
        """Which files have a column with the type that it has now, shape (k,)."""
        schema_ids = self.state.files.columns.schema_ids[files]
        alike = np.zeros(len(files), np.bool_)
        for number in np.unique(schema_ids).tolist():
            written = self.version.file_schema(number).by_id.get(column.id)
            if written is not None and written.type.same_kind(column.type):
                alike |= schema_ids == number
        return alike

    def _counts_at_once(self, part: _Part, files: NDArray[np.int64], at: NDArray[np.int64]) -> Counts:
        if part.column is None:
            return ((0, int(self.state.rows_left[files].sum())),)
        place = self.question.places.get(part.column.id)
        if place is None:
            statistics = part.statistics
            return () if statistics is None or not len(at) else statistics.counts(at, part.asked.function)
        counts = partition_counts(self.version, self.state, place, files)
        return [(value, count) for value, count in counts if value is not None]

    def _take_file(self, values: FileValues, place: int | None) -> bool:
        try:
            rows, _ = values.matching()
            counts = [self._counts(values, part, place, rows) for part in self._parts]
        except NotKnownError:
            return False
        except CorruptIndexError as error:
            name = self.state.files.name(values.file)
            self.warnings.append(f"the index of {name} is not used: {error}")
            return False
        self._add(np.array([values.file]), counts)
        return True

    def _counts(self, values: FileValues, part: _Part, place: int | None, rows: BitMap | None) -> Counts:
        """What one file gives; ``place`` is where its statistics stand, None where not all rows match."""
        column, statistics = part.column, part.statistics
        is_by_statistics = statistics is not None and place is not None and statistics.is_known[place]
        if column is None or self._is_plain(column) or is_by_statistics:
            at = np.array([] if place is None else [place], np.int64)
            return self._counts_at_once(part, np.array([values.file]), at)
        if not values.has_column(column):
            # It came later: every row of the file reads as null.
            return ()
        if part.asked.function is Function.COUNT:
            index, _ = values.row_index(column, counts_only=True)
            valued = index.value_rows()
            size = len(valued) if rows is None else valued.intersection_cardinality(rows)
            return ((0, size),) if size else ()
        index, space = values.row_index(column)
        return [(space.value(key), size) for key, size in index.key_counts(rows)]

    def _value(self, part: _Part, opened: NDArray[np.int64]) -> AggregateValue:
        asked, settled, data_type = part.asked, part.value, type_of(part.asked, part.column)
        if not _holds(data_type, settled):
            raise RequestError(
                f"{asked.function} of {asked.column!r} does not fit {data_type}, as in SQL: filter more"
            )
        value, low, high = settled, settled, settled
        if len(opened):
            value = None
            if asked.function is Function.COUNT:
                high = part.count + int(self.state.rows_left[opened].sum())
            elif asked.function is Function.SUM:
                low = high = None
            else:
                low, high = self._ends(part.column, opened).around(asked.function, settled)
        written = [to_json(number, data_type) for number in (value, low, high, settled)]
        return AggregateValue(asked.function, asked.column, not len(opened), *written)

    def _ends(self, column: DataField | None, files: NDArray[np.int64]) -> Ends:
        if column is None or self._is_plain(column) or self.question.doubts:
            return Ends()
        bounds = FileBounds(self.version).values(column, files)
        return Ends.of(bounds, column.type, self.state.rows_left[files])


def _holds(data_type: DataType, value: Value | None) -> bool:
    """Whether a type has a value; sums can grow beyond theirs."""
    if not isinstance(value, int):
        return True
    if data_type.root is TypeRoot.DECIMAL:
        return bool(abs(value) < 10**data_type.precision)
    return data_type.root is not TypeRoot.BIGINT or -(2**63) <= value < 2**63
