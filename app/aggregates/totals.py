"""COUNT, MIN, MAX and SUM of all rows, over the files for which statistics or indexes determine them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.aggregates.answers import AggregateFunction, AggregateGroup, AggregateValue, Function
from app.aggregates.question import ResolvedRequest, type_of
from app.aggregates.values import Ends, FileValues, NotKnownError, as_read, open_files, partition_counts
from app.errors import CorruptIndexError, RequestError
from app.planning import FileBounds, Version
from app.planning.plan import PlanState
from app.predicates import ColumnBounds
from app.table.statistics import bounds_are_values
from app.types import DataField, DataType, TypeRoot, Value, sql_key, to_json

Counts: TypeAlias = Sequence[tuple[Value, int]]
"""Values of a column, with their numbers of rows; for COUNT, any value stands for all."""


@dataclass(slots=True, eq=False)
class _Statistics:
    """A column's bounds in files whose matching rows are known."""

    bounds: ColumnBounds
    valued: NDArray[np.int64]  # Shape (k,): matching rows with a value.
    is_known: NDArray[np.bool_]  # Shape (k,): the bounds determine the aggregate.

    def counts(self, at: NDArray[np.int64], function: Function) -> Counts:
        bounds, valued = self.bounds.take(at), self.valued[at]
        count, having = int(valued.sum()), valued > 0
        if not count or function is Function.COUNT:
            return ((0, count),) if count else ()
        if function is Function.SUM:
            return list(zip(bounds.low[having].tolist(), valued[having].tolist(), strict=True))
        is_min = function is Function.MIN
        return ((int(bounds.low[having].min() if is_min else bounds.high[having].max()), count),)


@dataclass(slots=True)
class _Sum:
    function: Function
    key: Callable[[Value], Any]
    count: int = 0
    end: Value | None = None
    total: int = 0

    def add(self, counts: Counts) -> None:
        self.count += sum(count for _, count in counts)
        if self.function is Function.SUM:
            self.total += sum(int(value) * count for value, count in counts)
        elif counts and self.function is not Function.COUNT:
            values = [value for value, _ in counts] + ([] if self.end is None else [self.end])
            self.end = (min if self.function is Function.MIN else max)(values, key=self.key)

    @property
    def value(self) -> Value | None:
        """The result. None is SQL's NULL."""
        if self.function is Function.COUNT:
            return self.count
        if self.function is Function.SUM:
            return self.total if self.count else None
        return self.end


@dataclass(slots=True, eq=False)
class _Part:
    aggregate: AggregateFunction
    column: DataField | None
    is_known: NDArray[np.bool_]  # By file of the version: true if it determines this aggregate.
    settled: _Sum  # Result over files that determine every aggregate.
    determined: _Sum  # Result over files that determine this one.
    statistics: _Statistics | None = None

    def add(self, counts: Counts, *, is_settled: bool) -> None:
        self.determined.add(counts)
        if is_settled:
            self.settled.add(counts)


