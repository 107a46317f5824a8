"""ORDER BY with LIMIT, and LIMIT alone: the last step of a plan.

Both count only on rows that are sure: live rows of raw convertible files that are proven to satisfy the
filter. A file that merges is never given up for a better one, since its merged rows may differ from what its
statistics say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyroaring import BitMap

from app.errors import CorruptIndexError, FilterError
from app.file_index.result import Rows
from app.file_index.top_n import top_n
from app.planning.answers import SkipStep
from app.planning.live_rows import all_rows
from app.planning.top_n import Candidate, beyond_top_n
from app.predicates.names import Names
from app.predicates.unbound import Column
from app.types.values import is_comparable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.file_index.container import FileIndex
    from app.planning.draft import Draft
    from app.planning.requests import TopN
    from app.planning.value_filter import ValueFilter
    from app.types import DataField


def keep_first_rows(drafts: Sequence[Draft], asked: TopN, values: ValueFilter) -> None:
    """Skips files that hold none of the first rows, and narrows the others to rows that can be among them.

    Raises:
        FilterError: a sort column is not in the table.
    """
    names = Names(values.version.schema.fields)
    fields = [names.column(Column(key.column)) for key in asked.order_by]
    if not fields:
        raise FilterError("top_n needs at least one column in order_by")
    if not is_comparable(fields[0].type):
        return
    first = asked.order_by[0]
    candidates = [draft for draft in drafts if draft.raw_convertible]
    dropped = beyond_top_n(
        [_candidate(draft, fields[0], values) for draft in candidates],
        fields[0].type,
        asked.limit,
        descending=first.descending,
        nulls_first=first.nulls_first,
        single_key=len(fields) == 1,
    )
    for at in dropped:
        candidates[at].skip(SkipStep.TOP_N)
    exact = [draft for draft in candidates if draft.skipped is None and draft.exact]
    for draft, index in values.load(exact):
        _narrow(draft, index, fields, asked, values)


def enough_for_limit(drafts: Sequence[Draft], limit: int) -> None:
    """Once some files are sure to hold ``limit`` rows of the answer, skips all others."""
    found, chosen = 0, set()
    for draft in drafts:
        if found >= limit:
            break
        if draft.exact:
            found += draft.live_rows
            chosen.add(id(draft))
    if found >= limit:
        for draft in drafts:
            if id(draft) not in chosen:
                draft.skip(SkipStep.LIMIT)


def _candidate(draft: Draft, field: DataField, values: ValueFilter) -> Candidate:
    sure = draft.live_rows if draft.exact else 0
    return Candidate(
        values.bounds(draft)(field), sure, whole=draft.exact and sure == draft.entry.file.row_count
    )


def _narrow(
    draft: Draft, index: FileIndex, fields: Sequence[DataField], asked: TopN, values: ValueFilter
) -> None:
    """Narrows a file's rows by the index of the first sort column, if that column is what it is today."""
    file_schema = values.version.file_schema(draft.entry)
    written = [file_schema.by_id.get(field.id) for field in fields]
    if any(old is None or not old.type.same_kind(new.type) for old, new in zip(written, fields, strict=True)):
        return
    first, column = asked.order_by[0], written[0]
    live = all_rows(draft.entry.file.row_count) if draft.positions is None else draft.positions
    if column is None or not isinstance(live, BitMap):
        return
    try:
        found = top_n(
            index,
            column,
            descending=first.descending,
            nulls_first=first.nulls_first,
            limit=asked.limit,
            strict=len(fields) == 1,
            selection=Rows(live, exact=True),
        )
    except CorruptIndexError as error:
        values.unreadable(draft, error)
        return
    if isinstance(found, Rows) and len(found.positions) < draft.entry.file.row_count:
        draft.positions, draft.live_rows = found.positions, len(found.positions)
        draft.tried(SkipStep.TOP_N, "rows", rows=draft.live_rows)
