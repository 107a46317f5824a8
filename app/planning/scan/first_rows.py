"""ORDER BY with LIMIT, and LIMIT alone: the last step of a plan.

Both count only *sure* rows: live rows of raw convertible files that are proven to satisfy the filter. A file
that merges is always kept, since its merged rows may differ from its statistics.

Statistics of the first sort column bound the places of a file's rows in the order. Once ``limit`` sure rows
are at or before a value, a file whose best row is after it cannot contribute. Rows that tie with this
threshold may still win by a further key, so they are dropped only with a single key.

Compared with the engine: deletion vectors and exact filters count instead of disabling the step, and a file
of nulls takes no other file's place under NULLS LAST.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap

from app.errors import CorruptIndexError, FilterError
from app.file_index import FileIndex, top_n
from app.file_index.answers import Rows
from app.planning.plan.file_plan import ExplainStep, SkipStep
from app.planning.plan.state import PlanState
from app.planning.request.requests import TopN
from app.planning.scan.index_filter import IndexFilter
from app.planning.scan.live_rows import every_position
from app.planning.version.file_bounds import FileBounds
from app.predicates import ColumnBounds, Names
from app.table.statistics import column_ranks
from app.types import FLOATING_ROOTS, INTEGER_BITS, DataField, DataType, TypeRoot
from app.types.values import concat, group_rows, is_comparable

# Types whose bounds are values of the file; text bounds may be cut, timestamp bounds rounded.
_EXACT_BOUNDS = frozenset({TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.DECIMAL, *INTEGER_BITS, *FLOATING_ROOTS})

_BELOW_BLANK: Final = r"[\x00-\x1f]"
# First byte of a character in UTF-8.
_CHARACTER: Final = r"[^\x80-\xbf]"
# The next byte after the blank: appended to a value, it makes a bound above any number of blanks.
_ABOVE_BLANKS: Final = b"!"


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Files that top-n may drop: none of them merges."""

    bounds: ColumnBounds
    sure_rows: NDArray[np.int64]  # Shape (m,): number of sure rows.
    whole: NDArray[np.bool_]  # Shape (m,): True if every row of the file is sure.


