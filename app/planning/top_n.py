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
from typing import TYPE_CHECKING, TypeAlias

from app.types import TypeRoot, sql_key
from app.types.data_types import FLOATING_ROOTS, INTEGER_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.predicates.bounds import ColumnBounds
    from app.types import DataType

Order: TypeAlias = "tuple[bool, float] | bool | int | float | bytes"

_NAN_KEY: Order = (True, 0.0)
"""Where NaN stands in SQL's order of floating point values: behind everything."""

_EXACT_BOUNDS = frozenset({TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.DECIMAL, *INTEGER_BITS, *FLOATING_ROOTS})
"""Types whose bounds are values of the file; text bounds may be cut, timestamp bounds rounded."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that top-n may drop.

    Attributes:
        bounds: statistics of the first sort column; None where there are none.
        sure_rows: live rows that are proven to satisfy the filter; 0 where nothing is proven.
        whole: every row of the file is one of them.
    """

    bounds: ColumnBounds | None
    sure_rows: int
    whole: bool


@dataclass(frozen=True, slots=True)
class _Standing:
    """Where the rows of one candidate stand, ascending in the query's order once ``reverse`` is applied."""

    at: int
    best: Order | None
    worst: Order | None
    sure_values: int
    sure_nulls: int
    may_have_nulls: bool
    may_have_values: bool
    best_is_row: bool


def beyond_top_n(
    candidates: Sequence[Candidate],
    column_type: DataType,
    limit: int,
    *,
    descending: bool,
    nulls_first: bool,
    single_key: bool,
) -> set[int]:
    """Positions in ``candidates`` of the files that hold no row of the answer.

    Args:
        candidates: files in plan order; files that merge are not candidates and always stay.
        column_type: type of the first sort column.
        limit: how many rows the query wants.
        descending: direction of the first sort key.
        nulls_first: where its nulls stand.
        single_key: there is no further sort key, so that any choice among ties is right.
    """
    if limit == 0:
        return set(range(len(candidates)))
    standings = [
        _standing(at, each, column_type, descending=descending) for at, each in enumerate(candidates)
    ]
    wanted = limit
    if nulls_first:
        sure_nulls = sum(each.sure_nulls for each in standings)
        if sure_nulls >= limit:
            return _beyond_nulls(standings, limit, single_key=single_key)
        wanted -= sure_nulls
    return _beyond_values(
        standings, wanted, descending=descending, nulls_first=nulls_first, single_key=single_key
    )


def _standing(at: int, candidate: Candidate, column_type: DataType, *, descending: bool) -> _Standing:
    bounds = candidate.bounds
    if bounds is None or bounds.null_count is None:
        return _Standing(at, None, None, 0, 0, may_have_nulls=True, may_have_values=True, best_is_row=False)
    key = sql_key(column_type)
    values = bounds.row_count - bounds.null_count
    low = None if bounds.min is None else key(bounds.min)
    high = None if bounds.max is None else key(bounds.max)
    if bounds.may_hold_nan and high is not None:
        high = _NAN_KEY
    best, worst = (high, low) if descending else (low, high)
    return _Standing(
        at,
        best,
        worst,
        sure_values=0 if worst is None else max(0, candidate.sure_rows - bounds.null_count),
        sure_nulls=max(0, candidate.sure_rows - values),
        may_have_nulls=bounds.null_count > 0,
        may_have_values=values > 0,
        best_is_row=candidate.whole
        and column_type.root in _EXACT_BOUNDS
        and not (bounds.may_hold_nan and descending),
    )


def _beyond_nulls(standings: Sequence[_Standing], limit: int, *, single_key: bool) -> set[int]:
    """The first ``limit`` rows are nulls: files without any hold none of them."""
    dropped = {each.at for each in standings if not each.may_have_nulls}
    if single_key:
        found = 0
        for each in sorted(standings, key=lambda one: -one.sure_nulls):
            if found >= limit:
                dropped.add(each.at)
            found += each.sure_nulls
    return dropped


def _beyond_values(
    standings: Sequence[_Standing], wanted: int, *, descending: bool, nulls_first: bool, single_key: bool
) -> set[int]:
    threshold = _threshold(standings, wanted, descending=descending)
    if threshold is None:
        return set()

    def behind(each: _Standing) -> bool:
        if each.best is None:
            return not each.may_have_values
        return each.best < threshold if descending else each.best > threshold  # type: ignore[operator] # one type's keys

    # Leading nulls are rows of the answer, wherever the values of their file stand.
    movable = [each for each in standings if not (nulls_first and each.may_have_nulls)]
    dropped = {each.at for each in movable if behind(each)}
    if single_key:
        tied = {each.at for each in movable if each.best == threshold}
        reached = {each.at: _rows_up_to(each, threshold, descending=descending) for each in standings}
        found = sum(rows for at, rows in reached.items() if at not in dropped | tied)
        for at in sorted(tied):
            if found >= wanted:
                dropped.add(at)
            found += reached[at]
    return dropped


def _points(each: _Standing) -> list[tuple[Order, int]]:
    """``(place, rows)``: that many sure rows stand at or before each place, counted once."""
    if each.sure_values == 0 or each.best is None or each.worst is None:
        return []
    if each.best_is_row:
        return [(each.best, 1), (each.worst, each.sure_values - 1)]
    return [(each.worst, each.sure_values)]


def _threshold(standings: Sequence[_Standing], wanted: int, *, descending: bool) -> Order | None:
    """The first place up to which ``wanted`` sure rows stand; None if there are not that many."""
    found = 0
    points = (point for each in standings for point in _points(each))
    for place, rows in sorted(points, key=lambda point: point[0], reverse=descending):
        found += rows
        if found >= wanted:
            return place
    return None


def _rows_up_to(each: _Standing, threshold: Order, *, descending: bool) -> int:
    """How many sure rows stand at or before ``threshold``."""
    found = 0
    for place, rows in _points(each):
        low, high = (threshold, place) if descending else (place, threshold)
        if low <= high:  # type: ignore[operator] # one type's keys
            found += rows
    return found
