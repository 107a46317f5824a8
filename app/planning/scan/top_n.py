"""Top-n over files: which of them can hold one of the first rows of an ORDER BY.

Each file's statistics of the first sort column say where its rows can stand: between its best and its worst
bound, its null rows at the front or the end. Rows that are *sure* to be in the table's answer to the filter
(live, and proven to satisfy it) push the threshold: once ``limit`` sure rows stand at or before a value, a
file whose best row stands behind that value cannot contribute. Rows that tie with the threshold on the first
key may still win by a further key, so they are only given up where there is no further key.

Compared with the engine: deletion vectors and exact filters are taken into account instead of giving up or
going wrong, and a file of nulls takes nobody's place under NULLS LAST.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.table.statistics.key_ranks import column_ranks
from app.types import TypeRoot
from app.types.data_types import FLOATING_ROOTS, INTEGER_BITS
from app.types.value_arrays import concat

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.predicates.column_bounds import ColumnBounds
    from app.types import DataType

_EXACT_BOUNDS = frozenset({TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.DECIMAL, *INTEGER_BITS, *FLOATING_ROOTS})
"""Types whose bounds are values of the file; text bounds may be cut, timestamp bounds rounded."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Files that top-n may drop; files that merge are not among them and always stay.

    Attributes:
        bounds: statistics of the first sort column, in plan order.
        sure_rows: int64, shape (m,): live rows that are proven to satisfy the filter.
        whole: shape (m,): every row of the file is one of them.
    """

    bounds: ColumnBounds
    sure_rows: NDArray[np.int64]
    whole: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _Standings:
    """Where the rows of each candidate stand: places ascend in the query's order, shape (m,)."""

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
        known = np.concatenate([bounds.has_low, bounds.has_high])
        low, high = np.split(column_ranks(concat([bounds.low, bounds.high]), known), 2)
        # NaN, which the bound does not count, stands behind everything.
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
        """``(candidate, place, rows)``: that many sure rows stand at or before each place, counted once."""
        some = np.flatnonzero(self.sure_values > 0)
        first = np.where(self.best_is_row[some], 1, 0)
        return (
            np.concatenate([some, some]),
            np.concatenate([self.best[some], self.worst[some]]),
            np.concatenate([first, self.sure_values[some] - first]),
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
    """Which candidates hold no row of the answer, shape (m,).

    Args:
        candidates: the files.
        column_type: type of the first sort column.
        limit: how many rows the query wants.
        descending: direction of the first sort key.
        nulls_first: where its nulls stand.
        single_key: there is no further sort key, so that any choice among ties is right.
    """
    if limit == 0:
        return np.ones(len(candidates.whole), np.bool_)
    standings = _Standings.of(candidates, column_type, descending=descending)
    wanted = limit
    if nulls_first:
        sure_nulls = int(standings.sure_nulls.sum())
        if sure_nulls >= limit:
            return _beyond_nulls(standings, limit, single_key=single_key)
        wanted -= sure_nulls
    return _beyond_values(standings, wanted, nulls_first=nulls_first, single_key=single_key)


def _beyond_nulls(standings: _Standings, limit: int, *, single_key: bool) -> NDArray[np.bool_]:
    """The first ``limit`` rows are nulls: files without any hold none of them."""
    dropped = ~standings.may_have_nulls
    if single_key:
        order = np.argsort(-standings.sure_nulls, kind="stable")
        sure = standings.sure_nulls[order]
        dropped[order] |= np.cumsum(sure) - sure >= limit
    return dropped


def _beyond_values(
    standings: _Standings, wanted: int, *, nulls_first: bool, single_key: bool
) -> NDArray[np.bool_]:
    owners, places, rows = standings.points()
    order = np.argsort(places, kind="stable")
    reached = np.cumsum(rows[order])
    at = int(np.searchsorted(reached, wanted))
    if at == len(reached):
        return np.zeros(len(standings.best), np.bool_)
    threshold = places[order[at]]
    # Leading nulls are rows of the answer, wherever the values of their file stand.
    movable = ~standings.may_have_nulls if nulls_first else np.ones(len(standings.best), np.bool_)
    behind = np.where(standings.has_best, standings.best > threshold, ~standings.may_have_values)
    dropped = movable & behind
    if single_key:
        tied = movable & standings.has_best & (standings.best == threshold)
        within = places <= threshold
        sure = np.bincount(owners[within], rows[within], len(standings.best)).astype(np.int64)
        found = int(sure[~(dropped | tied)].sum())
        among_tied = np.cumsum(sure[tied])
        dropped[tied] = found + among_tied - sure[tied] >= wanted
    return dropped