@dataclass(frozen=True, slots=True, eq=False)
class _Standings:
    """Places of each candidate's rows, ascending in the query's order, shape (m,)."""

    best: NDArray[np.int64]
    worst: NDArray[np.int64]
    has_best: NDArray[np.bool_]
    sure_values: NDArray[np.int64]
    sure_nulls: NDArray[np.int64]
    may_have_nulls: NDArray[np.bool_]
    may_have_values: NDArray[np.bool_]
    best_is_row: NDArray[np.bool_]

    @classmethod
    def of(cls, candidates: Candidates, column_type: DataType, *, descending: bool) -> _Standings:
        bounds = candidates.bounds
        counted = bounds.null_count >= 0
        nulls = np.where(counted, bounds.null_count, 0)
        values = bounds.row_count - nulls
        has_bounds = np.concatenate([bounds.has_low, bounds.has_high])
        low, high = np.split(column_ranks(concat([bounds.low, bounds.high]), has_bounds), 2)
        # Bounds ignore NaN, which is greater than every other value.
        high = np.where(bounds.may_hold_nan, max(low.max(initial=0), high.max(initial=0)) + 1, high)
        has_low, has_high = bounds.has_low & counted, bounds.has_high & counted
        best, worst, has_best, has_worst = (
            (-high, -low, has_high, has_low) if descending else (low, high, has_low, has_high)
        )
        sure = np.where(counted & has_best & has_worst, candidates.sure_rows - nulls, 0)
        is_row = candidates.whole & ~(bounds.may_hold_nan & descending)
        return cls(
            best,
            worst,
            has_best,
            sure_values=np.maximum(sure, 0),
            sure_nulls=np.where(counted, np.maximum(candidates.sure_rows - values, 0), 0),
            may_have_nulls=~counted | (nulls > 0),
            may_have_values=~counted | (values > 0),
            best_is_row=is_row & (column_type.root in _EXACT_BOUNDS),
        )

    def points(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return arrays ``(candidate, place, rows)``: so many sure rows are at the place or before."""
        certain = np.flatnonzero(self.sure_values > 0)
        first = np.where(self.best_is_row[certain], 1, 0)
        return (
            np.concatenate([certain, certain]),
            np.concatenate([self.best[certain], self.worst[certain]]),
            np.concatenate([first, self.sure_values[certain] - first]),
        )


def beyond_top_n(
    candidates: Candidates,
    column_type: DataType,
    limit: int,
    *,
    descending: bool,
    nulls_first: bool,
    single_key: bool,
) -> NDArray[np.bool_]:
    """Return True for candidates that hold no row of the answer, shape (m,)."""
    if limit == 0:
        return np.ones(len(candidates.whole), np.bool_)
    standings = _Standings.of(candidates, column_type, descending=descending)
    needed_rows = limit
    if nulls_first:
        sure_nulls = int(standings.sure_nulls.sum())
        if sure_nulls >= limit:
            return _beyond_nulls(standings, limit, single_key=single_key)
        needed_rows -= sure_nulls
    # With a single key, any choice among ties is right.
    return _beyond_values(standings, needed_rows, nulls_first=nulls_first, single_key=single_key)


def _beyond_nulls(standings: _Standings, limit: int, *, single_key: bool) -> NDArray[np.bool_]:
    # Nulls fill the whole answer, so files without nulls have no row of it.
    dropped = ~standings.may_have_nulls
    if single_key:
        order = np.argsort(-standings.sure_nulls, kind="stable")
        sure = standings.sure_nulls[order]
        dropped[order] |= np.cumsum(sure) - sure >= limit
    return dropped


def _beyond_values(
    standings: _Standings, needed_rows: int, *, nulls_first: bool, single_key: bool
) -> NDArray[np.bool_]:
    owners, places, rows = standings.points()
    order = np.argsort(places, kind="stable")
    reached = np.cumsum(rows[order])
    at = int(np.searchsorted(reached, needed_rows))
    if at == len(reached):
        return np.zeros(len(standings.best), np.bool_)
    threshold = places[order[at]]
    # Leading nulls are rows of the answer, wherever the values of their file are.
    movable = ~standings.may_have_nulls if nulls_first else np.ones(len(standings.best), np.bool_)
    behind = np.where(standings.has_best, standings.best > threshold, ~standings.may_have_values)
    dropped = movable & behind
    if single_key:
        tied = movable & standings.has_best & (standings.best == threshold)
        within = places <= threshold
        sure = np.bincount(owners[within], rows[within], len(standings.best)).astype(np.int64)
        in_others = int(sure[~(dropped | tied)].sum())
        among_tied = np.cumsum(sure[tied])
        dropped[tied] = in_others + among_tied - sure[tied] >= needed_rows
    return dropped


def keep_first_rows(
    state: PlanState, top: TopN, names: Names, bounds: FileBounds, indexes: IndexFilter
) -> str | None:
    """Skip files without one of the first rows, and narrow the others to rows that can be among them.

    Return a warning if the step cannot decide. Raises FilterError if a sort column is not in the table.
    """
    fields = [names.sort_column(key.column) for key in top.order_by]
    if not fields:
        raise FilterError("top_n needs at least one column in order_by")
    doubt = names.doubt_of(fields[0])
    if doubt is not None:
        return f"no file is pruned by ORDER BY {fields[0].name}: {doubt}"
    if not is_comparable(fields[0].type):
        return None
    first = top.order_by[0]
    kept = state.left()
    files = kept[state.raw_convertible[kept]]
    exact = state.is_exact(files)
    sure = np.where(exact, state.rows_left[files], 0)
    beyond = np.zeros(0, np.int64)
    column_bounds = bounds.values(fields[0], files)
    if column_bounds is not None and fields[0].type.root is TypeRoot.CHAR:
        column_bounds = padded_bounds(column_bounds, fields[0].type.precision)
    if column_bounds is not None:
        dropped = beyond_top_n(
            Candidates(column_bounds, sure, exact & (sure == state.files.columns.row_counts[files])),
            fields[0].type,
            top.limit,
            descending=first.descending,
            nulls_first=first.nulls_first,
            single_key=len(fields) == 1,
        )
        beyond, files = files[dropped], files[~dropped & exact]
    schema_ids = state.files.columns.schema_ids[files]
    for group in group_rows(schema_ids):
        schema_id = int(schema_ids[group[0]])
        written = [indexes.version.file_schema(schema_id).by_id.get(field.id) for field in fields]
        pairs = zip(written, fields, strict=True)
        column = written[0]
        # If the type of a sort column changed since, the file's index has the old type's order.
        if column is None or any(old is None or not old.type.same_kind(new.type) for old, new in pairs):
            continue
        for file, index in indexes.open_ordered(state, files[group], column.name):
            _narrow(state, file, index, column, top, indexes)
    # Pages may come from several plans, which must skip the same files: one that ran out of time skips none.
    if indexes.are_evaluated_in_full:
        state.skip(beyond, SkipStep.TOP_N, evidence="other files have the first rows")
    return None


def enough_for_limit(state: PlanState, limit: int) -> None:
    """Keep only the first files that are sure to hold ``limit`` rows of the answer, if there are enough."""
    files = state.left()
    sure = np.where(state.is_exact(files), state.rows_left[files], 0)
    running_total = np.cumsum(sure)
    if limit and (not len(files) or running_total[-1] < limit):
        return
    chosen = (sure > 0) & (running_total - sure < limit)
    state.skip(files[~chosen], SkipStep.LIMIT, evidence="other files have enough rows")


def _narrow(
    state: PlanState, file: int, index: FileIndex, column: DataField, top: TopN, indexes: IndexFilter
) -> None:
    row_count = int(state.files.columns.row_counts[file])
    live = state.positions[file] if file in state.positions else every_position(row_count)
    if not isinstance(live, BitMap):
        return
    first = top.order_by[0]
    try:
        rows = top_n(
            index,
            column,
            descending=first.descending,
            nulls_first=first.nulls_first,
            limit=top.limit,
            # Other sort keys order ties of the first, so ties may only be cut without them.
            strict=len(top.order_by) == 1,
            selection=Rows(live, exact=True),
        )
    except CorruptIndexError as error:
        indexes.unreadable(state, file, error)
        return
    if isinstance(rows, Rows) and len(rows.positions) < row_count:
        state.positions[file] = rows.positions
        state.narrow(file, len(rows.positions))
        state.note(np.array([file]), ExplainStep(SkipStep.TOP_N, "rows", rows=len(rows.positions)))


def padded_bounds(bounds: ColumnBounds, length: int) -> ColumnBounds:
    """Convert the bounds of a CHAR column from stored values to padded ones, which ORDER BY compares."""
    assert isinstance(bounds.high, pa.LargeBinaryArray)  # noqa: S101 - the form of strings
    # Padding only makes a value greater, so the smallest stored value is a lower bound of padded ones, too. A
    # padded value exceeds the largest stored one only if that begins with it and continues with a byte below
    # the blank.
    high = bounds.high.fill_null(b"")
    suffix, separator = (pa.scalar(value, pa.large_binary()) for value in (_ABOVE_BLANKS, b""))
    is_short = pc.less(pc.count_substring_regex(high, pattern=_CHARACTER), length)
    padded = pc.if_else(is_short, pc.binary_join_element_wise(high, suffix, separator), high)
    has_controls = np.asarray(pc.match_substring_regex(high, pattern=_BELOW_BLANK))
    return replace(bounds, high=padded, has_high=bounds.has_high & ~has_controls)
