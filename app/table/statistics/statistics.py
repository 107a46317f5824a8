"""Statistics of data files, in the columns of the schema that a plan is made with.

A file's statistics describe the columns of *its* schema. Columns are matched by id. Bounds are cast to a
changed type only where that keeps every value and their order, otherwise they are unknown. A bound need not
be a value of the file: bounds of strings are cut after some characters. Bounds that cannot be read are
unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptMetadataError
from app.predicates import UNKNOWN_COUNT, ColumnBounds
from app.table.manifests.manifest import Manifest
from app.table.manifests.manifest_entry import StatisticsColumns
from app.table.manifests.manifest_list import ManifestList
from app.table.schema.schema import TableSchema
from app.table.statistics.casts import bounds_cast
from app.types import FLOATING_ROOTS, TIMESTAMP_ROOTS, WHOLE_ROOTS, BytesColumn, DataField, DataType, TypeRoot
from app.types.binary_row import RowColumns
from app.types.civil_time import MAX_OFFSET_NANOS, NANOS_PER_MICRO, NANOS_PER_MILLI
from app.types.values import INT64, Values, group_rows, placeholders

_COUNTS_NAN: Final = b".parquet"
_MAY_CUT_TIMES: Final = b".orc"
_MICRO_DIGITS: Final = 6
_BOUNDS_ARE_VALUES: Final = frozenset({TypeRoot.DECIMAL, *WHOLE_ROOTS, *TIMESTAMP_ROOTS})

SchemaOf: TypeAlias = "Callable[[int], TableSchema]"

# Columns that the engine adds for row tracking. They are in no schema, but may be in files: after all others
# if no list names the columns.
_ROW_ID: Final = "_ROW_ID"
_ROW_TRACKING = {
    name: DataField(-1, name, DataType(TypeRoot.BIGINT)) for name in (_ROW_ID, "_SEQUENCE_NUMBER")
}


def trusted_bounds(stated: ColumnBounds, data_type: DataType, file_names: BytesColumn) -> ColumnBounds:
    """Widen or drop bounds of a column, shape (n,), where writers of the format may state wrong ones."""
    if data_type.root in TIMESTAMP_ROOTS and not data_type.is_compact_timestamp:
        # The ORC writer of releases 0.4 and 0.5 cuts the maximum to milliseconds, pypaimon to microseconds.
        # No file names its writer, so a maximum of whole units stands for all of its unit. A minimum is cut
        # downwards, and stays below all values.
        may_be_cut = stated.has_high & file_names.ends_with(_MAY_CUT_TIMES)
        to_millis = replace(stated, high=_up_to_next(NANOS_PER_MILLI, stated.high, may_be_cut))
        return with_cut_micros(to_millis, data_type)
    if data_type.root not in FLOATING_ROOTS:
        return stated
    # NaN is the largest value in SQL. The engine's Parquet writer gives a column with NaN no bounds. ORC and
    # Avro ignore NaN, so it may be above the maximum; ORC also compares with the first value it met, and
    # if that is NaN both bounds stay NaN. Writers in Rust and Python ignore NaN in Parquet, too, which
    # app.planning.version.file_bounds takes into account.
    poisoned = stated.has_low & np.isnan(stated.low) | stated.has_high & np.isnan(stated.high)
    return replace(
        stated,
        has_low=stated.has_low & ~poisoned,
        has_high=stated.has_high & ~poisoned,
        may_hold_nan=~(file_names.ends_with(_COUNTS_NAN) | holds_one_value(stated)),
    )


def holds_one_value(stated: ColumnBounds) -> NDArray[np.bool_]:
    """Mask files, shape (n,), of a single row that equals both bounds. Any writer can be trusted there."""
    is_one: NDArray[np.bool_] = (stated.row_count == 1) & stated.has_low & stated.has_high
    return is_one & np.asarray(stated.low == stated.high, np.bool_)


def bounds_are_values(data_type: DataType, file_names: BytesColumn) -> NDArray[np.bool_]:
    """Mask files, shape (n,), whose stored bounds are values of the file, neither cut nor rounded.

    The column must have its present type in these files.
    """
    is_timestamp = data_type.root in TIMESTAMP_ROOTS
    if data_type.root not in _BOUNDS_ARE_VALUES or (is_timestamp and data_type.precision > _MICRO_DIGITS):
        return np.zeros(len(file_names), np.bool_)
    if is_timestamp and not data_type.is_compact_timestamp:
        return ~file_names.ends_with(_MAY_CUT_TIMES)
    return np.ones(len(file_names), np.bool_)


def may_be_in_other_zones(data_type: DataType) -> bool:
    """Return True if some writers store bounds of a type in their local time."""
    # pypaimon up to 1.4.2 stores timestamps of at most three digits in local time, as if it were UTC.
    return data_type.root is TypeRoot.TIMESTAMP and data_type.is_compact_timestamp


def in_other_zones(stated: ColumnBounds, files: NDArray[np.bool_]) -> ColumnBounds:
    """Widen the bounds of ``files`` by the largest zone offset, in case they are in local time."""
    room = files * MAX_OFFSET_NANOS
    return replace(stated, low=_moved(stated.low, -room), high=_moved(stated.high, room))


def _moved(clocks: Values, by: NDArray[np.int64]) -> Values:
    if clocks.dtype == np.int64 and (np.abs(clocks) > INT64.max - MAX_OFFSET_NANOS).any():
        clocks = clocks.astype(object)
    return clocks + by


def with_cut_micros(stated: ColumnBounds, data_type: DataType) -> ColumnBounds:
    """Raise the maximum to the end of its microsecond, where the type has more digits."""
    if data_type.root not in TIMESTAMP_ROOTS or data_type.precision <= _MICRO_DIGITS:
        return stated
    return replace(stated, high=_up_to_next(NANOS_PER_MICRO, stated.high, stated.has_high))


def _up_to_next(unit: int, high: Values, may_be_cut: NDArray[np.bool_]) -> Values:
    """Raise nanoseconds that may be cut to whole units to the last nanosecond of their unit."""
    cut = may_be_cut & (high % unit == 0)
    if high.dtype == np.int64 and (high[cut] > INT64.max - unit).any():
        high = high.astype(object)
    return np.where(cut, high + (unit - 1), high)


class StatisticsRows:
    """Statistics of one manifest, gathered once for all columns that are read from them."""

    def __init__(self) -> None:
        self._by_rows: dict[tuple[str, int, int], RowColumns] = {}

    def of(
        self,
        stored: BytesColumn,
        rows: NDArray[np.int64],
        selection: tuple[str, int, int],
        name_of: Callable[[int], str],
    ) -> RowColumns:
        """Return the columns of ``rows``.

        ``selection`` identifies these rows within the manifest. Its last item is their number of fields.
        """
        columns = self._by_rows.get(selection)
        if columns is None:
            # Rows are scattered over a manifest: gathering them once spares each column a walk through all of
            # it.
            strings = stored.take(rows)
            is_even = bool((strings.lengths == strings.lengths[:1]).all())
            columns = RowColumns(strings.packed() if is_even else strings, selection[-1], name_of)
            self._by_rows[selection] = columns
        return columns


def value_bounds(
    manifest: Manifest,
    rows: NDArray[np.int64],
    column: DataField,
    schema_of: SchemaOf,
    stored_rows: StatisticsRows | None = None,
) -> ColumnBounds:
    """Read bounds of a column for files at ``rows`` of a manifest, in the column's type, shape (n,).

    A column added to the table after a file was written is known to be all null in it.
    """
    stored, listed = manifest.value_statistics, manifest.value_statistics_columns
    counted = np.diff(stored.null_count_starts)

    def read(selected: NDArray[np.int64]) -> ColumnBounds:
        first = int(selected[0])
        file_schema = schema_of(int(manifest.schema_ids[first]))
        names = manifest.write_columns[first] if listed.codes[first] < 0 else listed[first]
        columns = _value_columns(names, file_schema, manifest.file_name(first))
        if names is None and counted[first] == len(columns) + len(_ROW_TRACKING):
            columns = [*columns, *_ROW_TRACKING.values()]
        # An old file has no slot for a later column; other missing slots may just not be stored.
        absent = column.id not in file_schema.by_id
        return _read_slot(manifest, stored, selected, columns, column, stored_rows, null_if_missing=absent)

    written = listed.codes, manifest.write_columns.codes
    layouts = manifest.schema_ids, *written, stored.say_nothing, counted
    return _read_alike(manifest, rows, layouts, column, read)


def bring_row_ids(manifest: Manifest, rows: NDArray[np.int64], schema_of: SchemaOf) -> NDArray[np.bool_]:
    """Mask files at ``rows`` that may store row ids, which override those counted from the first."""
    listed, counts = manifest.value_statistics_columns, np.diff(manifest.value_statistics.null_count_starts)
    layouts = manifest.schema_ids, listed.codes, manifest.write_columns.codes, counts
    # A writer that updates rows in new files may omit the list of columns; then statistics have more columns
    # than the schema. Without statistics this is unknown, so the answer is yes.
    brings = np.zeros(len(rows), np.bool_)
    for group in group_rows(*(layout[rows] for layout in layouts)):
        first = int(rows[group[0]])
        written, columns = manifest.write_columns[first], schema_of(int(manifest.schema_ids[first])).by_name
        if written is not None:
            brings[group] = _ROW_ID in written
        else:
            # The list names columns with statistics, which row ids need not have.
            brings[group] = listed[first] is not None or counts[first] != len(columns)
    return brings


def key_bounds(
    manifest: Manifest,
    rows: NDArray[np.int64],
    column: DataField,
    schema_of: SchemaOf,
    stored_rows: StatisticsRows | None = None,
) -> ColumnBounds:
    """Read bounds of a column from statistics of keys. Unknown unless it is in the trimmed primary key."""

    def read(selected: NDArray[np.int64]) -> ColumnBounds:
        columns = schema_of(int(manifest.schema_ids[selected[0]])).trimmed_primary_keys
        return _read_slot(manifest, stored, selected, columns, column, stored_rows, null_if_missing=False)

    stored = manifest.key_statistics
    return _read_alike(manifest, rows, (manifest.schema_ids, stored.say_nothing), column, read)


def partition_bounds(
    manifests: ManifestList, rows: NDArray[np.int64], data_type: DataType, slot: int, columns: int
) -> ColumnBounds:
    """Read bounds of a partition column from a manifest list. Each manifest at ``rows`` is a row."""
    stored, entries = manifests.partition_bounds, (manifests.added + manifests.deleted)[rows]

    def name_of(at: int) -> str:
        return f"partition bounds of {manifests.manifests[int(rows[at])][0]}"

    null_count = _null_counts(stored, rows, slot, columns, name_of)
    null_count = np.where((null_count >= 0) & (null_count <= entries), null_count, UNKNOWN_COUNT)
    low, has_low = RowColumns(stored.min_values.take(rows), columns, name_of).read(slot, data_type)
    high, has_high = RowColumns(stored.max_values.take(rows), columns, name_of).read(slot, data_type)
    nowhere = np.zeros(len(rows), np.bool_)
    bounds = ColumnBounds(low, high, has_low, has_high, null_count, entries, nowhere, nowhere)
    return with_cut_micros(bounds, data_type)


def _read_alike(
    manifest: Manifest,
    rows: NDArray[np.int64],
    layouts: Sequence[NDArray[np.integer] | NDArray[np.bool_]],
    column: DataField,
    read: Callable[[NDArray[np.int64]], ColumnBounds],
) -> ColumnBounds:
    """Read files of the same layout together, and restore their order."""
    groups = group_rows(*(layout[rows] for layout in layouts))
    if not groups:
        return _unknown(column.type, np.zeros(0, np.int64), np.zeros(0, np.int64))
    stated = ColumnBounds.concat([read(rows[group]) for group in groups]) if len(groups) > 1 else read(rows)
    if len(groups) > 1:
        stated = stated.take(np.argsort(np.concatenate(groups)))
    return trusted_bounds(stated, column.type, manifest.file_names.take(rows))


def _read_slot(
    manifest: Manifest,
    stored: StatisticsColumns,
    rows: NDArray[np.int64],
    columns: Sequence[DataField],
    column: DataField,
    stored_rows: StatisticsRows | None,
    *,
    null_if_missing: bool,
) -> ColumnBounds:
    row_count = manifest.row_counts[rows]
    slots = [slot for slot, field in enumerate(columns) if field.id == column.id]
    if not slots:
        missing = row_count if null_if_missing else np.full(len(rows), UNKNOWN_COUNT)
        return _unknown(column.type, missing, row_count)
    if stored.say_nothing[rows[0]]:
        return _unknown(column.type, np.full(len(rows), UNKNOWN_COUNT), row_count)
    slot, written = slots[-1], columns[slots[-1]].type

    def name_of(at: int) -> str:
        return f"statistics of {manifest.file_name(int(rows[at]))}"

    null_count = _null_counts(stored, rows, slot, len(columns), name_of)
    null_count = np.where((null_count >= 0) & (null_count <= row_count), null_count, UNKNOWN_COUNT)
    cast = bounds_cast(written, column.type)
    if cast is None:
        # A reader may turn values that the new type cannot hold into NULL; NULLs stay NULL.
        return _unknown(column.type, np.where(null_count == row_count, null_count, UNKNOWN_COUNT), row_count)
    # One layout is read at once, so its first row identifies the selection.
    selection = int(rows[0]), len(columns)
    unreadable, nowhere = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)

    def ends(name: str, values: BytesColumn) -> tuple[Values, NDArray[np.bool_]]:
        if stored_rows is None:
            gathered = RowColumns(values.take(rows), len(columns), name_of)
        else:
            gathered = stored_rows.of(values, rows, (name, *selection), name_of)
        return gathered.read(slot, written, unreadable)

    (low, has_low), (high, has_high) = ends("low", stored.min_values), ends("high", stored.max_values)
    return ColumnBounds(cast(low), cast(high), has_low, has_high, null_count, row_count, nowhere, unreadable)


def _null_counts(
    stored: StatisticsColumns,
    rows: NDArray[np.int64],
    slot: int,
    columns: int,
    name_of: Callable[[int], str],
) -> NDArray[np.int64]:
    starts = stored.null_count_starts[rows]
    counted = stored.null_count_starts[rows + 1] - starts
    for at in np.flatnonzero((counted != columns) & (counted != 0))[:1]:
        raise CorruptMetadataError(
            f"{name_of(at)}: expected null counts of {columns} columns, found {counted[at]}"
        )
    is_counted = counted != 0
    if is_counted.all():
        return stored.null_counts[starts + slot]
    counts = np.full(len(rows), UNKNOWN_COUNT)
    counts[is_counted] = stored.null_counts[starts[is_counted] + slot]
    return counts


def _unknown(
    data_type: DataType, null_count: NDArray[np.int64], row_count: NDArray[np.int64]
) -> ColumnBounds:
    nothing, nowhere = placeholders(data_type, len(row_count)), np.zeros(len(row_count), np.bool_)
    return ColumnBounds(nothing, nothing, nowhere, nowhere, null_count, row_count, nowhere, nowhere)


def _value_columns(
    names: Sequence[str] | None, file_schema: TableSchema, file_name: str
) -> Sequence[DataField]:
    """Return the columns that have a slot in value statistics: all, unless there are ``names``."""
    if names is None:
        return file_schema.fields
    return [_column(name, file_schema, file_name) for name in names]


def _column(name: str, file_schema: TableSchema, file_name: str) -> DataField:
    column = file_schema.by_name.get(name) or _ROW_TRACKING.get(name)
    if column is None:
        schema_id = file_schema.id
        raise CorruptMetadataError(
            f"{file_name} has column {name!r:.100}, but its schema {schema_id} does not"
        )
    return column
