"""The first rows of an order, by the range-bitmap of its first key.

The result is a superset of the answer's rows in this file. With a single sort key any choice among tied rows
is right. With further keys every row that ties with the last place has to stay. The engine breaks ties of a
single key in favour of the highest positions, and so does this module. Among null rows the lowest win.

Narrowing is right only if every row of the selection satisfies the filter: a row that is filtered out later
would have taken the place of a row of the answer.
"""

from __future__ import annotations

from pyroaring import BitMap

from app.errors import CorruptIndexError
from app.file_index.answers import SKIP, Result, Rows, rows
from app.file_index.container import ContainerEntry, blame
from app.file_index.keys.keys import FloatingKeys
from app.file_index.range_bitmap.kind import RANGE_BITMAP
from app.file_index.range_bitmap.range_bitmap import RangeBitmap
from app.file_index.stacked_index import FileIndex
from app.types import DataField, TypeRoot


def top_n(
    index: FileIndex,
    field: DataField,
    *,
    descending: bool,
    nulls_first: bool,
    limit: int,
    strict: bool,
    selection: Result,
) -> Result:
    """Narrow ``selection`` to the rows that can be among the first ``limit``.

    ``field``: the first sort key.
    ``strict``: ``field`` is the only sort key.
    ``selection``: answer to the filter. Without a filter, an exact answer with all rows. It is returned
    unchanged if it is not exact, or if the field has no range-bitmap or is CHAR.

    Raises CorruptIndexError if the range-bitmap is broken. The caller must then keep the selection.
    """
    if not isinstance(selection, Rows) or not selection.exact or len(selection.positions) <= limit:
        return selection
    if limit <= 0:
        return SKIP
    entry = _range_entry(index, field)
    # Spark ignores the padding of CHAR values, but the index does not.
    if entry is None or field.type.root is TypeRoot.CHAR:
        return selection
    with blame(entry):
        ranges = _open(index, entry, field)
        if selection.positions.max() >= ranges.row_count:
            raise CorruptIndexError(
                f"expected more than {selection.positions.max()} rows, found {ranges.row_count}"
            )
        with_value = selection.positions & ranges.value_rows()
        nulls = selection.positions - with_value
        if nulls_first:
            places = limit - len(nulls)
            first = _first_nulls(nulls, limit, strict=strict)
            if places > 0:
                first |= _first_values(ranges, with_value, places, descending=descending, strict=strict)
        else:
            places = limit - len(with_value)
            first = _first_values(ranges, with_value, limit, descending=descending, strict=strict)
            if places > 0:
                first |= _first_nulls(nulls, places, strict=strict)
    return rows(first, exact=True)


def indexed_rows(index: FileIndex, field: DataField) -> int | None:
    """Return the row count of a column's range-bitmap, or None. Raises CorruptIndexError if it is broken."""
    entry = _range_entry(index, field)
    if entry is None:
        return None
    with blame(entry):
        return _open(index, entry, field).row_count


def _range_entry(index: FileIndex, field: DataField) -> ContainerEntry | None:
    entries = index.entries.get(field.name, ())
    return next((one for one in entries if one.kind == RANGE_BITMAP and not one.is_empty), None)


def _open(index: FileIndex, entry: ContainerEntry, field: DataField) -> RangeBitmap:
    ranges = index.open(entry, RANGE_BITMAP, field.type)
    assert isinstance(ranges, RangeBitmap)  # noqa: S101 - the type that this kind opens
    return ranges


def _first_nulls(nulls: BitMap, limit: int, *, strict: bool) -> BitMap:
    return nulls[:limit] if strict else nulls.copy()


def _first_values(
    ranges: RangeBitmap, candidates: BitMap, limit: int, *, descending: bool, strict: bool
) -> BitMap:
    sure, tied = ranges.slices.first(candidates, limit, descending=descending)
    if strict:
        return sure | tied[len(tied) - min(len(tied), limit - len(sure)) :]
    first = sure | tied
    if isinstance(ranges.dictionary.space, FloatingKeys):
        # The zeros are two keys of the index but tie in SQL.
        zeros = candidates & ranges.rows_with(ranges.dictionary.space.equal_keys(0.0))
        if not zeros.isdisjoint(first):
            first |= zeros
    return first
