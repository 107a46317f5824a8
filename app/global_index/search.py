"""Searches of all index files that cover a range of rows, for the rows that meet a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from app.file_index.answers import Condition, NullTest, Points, Span
from app.global_index.bitmap import BitmapFile
from app.global_index.btree import BTreeFile
from app.global_index.index_file import IndexFile, KeyBounds, Search
from app.global_index.keys import between

KINDS: Final[Mapping[str, type[IndexFile]]] = {"btree": BTreeFile, "bitmap": BitmapFile}
"""Kinds of files by the names that index manifests give them."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file and the bounds of its keys, from its entry."""

    file: IndexFile
    bounds: KeyBounds

    def null_rows(self) -> Search | None:
        """Search for rows without a value; None where there are none."""
        return self.file.null_rows() if self.bounds.has_nulls else None

    def rows(self, condition: Points | Span) -> Search | None:
        """Search for rows that have a key of a condition, negated or not; None where there are none."""
        low, high, has_keys, _ = self.bounds
        if not has_keys:
            return None
        if isinstance(condition, Points):
            keys = between(condition.keys, low, high)
            return self.file.rows_with(keys) if keys else None
        start, stop = condition.start, condition.stop
        is_before = stop is not None and low is not None and low >= stop  # type: ignore[operator] # of one type
        is_behind = start is not None and high is not None and high < start  # type: ignore[operator] # of one type
        return None if is_before or is_behind else self.file.rows_between(start, stop)


def finds_complement(condition: Condition) -> bool:
    """Return True if the searches of a condition find the rows that do not meet it."""
    match condition:
        case NullTest(null=null):
            return not null
        case Points(negated=negated):
            return negated
        case Span():
            return False
        case _:
            assert_never(condition)


def searches(condition: Condition, parts: Sequence[Part]) -> list[tuple[int, Search]]:
    """Begin searches for the rows that meet a condition, or for their complement.

    Returns:
        Each search with the place of its part.
    """
    nulls = [(at, search) for at, part in enumerate(parts) if (search := part.null_rows()) is not None]
    if isinstance(condition, NullTest):
        return nulls
    rows = [(at, search) for at, part in enumerate(parts) if (search := part.rows(condition)) is not None]
    return nulls + rows if finds_complement(condition) else rows
