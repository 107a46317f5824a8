"""Aggregates of a version, as far as statistics and indexes tell them without data.

A plan tells the files that a filter keeps, and of each the rows that can match. A file is *settled* for an
aggregate where these are just the rows that match, and what the aggregate needs of their values is known:

==================  ==========================================================================================
aggregate           what settles a file whose matching rows are known
==================  ==========================================================================================
COUNT of rows       nothing else
COUNT of a column   the number of nulls in its statistics, if every row matches and lives; else an index
MIN, MAX            bounds in its statistics, likewise, where these are values; else an index
COUNT DISTINCT,     an index that knows the rows of each value: bitmap, range bitmap or BSI
SUM, groups
==================  ==========================================================================================

All other files are *open*: files that merge when they are read, files with an index that leaves a doubt or is
missing. They widen each value to a range that surely holds it; a caller who reads just these files, and adds
what they give to what is settled, has the exact answer.

Values of CHAR compare padded, those of FLOAT and DOUBLE have no exact sum, and timestamps of more than six
digits share keys: these are open where that matters, but in partition columns, whose values are told as Spark
reads them (:mod:`app.aggregates.read_values`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from app.aggregates.answers import (
    Aggregate,
    AggregateAnswer,
    AggregateGroup,
    AggregateRequest,
    AggregateValue,
    Function,
)
from app.aggregates.asked import Asked, type_of
from app.aggregates.facets import facets
from app.aggregates.file_values import COUNTED, FileValues, NotKnownError
from app.aggregates.open_ranges import UNKNOWN, Ends
from app.aggregates.read_values import as_read
from app.errors import CorruptIndexError, RequestError, UnsupportedFormatError
from app.file_index.container import FileIndex
from app.file_index.index_kinds import KINDS
from app.planning.plan.state import PlanState
from app.planning.request.limits import Limits
from app.planning.request.requests import PlanRequest, SelectionForm
from app.planning.scan.planner import decide
from app.planning.side_files.file_indexes import FileIndexes
from app.planning.version.file_bounds import FileBounds
from app.planning.version.version import Version
from app.predicates.column_bounds import ColumnBounds
from app.table.statistics.statistics import bounds_are_values
from app.types import DataField, DataType, TypeRoot, Value, to_json
from app.types.session_zone import SessionZone
from app.types.value_arrays import group_rows
from app.types.values import sql_key

Group: TypeAlias = tuple[Any, ...]
"""Values of a group in the columns of ``group_by``; None is NULL."""

Counts: TypeAlias = Sequence[tuple[Value, int]]
"""Values of a column in some rows, and how many rows have each."""


def aggregate(
    version: Version, request: AggregateRequest, limits: Limits, zone: SessionZone | None
) -> AggregateAnswer:
    """The aggregates of a version.

    Args:
        version: of the table.
        request: what is asked of it, whatever its selector says.
        limits: how large filters may be.
        zone: the time zone of the caller's session; None if it is not known.

    Raises:
        FilterError: the filter cannot be read, or a column is not there.
        RequestError: a function or a group is not defined for its column, or a sum is beyond its type.
        UnsupportedFormatError: files of the table hold parts of the same rows.
    """
    if version.schema.options.data_evolution:
        raise UnsupportedFormatError(
            f"table {version.table.name}: with data-evolution.enabled several files hold parts of the same "
            "rows, which are not counted here: ask the engine"
        )
    asked = Asked.of(version, request)
    form = SelectionForm.POSITIONS if asked.needs_values else SelectionForm.COUNT
    wanted = PlanRequest(filter=request.filter, alias=request.alias, selection=form, totals=True)
    decisions = decide(version, wanted, limits, zone)
    run = _Run(version, asked, decisions.state)
    run.take_files()
    version.keep_derived()
    warnings = (*asked.doubts, *decisions.warnings.all, *run.warnings)
    return run.answer(request.top, tuple(dict.fromkeys(warnings)))


@dataclass(slots=True)
class _Tally:
    """What is known of one aggregate in one group.

    Attributes:
        count: rows, or values that are not NULL.
        ends: the smallest and the largest value; None if there is none.
        total: the sum.
        distinct: keys of the values under which SQL holds them equal.
    """

    count: int = 0
    ends: tuple[Value, Value] | None = None
    total: int = 0
    distinct: set[Any] = field(default_factory=set)

    def add(self, function: Function, counts: Counts, key: Callable[[Value], Any]) -> None:
        """Adds the values of some rows."""
        if not counts:
            return
        self.count += sum(count for _, count in counts)
        match function:
            case Function.MIN | Function.MAX:
                values = [value for value, _ in counts] + list(self.ends or ())
                self.ends = min(values, key=key), max(values, key=key)
            case Function.SUM:
                self.total += sum(int(value) * count for value, count in counts)
            case Function.COUNT_DISTINCT:
                self.distinct.update(key(value) for value, _ in counts)
            case _:
                pass

    def value(self, function: Function) -> Value | None:
        """The aggregate, as far as values were added; None is SQL's NULL."""
        match function:
            case Function.COUNT:
                return self.count
            case Function.COUNT_DISTINCT:
                return len(self.distinct)
            case Function.SUM:
                return self.total if self.count else None
            case Function.MIN:
                return None if self.ends is None else self.ends[0]
            case _:
                return None if self.ends is None else self.ends[1]


