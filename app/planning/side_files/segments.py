"""Segments of many ``.index`` files: heads and payloads, how a segment grows, and how far it is at hand.

On the disk, for processes that start later, segments of the files of one manifest are all that is kept of
index files. Where the engine merges manifests, and names the same files in new ones, they are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from app.file_index import Heads, StackedIndex, WantedIndexes
from app.types import NULL_LENGTH, BytesColumn, own_bytes
from app.work import LEDGER

FILES_OF_HEADS: Final = 2048
"""Files of a segment of heads: few enough that several processes read different ones of one manifest."""

_NEW_SHARE: Final = 4
"""A segment is written anew when it has more new files than one for so many that are kept."""

_BODY_BYTES: Final = 64 << 20
"""What the payloads of a segment take at most, unless those of a single file take more.

A process with little memory has smaller ones, since what is made of a segment takes several times as much.
"""


@dataclass(frozen=True, eq=False)
class HeadSegment:
    """Heads of up to n consecutive files of a manifest.

    ``heads``: of n files; there is none for files that nobody asked about, or that could not be read.
    ``whole``: bool, shape (n,): files that are here as a whole, since they are small.
    """

    heads: Heads
    whole: NDArray[np.bool_]
    index: StackedIndex
    kept: int = 0
    _largest_bodies: dict[WantedIndexes, int] = field(default_factory=dict)

    @classmethod
    def of(cls, buffers: BytesColumn, sizes: NDArray[np.int64]) -> Self:
        """The segment of some fronts: their content and the bytes of their files, each of shape (n,)."""
        whole = buffers.lengths == sizes
        containers = BytesColumn(buffers.data, buffers.starts, np.where(whole, buffers.lengths, NULL_LENGTH))
        return cls(Heads.read(buffers, sizes), whole, StackedIndex.read(containers))

    @classmethod
    def none(cls, count: int) -> Self:
        """Nothing is known yet of ``count`` files."""
        return cls.of(BytesColumn.of([None] * count), np.zeros(count, np.int64))

    @classmethod
    def restore(cls, stored: Mapping[str, Any]) -> Self:
        """The segment of which an entry has :meth:`stored`."""
        segment = cls.of(stored["buffers"], stored["sizes"])
        return replace(segment, kept=segment.known)

    def stored(self) -> dict[str, Any]:
        """Columns of the segment, as an entry has them."""
        return {"buffers": self.heads.buffers, "sizes": self.heads.sizes}

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.heads.nbytes + own_bytes(self.heads.buffers.data) + self.index.own_nbytes

    @property
    def at_hand(self) -> NDArray[np.bool_]:
        """Which files have a head here."""
        return ~self.heads.buffers.is_null

    @cached_property
    def known(self) -> int:
        """How many files have a head here."""
        return int(np.count_nonzero(self.at_hand))

    @property
    def is_complete(self) -> bool:
        """Whether every file has a head here."""
        return self.known == len(self.heads)

    @cached_property
    def has_whole(self) -> bool:
        """Whether a file is here as a whole."""
        return bool(self.whole.any())

    @cached_property
    def without_payloads(self) -> StackedIndex:
        """Stack of the heads alone, for files that have none of the indexes that a filter asks."""
        return StackedIndex(self.heads, {})

    def has(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some files have a head here."""
        known: NDArray[np.bool_] = self.heads.buffers.lengths[places] >= 0
        return known

    def with_fronts(self, places: NDArray[np.int64], contents: BytesColumn, sizes: NDArray[np.int64]) -> Self:
        """The segment with the fronts of further files.

        ``places``: of these files, shape (n,). ``contents``: small files as a whole, of others their heads;
        null where there is none. Shape (n,); its data begin with those of the segment.
        """
        before, all_sizes = self.heads.buffers, self.heads.sizes.copy()
        starts, lengths = before.starts.copy(), before.lengths.copy()
        starts[places], lengths[places], all_sizes[places] = contents.starts, contents.lengths, sizes
        return replace(self.of(BytesColumn(contents.data, starts, lengths), all_sizes), kept=self.kept)

    def slice(self, start: int, stop: int) -> Heads:
        """The heads of some files next to each other."""
        buffers = self.heads.buffers
        part = BytesColumn(buffers.data, buffers.starts[start:stop], buffers.lengths[start:stop])
        return Heads.read(part, self.heads.sizes[start:stop])

    def listed(self, wanted: WantedIndexes) -> WantedIndexes:
        """Those of some indexes that a file has whose head is here."""
        return frozenset((column, kind) for column, kind in wanted if kind in self.heads.kinds(column))

    def largest_body(self, wanted: WantedIndexes) -> int:
        """Bytes of the largest sum of asked payloads of one file."""
        if wanted not in self._largest_bodies:
            self._largest_bodies[wanted] = int(_body_sizes(self.heads, wanted).max(initial=0))
        return self._largest_bodies[wanted]


