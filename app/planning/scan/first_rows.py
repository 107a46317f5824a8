"""ORDER BY with LIMIT, and LIMIT alone: the last step of a plan.

Both count only on rows that are sure: live rows of raw convertible files that are proven to satisfy the
filter. A file that merges is never given up for a better one, since its merged rows may differ from what its
statistics say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from app.errors import CorruptIndexError, FilterError
from app.file_index.answers.result import Rows
from app.file_index.top_n import top_n
from app.planning.plan.file_plan import ExplainStep, SkipStep
from app.planning.scan.live_rows import every_position
from app.planning.scan.top_n import Candidates, beyond_top_n
from app.types import TypeRoot
from app.types.grouping import group_rows
from app.types.values import is_comparable

if TYPE_CHECKING:
    from app.file_index.container import FileIndex
    from app.planning.plan.state import PlanState
    from app.planning.request.requests import TopN
    from app.planning.scan.index_filter import IndexFilter
    from app.planning.version.file_bounds import FileBounds
    from app.predicates.binding.names import Names
    from app.predicates.column_bounds import ColumnBounds
    from app.types import DataField

_BELOW_BLANK: Final = r"[\x00-\x1f]"
_CHARACTER: Final = r"[^\x80-\xbf]"
"""The first byte of a character in UTF-8."""
_ABOVE_BLANKS: Final = b"!"
"""The next byte after the blank: behind a value, it is above as many blanks as there may be."""


def keep_first_rows(
    state: PlanState, wanted: TopN, names: Names, bounds: FileBounds, indexes: IndexFilter
) -> None:
    """Skips files that hold none of the first rows, and narrows the others to rows that can be among them.

    Raises:
        FilterError: a sort column is not in the table.
    """
    fields = [names.sort_column(key.column) for key in wanted.order_by]
    if not fields:
        raise FilterError("top_n needs at least one column in order_by")
    if not is_comparable(fields[0].type):
        return
    first = wanted.order_by[0]
    left = state.left()
    files = left[state.raw_convertible[left]]
    exact = state.is_exact(files)
    sure = np.where(exact, state.rows_left[files], 0)
    beyond = files[:0]
    known = bounds.values(fields[0], files)
    if known is not None and fields[0].type.root is TypeRoot.CHAR:
        known = padded_bounds(known, fields[0].type.precision)
    if known is not None:
        dropped = beyond_top_n(
            Candidates(known, sure, exact & (sure == state.files.columns.row_counts[files])),
            fields[0].type,
            wanted.limit,
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
        # A sort column that is another today than when the file was written stands in another order there.
        if column is None or any(old is None or not old.type.same_kind(new.type) for old, new in pairs):
            continue
        for file, index in indexes.open_ordered(state, files[group], column.name):
            _narrow(state, file, index, column, wanted, indexes)
    # Which files are beyond depends on what could be read, and pages may come from several plans.
    if indexes.are_all_asked:
        state.skip(beyond, SkipStep.TOP_N)


def enough_for_limit(state: PlanState, limit: int) -> None:
    """Once some files are sure to hold ``limit`` rows of the answer, skips all others."""
    files = state.left()
    sure = np.where(state.is_exact(files), state.rows_left[files], 0)
    found = np.cumsum(sure)
    if limit and (not len(files) or found[-1] < limit):
        return
    chosen = (sure > 0) & (found - sure < limit)
    state.skip(files[~chosen], SkipStep.LIMIT)


def _narrow(
    state: PlanState, file: int, index: FileIndex, column: DataField, wanted: TopN, indexes: IndexFilter
) -> None:
    """Narrows a file's rows by the index of the first sort column."""
    row_count = int(state.files.columns.row_counts[file])
    live = state.positions[file] if file in state.positions else every_position(row_count)
    if not isinstance(live, BitMap):
        return
    first = wanted.order_by[0]
    try:
        found = top_n(
            index,
            column,
            descending=first.descending,
            nulls_first=first.nulls_first,
            limit=wanted.limit,
            strict=len(wanted.order_by) == 1,
            selection=Rows(live, exact=True),
        )
    except CorruptIndexError as error:
        indexes.unreadable(state, file, error)
        return
    if isinstance(found, Rows) and len(found.positions) < row_count:
        state.positions[file] = found.positions
        state.narrow(file, len(found.positions))
        state.note(np.array([file]), ExplainStep(SkipStep.TOP_N, "rows", rows=len(found.positions)))


def padded_bounds(bounds: ColumnBounds, length: int) -> ColumnBounds:
    """Bounds of a CHAR column in the order of ORDER BY, which is that of padded values.

    Statistics are of values as they are stored. Padding only makes a value greater, so the smallest stored
    one bounds the padded ones too. Of the values up to the largest stored one only those are above it when
    padded that are a beginning of it: blanks then meet what follows, and are above it if that is less than a
    blank.

    Args:
        bounds: of the values of a CHAR column as they are stored.
        length: n of its type.
    """
    assert isinstance(bounds.high, pa.LargeBinaryArray)  # noqa: S101 - the form of strings
    high = bounds.high.fill_null(b"")
    behind, nothing = (pa.scalar(each, pa.large_binary()) for each in (_ABOVE_BLANKS, b""))
    is_short = pc.less(pc.count_substring_regex(high, pattern=_CHARACTER), length)
    padded = pc.if_else(is_short, pc.binary_join_element_wise(high, behind, nothing), high)
    has_controls = np.asarray(pc.match_substring_regex(high, pattern=_BELOW_BLANK))
    return replace(bounds, high=padded, has_high=bounds.has_high & ~has_controls)
