"""Ranks keys of many files as integers that compare as the keys do.

Files of a bucket merge if their key ranges overlap. A key is a row of several columns. Its rank among all
keys of the files in question is one integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.table.manifests.manifest import Manifest
from app.table.schema.schema import TableSchema
from app.table.statistics.casts import Cast, bounds_cast
from app.types import TIMESTAMP_ROOTS, BytesColumn, DataField, DataType
from app.types.binary_row import RowColumns
from app.types.civil_time import NANOS_PER_MICRO
from app.types.values import Values, concat, group_rows

_Column: TypeAlias = tuple[Values, NDArray[np.bool_]]


def key_ranks(
    parts: Iterable[tuple[Manifest, NDArray[np.int64]]],
    schema_of: Callable[[int], TableSchema],
    schema: TableSchema,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rank the smallest and largest key of every file, in order of parts: two int64 columns.

    Keys are compared by the trimmed primary key, column by column, NULL before every value. Equal keys have
    equal ranks. ``parts`` are manifests and rows. Each may be freed once the next is requested.
    """
    key = schema.trimmed_primary_keys
    places: list[NDArray[np.int64]] = []
    smallest: list[list[_Column]] = []
    largest: list[list[_Column]] = []
    files = 0
    for manifest, rows in parts:
        for group in group_rows(manifest.schema_ids[rows]):
            of_schema = rows[group]
            written = schema_of(int(manifest.schema_ids[of_schema[0]])).trimmed_primary_keys
            casts = _casts(written, key)
            if casts is not None:
                places.append(files + group)
                smallest.append(_read_keys(manifest, manifest.min_keys, of_schema, written, casts))
                largest.append(_read_keys(manifest, manifest.max_keys, of_schema, written, casts))
        files += len(rows)
    ranks = _rank(smallest + largest, len(key), 2 * sum(map(len, places)))
    # A key written with incomparable columns covers everything: its smallest rank is below, its largest above
    # all.
    low, high = np.full(files, -1), np.full(files, ranks.max(initial=0) + 1)
    if places:
        low[np.concatenate(places)], high[np.concatenate(places)] = np.split(ranks, 2)
    return low, high


def _casts(written: Sequence[DataField], key: Sequence[DataField]) -> list[Cast] | None:
    if [field.id for field in written] != [field.id for field in key]:
        return None
    casts = [bounds_cast(old.type, new.type) for old, new in zip(written, key, strict=True)]
    return None if None in casts else [cast for cast in casts if cast is not None]


def _read_keys(
    manifest: Manifest,
    keys: BytesColumn,
    rows: NDArray[np.int64],
    written: Sequence[DataField],
    casts: Sequence[Cast],
) -> list[_Column]:
    def name_of(at: int) -> str:
        return f"keys of {manifest.file_name(int(rows[at]))}"

    stored = RowColumns(keys.take(rows), len(written), name_of)
    columns = [stored.read(index, column.type) for index, column in enumerate(written)]
    read = zip(written, casts, columns, strict=True)
    return [(cast(_cut(values, column.type)), valid) for column, cast, (values, valid) in read]


def _cut(values: Values, data_type: DataType) -> Values:
    if data_type.root not in TIMESTAMP_ROOTS:
        return values
    # pypaimon cuts timestamps to microseconds: keys of several writers compare only without the rest.
    return values - values % NANOS_PER_MICRO


def _rank(parts: Sequence[Sequence[_Column]], columns: int, keys: int) -> NDArray[np.int64]:
    ranks = np.zeros(keys, np.int64)
    for column in range(columns if parts else 0):
        values = concat([part[column][0] for part in parts])
        valid = np.concatenate([part[column][1] for part in parts])
        of_column = column_ranks(values, valid)
        # Both are below the number of keys, so that their product is an int64.
        together = ranks * (of_column.max(initial=0) + 1) + of_column
        ranks = of_column if column == 0 else np.unique(together, return_inverse=True)[1]
    return ranks


def column_ranks(values: Values, valid: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return dense ranks in SQL's order from 1, and 0 for NULL."""
    ranks = np.zeros(len(valid), np.int64)
    if isinstance(values, np.ndarray):
        # NumPy orders floating point as SQL does: zeros are equal, NaN is equal to itself and comes last.
        ranks[valid] = np.unique(values[valid], return_inverse=True)[1] + 1
    else:
        ranks[valid] = pc.rank(values.filter(pa.array(valid)), tiebreaker="dense")
    return ranks
