"""Searches of all index files that cover a range of rows, for the rows that meet a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, assert_never

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

    def holds(self, span: Span) -> bool:
        """Return True if the file, by its bounds, may have a key in a span."""
        low, high, has_keys, _ = self.bounds
        is_before = span.stop is not None and low is not None and low >= span.stop  # type: ignore[operator] # of one type
        is_behind = span.start is not None and high is not None and high < span.start  # type: ignore[operator] # of one type
        return has_keys and not is_before and not is_behind

    def is_within(self, span: Span) -> bool:
        """Return True if all keys of the file are in a span."""
        low, high, has_keys, _ = self.bounds
        is_low = span.start is None or (low is not None and low >= span.start)  # type: ignore[operator] # of one type
        is_high = span.stop is None or (high is not None and high < span.stop)  # type: ignore[operator] # of one type
        return not has_keys or (is_low and is_high)


class FoundRows(NamedTuple):
    """Searches, with positions of their parts. ``is_complement``: they find the rows that do not match."""

    is_complement: bool
    searches: Iterator[tuple[int, Callable[[], Search]]]


def searches(condition: Condition, parts: Sequence[Part]) -> FoundRows:
    """Choose the searches for the rows of a range that meet a condition, or for its other rows.

    ``parts`` have all rows of the range, so that the rows that match follow from those that do not. For a
    span, the searches that read less are chosen. A search is made when the iteration reaches it, and begins
    when it is called.
    """
    match condition:
        case NullTest(null=null):
            return FoundRows(not null, _nulls(parts))
        case Points(keys=keys, negated=negated):
            found = (
                (at, partial(part.file.rows_with, within))
                for at, part in enumerate(parts)
                if part.bounds.has_keys and (within := between(keys, part.bounds.low, part.bounds.high))
            )
            return FoundRows(negated, chain(_nulls(parts), found) if negated else found)
        case Span():
            return _of_span(condition, parts)
        case _:
            assert_never(condition)


def _nulls(parts: Sequence[Part]) -> Iterator[tuple[int, Callable[[], Search]]]:
    return ((at, part.file.null_rows) for at, part in enumerate(parts) if part.bounds.has_nulls)


def _of_span(span: Span, parts: Sequence[Part]) -> FoundRows:
    start, stop = span.start, span.stop
    inside = [at for at, part in enumerate(parts) if part.holds(span)]
    outside = [at for at, part in enumerate(parts) if not part.is_within(span)]
    if sum(parts[at].file.size for at in inside) <= sum(parts[at].file.size for at in outside):
        within = ((at, partial(parts[at].file.rows_between, start, stop)) for at in inside)
        return FoundRows(is_complement=False, searches=within)
    edges = [Span(*edge) for edge in ((None, start), (stop, None)) if edge != (None, None)]
    found = (
        (at, partial(parts[at].file.rows_between, edge.start, edge.stop))
        for at in outside
        for edge in edges
        if parts[at].holds(edge)
    )
    return FoundRows(is_complement=True, searches=chain(_nulls(parts), found))