@dataclass(slots=True, eq=False)
class Totals:
    """The aggregates of a question without a group."""

    version: Version
    question: ResolvedRequest
    state: PlanState
    rows: int = 0
    warnings: list[str] = field(default_factory=list)
    _parts: list[_Part] = field(init=False)

    def __post_init__(self) -> None:
        self._parts = []
        for aggregate, column in self.question.aggregates:
            is_known = np.zeros(len(self.state.files), np.bool_)
            key = int if column is None else sql_key(column.type)
            settled, determined = _Sum(aggregate.function, key), _Sum(aggregate.function, key)
            self._parts.append(_Part(aggregate, column, is_known, settled, determined))

    def take(self, files: NDArray[np.int64]) -> list[int]:
        """Add files whose matching rows are determined. Return those that leave an aggregate open.

        A file is settled for all aggregates or for none, since callers add the values of open files. Still,
        an open file's value of one aggregate narrows the bounds of that one.
        """
        at_once = []
        for part in self._parts:
            part.statistics = self._statistics(part, files)
            if part.statistics is not None:
                part.is_known[files] = part.statistics.is_known
            elif self._is_plain(part.column):
                part.is_known[files] = True
            at_once.append(part.is_known[files])
        is_settled = np.logical_and.reduce(at_once)
        at_of = {int(files[at]): at for at in np.flatnonzero(~is_settled)}
        compared = [part.column for part in self._parts if part.column and not self._is_plain(part.column)]
        columns = {column.id for column in compared if not self._is_doubted(column)}
        single = np.array([*at_of], np.int64)
        for values in open_files(self.version, self.state, single, columns, self.warnings):
            is_settled[at_of[values.file]] = self._take_file(values)
        for part, is_known in zip(self._parts, at_once, strict=True):
            for settles in (False, True):
                at = np.flatnonzero(is_known & (is_settled == settles))
                part.add(self._counts_at_once(part, files[at], at), is_settled=settles)
        self.rows += int(self.state.rows_left[files[is_settled]].sum())
        return [int(file) for file in files[~is_settled]]

    def groups(self, opened: NDArray[np.int64], top: int | None) -> tuple[list[AggregateGroup], int]:  # noqa: ARG002 - of groups
        """Return the one group, widened by open files. Raises RequestError if a sum exceeds its type."""
        values = [self._value(part, opened) for part in self._parts]
        if all(value.exact for value in values):
            # Callers need not read the open files then.
            values = [replace(value, settled=value.value) for value in values]
        return [AggregateGroup({}, self.rows, values)], 1

    def _is_doubted(self, column: DataField) -> bool:
        return column.id in self.question.doubts

    def _is_plain(self, column: DataField | None) -> bool:
        """Return True if the number of matching rows is enough: COUNT of rows, or a partition column."""
        return column is None or (column.id in self.question.places and not self._is_doubted(column))

    def _statistics(self, part: _Part, files: NDArray[np.int64]) -> _Statistics | None:
        column, function = part.column, part.aggregate.function
        if column is None or self._is_plain(column) or self._is_doubted(column):
            return None
        file_bounds = FileBounds(self.version)
        bounds = file_bounds.values(column, files) if len(files) else None
        if bounds is None:
            return None
        matching = self.state.rows_left[files]
        is_whole, is_empty = matching == bounds.row_count, bounds.null_count == bounds.row_count
        # If only some rows match, the NULLs among them are known only if all rows are NULL or none is.
        is_known = self._are_written_alike(files, column) & (bounds.null_count >= 0)
        is_known &= is_whole | is_empty | (bounds.null_count == 0)
        if function is not Function.COUNT:
            are_values = np.zeros(len(files), np.bool_)
            for number, part_of_files, rows in self.state.files.by_manifest(files):
                names = self.state.files.manifests[number].file_names.take(rows)
                are_values[part_of_files] = bounds_are_values(column.type, names)
            are_values &= ~file_bounds.have_clocks_of_any_zone(column, files)
            bounds = replace(
                bounds, has_low=bounds.has_low & are_values, has_high=bounds.has_high & are_values
            )
            has_ends = bounds.has_low & bounds.has_high
            if has_ends.any():
                is_single = bounds.low == bounds.high
                has_ends &= is_single if function is Function.SUM else is_whole | is_single
            is_known &= is_empty | has_ends
        return _Statistics(bounds, np.where(is_empty, 0, matching - bounds.null_count), is_known)

    def _are_written_alike(self, files: NDArray[np.int64], column: DataField) -> NDArray[np.bool_]:
        """Return True for files in which a column has its present type, shape (k,)."""
        schema_ids = self.state.files.columns.schema_ids[files]
        alike = np.zeros(len(files), np.bool_)
        for number in np.unique(schema_ids).tolist():
            written = self.version.file_schema(number).by_id.get(column.id)
            if written is not None and written.type.same_kind(column.type):
                alike |= schema_ids == number
        return alike

    def _counts_at_once(self, part: _Part, files: NDArray[np.int64], at: NDArray[np.int64]) -> Counts:
        """Count values of files without indexes. ``at``: their positions in the statistics."""
        if part.column is None:
            return ((0, int(self.state.rows_left[files].sum())),)
        if not self._is_plain(part.column):
            statistics = part.statistics
            return () if statistics is None or not len(at) else statistics.counts(at, part.aggregate.function)
        counts = partition_counts(self.version, self.state, self.question.places[part.column.id], files)
        return [(value, count) for value, count in counts if value is not None]

    def _take_file(self, values: FileValues) -> bool:
        """Add the values of a file's index. Return True if it determines every aggregate."""
        counts: dict[int, Counts] = {}
        for number, part in enumerate(self._parts):
            if part.column is None or part.is_known[values.file] or self._is_doubted(part.column):
                continue
            try:
                counts[number] = self._counts(values, part.column, part.aggregate.function)
            except NotKnownError:
                continue
            except CorruptIndexError as error:
                name = self.state.files.name(values.file)
                self.warnings.append(f"the index of {name} is not used: {error}")
                continue
            part.is_known[values.file] = True
        is_settled = all(part.is_known[values.file] for part in self._parts)
        for number, of_part in counts.items():
            self._parts[number].add(of_part, is_settled=is_settled)
        return is_settled

    def _counts(self, values: FileValues, column: DataField, function: Function) -> Counts:
        rows, _ = values.matching()
        if not values.has_column(column):
            # The column was added later: it reads as NULL in every row of the file.
            return ()
        if function is Function.COUNT:
            index, _ = values.row_index(column, counts_only=True)
            valued = index.value_rows()
            size = len(valued) if rows is None else valued.intersection_cardinality(rows)
            return ((0, size),) if size else ()
        index, space = values.row_index(column)
        return [(as_read(space.value(key), column.type), size) for key, size in index.key_counts(rows)]

    def _value(self, part: _Part, opened: NDArray[np.int64]) -> AggregateValue:
        aggregate, data_type = part.aggregate, type_of(part.aggregate, part.column)
        settled, determined = part.settled.value, part.determined.value
        files = opened[~part.is_known[opened]]
        value, low, high, is_exact = determined, determined, determined, not len(files)
        if len(files):
            if aggregate.function is Function.COUNT:
                high = part.determined.count + int(self.state.rows_left[files].sum())
            elif aggregate.function is Function.SUM:
                low = high = None
            else:
                low, high = self._ends(part.column, files).around(aggregate.function, determined)
            # Open files cannot change a value at both ends of its range, such as MIN 0 among bounds from 0.
            is_exact = determined is not None and all(
                end is not None and part.determined.key(end) == part.determined.key(determined)
                for end in (low, high)
            )
            value = determined if is_exact else None
        if not (_holds(data_type, value) and _holds(data_type, settled)):
            raise RequestError(
                f"{aggregate.function} of {aggregate.column!r} does not fit {data_type}, as in SQL: "
                "filter more"
            )
        written = [to_json(number, data_type) for number in (value, low, high, settled)]
        return AggregateValue(aggregate.function, aggregate.column, is_exact, *written)

    def _ends(self, column: DataField | None, files: NDArray[np.int64]) -> Ends:
        if column is None or self._is_doubted(column):
            return Ends()
        if self._is_plain(column):
            place, key = self.question.places[column.id], sql_key(column.type)
            counts = partition_counts(self.version, self.state, place, files)
            values = [value for value, _ in counts if value is not None]
            return Ends(min(values, key=key, default=None), max(values, key=key, default=None), key)
        bounds = FileBounds(self.version).values(column, files)
        return Ends.of(bounds, column.type, self.state.rows_left[files])


def _holds(data_type: DataType, value: Value | None) -> bool:
    """Return True if a type can hold a value. A sum may exceed its type."""
    if not isinstance(value, int):
        return True
    if data_type.root is TypeRoot.DECIMAL:
        return bool(abs(value) < 10**data_type.precision)
    return data_type.root is not TypeRoot.BIGINT or -(2**63) <= value < 2**63
