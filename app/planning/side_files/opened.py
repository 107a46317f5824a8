"""One segment of index files as a plan asks it, and how far it is at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from app.file_index.index_kinds import WantedIndexes
from app.file_index.stacked_index import Heads, StackedIndex
from app.planning.side_files.segments import BodySegment, HeadSegment, body_bytes, files_of_bodies


class Reach(IntEnum):
    """How far a load goes for what memory lacks."""

    MACHINE = 0
    """This machine's disk."""
    STORE = 1
    """Besides, the store that processes share."""
    SOURCE = 2
    """Besides, the index files themselves."""


class Found(NamedTuple):
    """The indexes of some rows, stacked.

    ``at``: int64, shape (k,): positions among the rows that were asked. ``places``: int64, shape (k,): of
    each in ``stack``.
    """

    at: NDArray[np.int64]
    stack: StackedIndex
    places: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Part:
    """Files of an open segment whose ``wanted`` indexes lie together.

    ``span``: places of the files in the segment. ``at``: int64, shape (k,): positions of those that are asked
    among all rows that are asked of the segment. ``inside``: int64, shape (k,): their places in the part.
    """

    opened: HeadSegment
    segment_first: int
    span: range
    wanted: WantedIndexes
    at: NDArray[np.int64]
    inside: NDArray[np.int64]

    @property
    def first(self) -> int:
        """Row of the first file."""
        return self.segment_first + self.span.start

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of the files that are asked."""
        return self.first + self.inside

    @cached_property
    def heads(self) -> Heads:
        """Heads of the part's files alone."""
        return self.opened.slice(self.span.start, self.span.stop)

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which of the part's files are held as a whole."""
        return self.opened.whole[self.span.start : self.span.stop]

    @property
    def asked_bytes(self) -> int:
        """Bytes of the payloads that are asked."""
        return body_bytes(self.heads, self.inside, self.wanted)

    def restore(self, stored: Mapping[str, Any]) -> BodySegment:
        """The segment of which an entry has this."""
        return BodySegment.restore(stored, self.wanted, self.heads)


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A segment with the heads of ascending ``rows``, as far as they are at hand.

    Attributes:
        lacking: int64: those of the rows that have no head here.
        ready: what heads alone tell, and files that are held as a whole.
        parts: the other files.
        fronts: what was read of files that are not small, by row, until their payloads are taken.
        bodies: payloads of parts that are at hand, by the row that the part begins with.
    """

    rows: NDArray[np.int64]
    heads: HeadSegment
    lacking: NDArray[np.int64]
    ready: Sequence[Found]
    parts: Sequence[Part]
    fronts: dict[int, bytes]
    bodies: dict[int, BodySegment] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        first: int,
        heads: HeadSegment,
        rows: NDArray[np.int64],
        wanted: WantedIndexes,
        fronts: Mapping[int, bytes] | None = None,
    ) -> Self:
        """Sorts the files out by what is to be known of them; ``first``: row that the segment begins with."""
        at, places, lacking = np.arange(len(rows)), rows - first, rows[:0]
        if not heads.is_complete:
            has_head = heads.has(places)
            at, places, lacking = at[has_head], places[has_head], rows[~has_head]
        ready: list[Found] = []
        if heads.has_whole:
            whole = heads.whole[places]
            if whole.any():
                ready.append(Found(at[whole], heads.index, places[whole]))
            at, places = at[~whole], places[~whole]
        # Columns of the filter without an index must not tell segments apart that hold the same.
        listed = heads.listed(wanted)
        parts: list[Part] = []
        if listed:
            size = files_of_bodies(heads.largest_body(listed))
            for start_of_part, start, stop in runs(places, size):
                span, inside = range(start_of_part, start_of_part + size), places[start:stop] - start_of_part
                parts.append(Part(heads, first, span, listed, at[start:stop], inside))
        else:
            ready.append(Found(at, heads.without_payloads, places))
        return cls(rows, heads, lacking, ready, parts, dict(fronts or {}))


def runs(ascending: NDArray[np.int64], size: int) -> Iterator[tuple[int, int, int]]:
    """Cuts ascending numbers up where they reach another multiple of ``size``.

    Yields the multiple, and the start and end of a run of numbers from it on.
    """
    if not len(ascending):
        return
    first = int(ascending[0]) // size
    cuts = np.searchsorted(ascending, np.arange(first, int(ascending[-1]) // size + 2) * size).tolist()
    for number, (start, stop) in enumerate(pairwise(cuts), first):
        if start < stop:
            yield number * size, start, stop