@dataclass(slots=True)
class _Settled:
    """A group of rows that surely match.

    Attributes:
        key: its values, as they are answered.
        rows: how many.
        tallies: of each aggregate.
    """

    key: Group
    rows: int
    tallies: list[_Tally]


@dataclass(slots=True)
class _Open:
    """Files that leave the groups of some partitions open.

    Attributes:
        prefix: values of the partition columns, as they are answered.
        files: which.
        rows: that may count.
        ends: between what their values lie, by id of a column, as far as somebody asked.
    """

    prefix: Group
    files: list[int] = field(default_factory=list)
    rows: int = 0
    ends: dict[int, Ends] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Run:
    version: Version
    asked: Asked
    state: PlanState
    settled: dict[Group, _Settled] = field(default_factory=dict)
    open: dict[Group, _Open] = field(default_factory=dict)
    """By the values of partition columns."""
    warnings: list[str] = field(default_factory=list)
    _bounds: dict[int, ColumnBounds | None] = field(default_factory=dict)
    _partitions: dict[int, Group] = field(default_factory=dict)
    """Values of partitions, by code."""
    _at: dict[int, int] = field(default_factory=dict)
    """Where the bounds of a file stand."""

    def take_files(self) -> None:
        """Settles what can be settled, file by file where values matter."""
        state = self.state
        kept = state.left()
        is_exact = state.is_exact(kept) & (not self.asked.doubts)
        if not self.asked.needs_values:
            self._count_rows(kept, is_exact)
            return
        for file in kept[~is_exact].tolist():
            self._leave_open(file)
        exact = kept[is_exact]
        whole = exact[state.rows_left[exact] == state.files.columns.row_counts[exact]]
        self._at = {file: at for at, file in enumerate(whole.tolist())}
        bounds = FileBounds(self.version)
        for column in self.asked.columns.values():
            found = bounds.values(column, whole) if len(whole) else None
            self._bounds[column.id] = None if found is None else self._value_ends(column, whole, found)
        at_once = np.isin(exact, whole[self._settled_by_statistics(whole)])
        self._take_by_statistics(exact[at_once])
        rest = self._take_facets(exact[~at_once]).tolist()
        unsettled = np.array([file for file in rest if not self._take_file(file, None)], np.int64)
        for file in self._take_indexed(unsettled):
            self._leave_open(file)

    def _value_ends(self, column: DataField, files: NDArray[np.int64], bounds: ColumnBounds) -> ColumnBounds:
        """Bounds of files, without those that are perhaps no values of the column."""
        are_values = np.zeros(len(files), np.bool_)
        for number, part, rows in self.state.files.by_manifest(files):
            names = self.state.files.manifests[number].file_names.take(rows)
            are_values[part] = bounds_are_values(column.type, names)
        return replace(bounds, has_low=bounds.has_low & are_values, has_high=bounds.has_high & are_values)

    def _settled_by_statistics(self, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which files are settled for all aggregates by statistics, all of whose rows match; shape (k,)."""
        settled = np.full(len(files), self.asked.indexed is None)
        for each, column in self.asked.aggregates:
            if column is None or column.id in self.asked.places:
                continue
            bounds = self._bounds[column.id]
            if bounds is None:
                return np.zeros(len(files), np.bool_)
            settled &= self._are_written_alike(files, column) & (bounds.null_count >= 0)
            if each.function is not Function.COUNT:
                no_values = bounds.null_count == bounds.row_count
                tells_ends = each.function in (Function.MIN, Function.MAX)
                settled &= no_values | (bounds.has_low & bounds.has_high if tells_ends else False)
        return settled

    def _take_by_statistics(self, files: NDArray[np.int64]) -> None:
        """Adds what statistics tell of files that they settle, of a partition's at once."""
        columns = self.state.files.columns
        codes = (
            columns.partition_codes[files] if self.asked.needs_partitions else np.zeros(len(files), np.int32)
        )
        for members in group_rows(codes):
            of_group = files[members]
            code = int(columns.partition_codes[of_group[0]])
            group = self._group(self._prefix(code))
            rows = int(columns.row_counts[of_group].sum())
            group.rows += rows
            at = np.array([self._at[file] for file in of_group.tolist()], np.int64)
            for (each, column), tally in zip(self.asked.aggregates, group.tallies, strict=True):
                if column is None:
                    tally.count += rows
                    continue
                place, bounds = self.asked.places.get(column.id), self._bounds.get(column.id)
                counts: Counts = ()
                if place is not None:
                    value = self._partition(code)[place]
                    counts = () if value is None else ((value, rows),)
                elif bounds is not None:
                    counts = _counts_of_bounds(bounds.take(at), each.function)
                tally.add(each.function, counts, sql_key(column.type))

    def _are_written_alike(self, files: NDArray[np.int64], column: DataField) -> NDArray[np.bool_]:
        """Which files have a column with the type that it has now, shape (k,)."""
        schema_ids = self.state.files.columns.schema_ids[files]
        alike = np.zeros(len(files), np.bool_)
        for number in np.unique(schema_ids).tolist():
            written = self.version.file_schema(number).by_id.get(column.id)
            if written is not None and written.type.same_kind(column.type):
                alike |= schema_ids == number
        return alike

    def _take_facets(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        """Settles files whose values were counted before; gives the others."""
        column, is_left = self.asked.indexed, np.ones(len(files), np.bool_)
        if column is None or self.asked.needs_rows or not self.version.schema.options.file_index_read:
            return files
        codes = self.state.files.columns.partition_codes
        sizes: defaultdict[Group, Counter[Value | None]] = defaultdict(Counter)
        for at, found in facets(self.version, self.state, column, files):
            is_left[at] = False
            sizes[self._prefix(int(codes[files[at[0]]]))].update(found)
        for prefix, of_prefix in sizes.items():
            for value, size in of_prefix.items():
                group = self._group((*prefix, value))
                group.rows += size
                for tally in group.tallies:
                    tally.count += size
        return files[is_left]

    def _take_indexed(self, files: NDArray[np.int64]) -> list[int]:
        """Settles files by their indexes; gives those that stay open."""
        left = dict.fromkeys(files.tolist())
        if not self.version.schema.options.file_index_read:
            return list(left)
        indexes, schema_ids = FileIndexes(self.version), self.state.files.columns.schema_ids
        indexed = files[indexes.has_index(files)]
        for group in group_rows(schema_ids[indexed]):
            of_schema = indexed[group]
            written = self.version.file_schema(int(schema_ids[of_schema[0]])).by_id
            names = [written[each].name for each in self.asked.columns if each in written]
            wanted = frozenset((name, KINDS[kind]) for name in names for kind in COUNTED)
            for file, index in indexes.open(of_schema, wanted):
                if isinstance(index, FileIndex) and self._take_file(file, index):
                    del left[file]
            for file, error in indexes.failures(of_schema):
                self.warnings.append(f"the index of {self.state.files.name(file)} is not used: {error}")
        return list(left)

    def _count_rows(self, kept: NDArray[np.int64], is_exact: NDArray[np.bool_]) -> None:
        """COUNT of rows by partition, of all files at once."""
        codes, rows = self.state.files.columns.partition_codes[kept], self.state.rows_left[kept]
        for code in np.unique(codes).tolist():
            here = codes == code
            prefix = self._prefix(code)
            sure, doubtful = here & is_exact, here & ~is_exact
            if sure.any():
                group = self._group(prefix)
                count = int(rows[sure].sum())
                group.rows += count
                for tally in group.tallies:
                    tally.count += count
            if doubtful.any():
                found = self.open.setdefault(self._same(prefix), _Open(prefix))
                found.files += kept[doubtful].tolist()
                found.rows += int(rows[doubtful].sum())

    def _take_file(self, file: int, index: FileIndex | None) -> bool:
        """Adds what a file gives to every aggregate; False where that is not known of one of them."""
        state = self.state
        count, row_count = int(state.rows_left[file]), int(state.files.columns.row_counts[file])
        rows = state.positions.get(file)
        if (rows is None and count != row_count) or (rows is not None and not isinstance(rows, BitMap)):
            return False
        opened = FileValues(self.version, self.state, file, index)
        try:
            found = [
                (
                    value,
                    size,
                    [
                        self._counts(opened, each, column, some, size)
                        for each, column in self.asked.aggregates
                    ],
                )
                for value, some, size in self._parts(opened, rows, count)
            ]
        except NotKnownError:
            return False
        except CorruptIndexError as error:
            self.warnings.append(f"the index of {state.files.name(file)} is not used: {error}")
            return False
        prefix = self._prefix(int(state.files.columns.partition_codes[file]))
        for value, size, of_aggregates in found:
            group = self._group(prefix if self.asked.indexed is None else (*prefix, value))
            group.rows += size
            for (each, column), tally, counts in zip(
                self.asked.aggregates, group.tallies, of_aggregates, strict=True
            ):
                if column is None:
                    tally.count += size
                else:
                    tally.add(each.function, counts, sql_key(column.type))
        return True

    def _parts(
        self, opened: FileValues, rows: BitMap | None, count: int
    ) -> Iterator[tuple[Value | None, BitMap | None, int]]:
        """The rows of a file by group: a value, its rows (None: all of the file) and their number."""
        if self.asked.indexed is None:
            return iter([(None, rows, count)])
        return opened.parts(self.asked.indexed, rows, count, needs_rows=self.asked.needs_rows)

    def _counts(
        self, opened: FileValues, asked: Aggregate, column: DataField | None, rows: BitMap | None, count: int
    ) -> Counts:
        """Values of some rows that give an aggregate what it needs, and how many rows have each.

        Raises:
            NotKnownError: nothing tells them.
        """
        if column is None:
            return ()
        place = self.asked.places.get(column.id)
        if place is not None:
            value = self._partition(int(self.state.files.columns.partition_codes[opened.file]))[place]
            return () if value is None else ((value, count),)
        if not opened.has_column(column):
            # It came later: every row of the file reads as null.
            return ()
        if rows is None:
            told = self._by_statistics(opened.file, asked.function, column)
            if told is not None:
                return told
        index, space = opened.row_index(column, counts_only=asked.function is Function.COUNT)
        if asked.function is Function.COUNT:
            values = index.value_rows()
            size = len(values) if rows is None else values.intersection_cardinality(rows)
            return ((0, size),) if size else ()
        return [(space.value(key), size) for key, size in index.key_counts(rows)]

    def _by_statistics(self, file: int, function: Function, column: DataField) -> Counts | None:
        """The same of all rows of a file; None where statistics do not tell."""
        bounds, at = self._bounds.get(column.id), self._at.get(file)
        if bounds is None or at is None or bounds.null_count[at] < 0:
            return None
        valued = int(bounds.row_count[at] - bounds.null_count[at])
        if not valued:
            return ()
        if function is Function.COUNT:
            return ((0, valued),)
        has_ends = bounds.has_low[at] and bounds.has_high[at]
        if function in (Function.MIN, Function.MAX) and has_ends:
            return ((int(bounds.low[at]), valued), (int(bounds.high[at]), 0))
        return None

    def _leave_open(self, file: int) -> None:
        prefix = self._prefix(int(self.state.files.columns.partition_codes[file]))
        found = self.open.setdefault(self._same(prefix), _Open(prefix))
        found.files.append(file)
        found.rows += int(self.state.rows_left[file])

    def _prefix(self, code: int) -> Group:
        """Values of a partition in the columns of ``group_by``."""
        values = self._partition(code)
        return tuple(values[self.asked.places[each.id]] for each in self.asked.partitions)

    def _partition(self, code: int) -> Group:
        """Values of a partition in its columns, as Spark reads them."""
        found = self._partitions.get(code)
        if found is None:
            stored = self.version.partitions.values(self.state.files.columns.partitions[code])
            found = self._partitions[code] = tuple(
                None if value is None else as_read(value, column.type)
                for value, column in zip(stored, self.version.schema.partition_fields, strict=True)
            )
        return found

    def _same(self, key: Group) -> Group:
        """A group's values as SQL holds them equal."""
        columns = self.asked.grouped
        return tuple(
            None if value is None else sql_key(column.type)(value)
            for value, column in zip(key, columns, strict=False)
        )

    def _group(self, key: Group) -> _Settled:
        same = self._same(key)
        found = self.settled.get(same)
        if found is None:
            found = self.settled[same] = _Settled(key, 0, [_Tally() for _ in self.asked.aggregates])
        return found

    def _values(self, same: Group, group: _Settled) -> list[AggregateValue]:
        """Each aggregate of a group, with what open files may add."""
        prefix = same[: len(self.asked.partitions)]
        found = self.open.get(prefix)
        return [
            self._value(each, column, tally, found)
            for (each, column), tally in zip(self.asked.aggregates, group.tallies, strict=True)
        ]

    def _value(
        self, asked: Aggregate, column: DataField | None, tally: _Tally, found: _Open | None
    ) -> AggregateValue:
        settled, data_type = tally.value(asked.function), type_of(asked, column)
        if not _holds(data_type, settled):
            raise RequestError(
                f"{asked.function} of {asked.column!r} does not fit {data_type}, as in SQL: group it, or "
                "filter more"
            )
        value, low, high = settled, settled, settled
        if found is not None:
            value = None
            if asked.function in (Function.COUNT, Function.COUNT_DISTINCT):
                high = int(settled or 0) + found.rows
            else:
                ends = self._ends(found, column).around(asked.function, settled)
                low, high = (each if _holds(data_type, each) else None for each in ends)
        written = [to_json(each, data_type) for each in (value, low, high, settled)]
        return AggregateValue(asked.function, asked.column, found is None, *written)

    def _ends(self, found: _Open, column: DataField | None) -> Ends:
        """Between what the values of a column in open files lie."""
        if column is None or column.id in self.asked.places or self.asked.doubts:
            return UNKNOWN
        ends = found.ends.get(column.id)
        if ends is None:
            files = np.array(sorted(found.files), np.int64)
            bounds = FileBounds(self.version).values(column, files)
            ends = found.ends[column.id] = Ends.of(bounds, column.type, self.state.rows_left[files])
        return ends

    def answer(self, top: int | None, warnings: Sequence[str]) -> AggregateAnswer:
        """What was found, with what may come of open files."""
        if not self.asked.grouped:
            self._group(())
        if self.asked.indexed is None:
            for found in self.open.values():
                self._group(found.prefix)
        groups = sorted(self.settled.items(), key=lambda each: -each[1].rows)
        files = self.state.files
        open_files = np.sort(np.array([file for each in self.open.values() for file in each.files], np.int64))
        resolved = self.version.resolved
        return AggregateAnswer(
            self.version.snapshot_id,
            round(resolved.age_ms),
            not len(open_files),
            [
                AggregateGroup(
                    {
                        column.name: to_json(value, column.type)
                        for column, value in zip(self.asked.grouped, group.key, strict=True)
                    },
                    group.rows,
                    self._values(same, group),
                )
                for same, group in groups[:top]
            ],
            len(groups),
            [name.decode() for name in files.names(open_files).to_pylist()],
            int(files.columns.file_sizes[open_files].sum()),
            sum(each.rows for each in self.open.values()),
            len(files),
            warnings,
        )


def _counts_of_bounds(bounds: ColumnBounds, function: Function) -> Counts:
    """What statistics give to COUNT, MIN or MAX of a column, of files that they settle."""
    valued = bounds.row_count - bounds.null_count
    count = int(valued.sum())
    if not count:
        return ()
    if function is Function.COUNT:
        return ((0, count),)
    having = valued > 0
    return ((int(bounds.low[having].min()), count), (int(bounds.high[having].max()), 0))


def _holds(data_type: DataType, value: Value | None) -> bool:
    """Whether a type has a value; sums can grow beyond theirs."""
    if not isinstance(value, int):
        return True
    if data_type.root is TypeRoot.DECIMAL:
        return bool(abs(value) < 10**data_type.precision)
    return data_type.root is not TypeRoot.BIGINT or -(2**63) <= value < 2**63