def files_of_bodies(largest_body: int) -> int:
    """Files of a segment of payloads, a power of two."""
    fitting = max(1, min(_BODY_BYTES, LEDGER.portion) // max(1, largest_body))
    return min(FILES_OF_HEADS, 1 << fitting.bit_length() - 1)


@dataclass(frozen=True, eq=False)
class BodySegment:
    """The indexes of up to n consecutive files of a manifest that a filter asks.

    ``fetched``: bool, shape (n,): files of which the asked indexes are here. ``kept``: of how many files the
    indexes lie on the disk.
    """

    fetched: NDArray[np.bool_]
    index: StackedIndex
    kept: int = 0

    @property
    def at_hand(self) -> NDArray[np.bool_]:
        """Of which files the asked indexes are here."""
        return self.fetched

    @cached_property
    def known(self) -> int:
        """Of how many files the asked indexes are here."""
        return int(np.count_nonzero(self.fetched))

    @property
    def is_complete(self) -> bool:
        """Whether every file's are here."""
        return self.known == len(self.fetched)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.fetched.nbytes + self.index.nbytes

    @classmethod
    def none(cls, heads: Heads) -> Self:
        """Nothing is fetched yet of files with these heads."""
        return cls(np.zeros(len(heads), np.bool_), StackedIndex(heads, {}))

    @classmethod
    def restore(cls, stored: Mapping[str, Any], wanted: WantedIndexes, heads: Heads) -> Self:
        """The segment of ``wanted`` indexes of which an entry has :meth:`stored`."""
        names = {(column, str(kind)): _payloads_name(column, kind) for column, kind in wanted}
        if not all(name in stored for name in names.values()):
            return cls.none(heads)
        payloads = {index: stored[name] for index, name in names.items()}
        fetched = stored["fetched"] & ~heads.buffers.is_null
        segment = cls(fetched, StackedIndex(heads, payloads))
        return replace(segment, kept=segment.known)

    def stored(self) -> dict[str, Any]:
        """Columns of the segment, as an entry has them."""
        columns = {_payloads_name(*key): column for key, column in (self.index.fetched or {}).items()}
        return {"fetched": self.fetched, **columns}

    def with_payloads(
        self, heads: Heads, places: NDArray[np.int64], payloads: Mapping[tuple[str, str], BytesColumn]
    ) -> Self:
        """The segment with the payloads of further files.

        ``heads``: of all files of the segment, as far as they are known. ``payloads``: by column and kind,
        those of the further files in this order.
        """
        before = self.index.fetched or {}
        nothing = BytesColumn.of([None] * len(heads))
        joined = {key: merged(before.get(key, nothing), places, added) for key, added in payloads.items()}
        # Heads that were dropped from their cache meanwhile are not known any more, but may be read again.
        fetched = self.fetched & ~heads.buffers.is_null
        fetched[places] = True
        return type(self)(fetched, StackedIndex(heads, joined), self.kept)


def body_bytes(heads: Heads, places: NDArray[np.int64], wanted: WantedIndexes) -> int:
    """Bytes of the asked payloads of some files."""
    return int(_body_sizes(heads, wanted)[places].sum())


def _body_sizes(heads: Heads, wanted: WantedIndexes) -> NDArray[np.int64]:
    sizes = np.zeros(len(heads), np.int64)
    for column, kind in wanted:
        extents = heads.extents(column, kind)
        sizes += np.where(extents.within(heads.sizes), extents.lengths, 0)
    return sizes


def merged(strings: BytesColumn, places: NDArray[np.int64], added: BytesColumn) -> BytesColumn:
    """The column with other strings in some places; the buffer is shared if there was nothing before."""
    starts, lengths = strings.starts.copy(), strings.lengths.copy()
    starts[places] = np.where(added.is_null, 0, added.starts + len(strings.data))
    lengths[places] = added.lengths
    data = np.concatenate([strings.data, added.data]) if len(strings.data) else added.data
    return BytesColumn(data, starts, lengths)


def is_worth_keeping(segment: HeadSegment | BodySegment) -> bool:
    """Tells whether many of a segment's files are not in its entry yet."""
    return (segment.known - segment.kept) * _NEW_SHARE > segment.kept


def heads_name(first: int) -> str:
    """Form of the entry that has the heads of the segment that begins with row ``first``."""
    return f"heads of index files 2 {first}"


def body_name(first: int, size: int, wanted: Iterable[tuple[str, str]]) -> str:
    """Form of the entry that has the asked indexes of the ``size`` rows from ``first`` on."""
    names = sorted((column, str(kind)) for column, kind in wanted)
    return f"indexes of index files 2 {first} {size} {names}"


def _payloads_name(column: str, kind: str) -> str:
    return f"{kind} {column}"


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
