"""Segments of many ``.index`` files: their heads and payloads, how they grow, and which files they lack.

For processes that start later, the disk stores index files, but only as segments of one manifest. If the
engine merges manifests, and names the same files in new ones, the files are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from app.file_index import Heads, StackedIndex, WantedIndexes
from app.types import NULL_LENGTH, BytesColumn, own_bytes
from app.work import LEDGER

FILES_OF_HEADS: Final = 2048
"""Files of a segment of heads: few enough that several processes read different segments of one manifest."""

# A segment is rewritten when its new files exceed one per this many stored ones.
_NEW_SHARE: Final = 4

# Maximum bytes of a segment's payloads, unless a single file's exceed it. A process with little memory has
# smaller segments, since a stack takes several times its bytes.
_BODY_BYTES: Final = 64 << 20


@dataclass(frozen=True, eq=False)
class HeadSegment:
    """Heads of up to n consecutive files of a manifest."""

    heads: Heads  # Of n files; null for files not requested so far, or unreadable.
    whole: NDArray[np.bool_]  # Shape (n,): the file is small, and held as a whole.
    index: StackedIndex
    kept: int = 0  # Files in the entry on the disk.
    _largest_bodies: dict[WantedIndexes, int] = field(default_factory=dict)

    @classmethod
    def of(cls, buffers: BytesColumn, sizes: NDArray[np.int64]) -> Self:
        """Make a segment from the fronts and the sizes of files, each of shape (n,)."""
        whole = buffers.lengths == sizes
        containers = BytesColumn(buffers.data, buffers.starts, np.where(whole, buffers.lengths, NULL_LENGTH))
        return cls(Heads.read(buffers, sizes), whole, StackedIndex.read(containers))

    @classmethod
    def none(cls, count: int) -> Self:
        """Make an empty segment of ``count`` files."""
        return cls.of(BytesColumn.of([None] * count), np.zeros(count, np.int64))

    @classmethod
    def restore(cls, stored: Mapping[str, Any]) -> Self:
        """Read a segment from an entry."""
        segment = cls.of(stored["buffers"], stored["sizes"])
        return replace(segment, kept=segment.loaded_files)

    def stored(self) -> dict[str, Any]:
        """Return the columns of the segment's entry."""
        return {"buffers": self.heads.buffers, "sizes": self.heads.sizes}

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.heads.nbytes + own_bytes(self.heads.buffers.data) + self.index.own_nbytes

    @property
    def at_hand(self) -> NDArray[np.bool_]:
        """True for files with a head, shape (n,)."""
        return ~self.heads.buffers.is_null

    @cached_property
    def loaded_files(self) -> int:
        """Number of files with a head."""
        return int(np.count_nonzero(self.at_hand))

    @property
    def is_complete(self) -> bool:
        """True if every file has a head."""
        return self.loaded_files == len(self.heads)

    @cached_property
    def has_whole(self) -> bool:
        """True if any file is held as a whole."""
        return bool(self.whole.any())

    @cached_property
    def without_payloads(self) -> StackedIndex:
        """A stack of the heads alone, for files without any index that a filter needs."""
        return StackedIndex(self.heads, {})

    def has(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return True for files, by place, with a head."""
        has_head: NDArray[np.bool_] = self.heads.buffers.lengths[places] >= 0
        return has_head

    def with_fronts(self, places: NDArray[np.int64], contents: BytesColumn, sizes: NDArray[np.int64]) -> Self:
        """Add the fronts of further files, each array of shape (n,).

        ``contents``: small files whole, the heads of others, null after a failure. Its data begins with that
        of the segment.
        """
        before, all_sizes = self.heads.buffers, self.heads.sizes.copy()
        starts, lengths = before.starts.copy(), before.lengths.copy()
        starts[places], lengths[places], all_sizes[places] = contents.starts, contents.lengths, sizes
        return replace(self.of(BytesColumn(contents.data, starts, lengths), all_sizes), kept=self.kept)

    def slice(self, start: int, stop: int) -> Heads:
        """Return the heads of adjacent files."""
        buffers = self.heads.buffers
        part = BytesColumn(buffers.data, buffers.starts[start:stop], buffers.lengths[start:stop])
        return Heads.read(part, self.heads.sizes[start:stop])

    def listed(self, requested: WantedIndexes) -> WantedIndexes:
        """Select the requested indexes that any file with a head has."""
        return frozenset((column, kind) for column, kind in requested if kind in self.heads.kinds(column))

    def largest_body(self, requested: WantedIndexes) -> int:
        """Return the largest sum of requested payloads in one file, in bytes."""
        if requested not in self._largest_bodies:
            self._largest_bodies[requested] = int(_body_sizes(self.heads, requested).max(initial=0))
        return self._largest_bodies[requested]


def files_of_bodies(largest_body: int) -> int:
    """Return the number of files of a segment of payloads, a power of two."""
    fitting = max(1, min(_BODY_BYTES, LEDGER.portion) // max(1, largest_body))
    return min(FILES_OF_HEADS, 1 << fitting.bit_length() - 1)


@dataclass(frozen=True, eq=False)
class BodySegment:
    """The requested indexes of up to n consecutive files of a manifest."""

    fetched: NDArray[np.bool_]  # Shape (n,): the file's requested indexes are here.
    index: StackedIndex
    kept: int = 0  # Files in the entry on the disk.

    @property
    def at_hand(self) -> NDArray[np.bool_]:
        """True for files whose requested indexes are here, shape (n,)."""
        return self.fetched

    @cached_property
    def loaded_files(self) -> int:
        """Number of files whose requested indexes are here."""
        return int(np.count_nonzero(self.fetched))

    @property
    def is_complete(self) -> bool:
        """True if the requested indexes of every file are here."""
        return self.loaded_files == len(self.fetched)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.fetched.nbytes + self.index.nbytes

    @classmethod
    def none(cls, heads: Heads) -> Self:
        """Make an empty segment of files with these heads."""
        return cls(np.zeros(len(heads), np.bool_), StackedIndex(heads, {}))

    @classmethod
    def restore(cls, stored: Mapping[str, Any], requested: WantedIndexes, heads: Heads) -> Self:
        """Read a segment of ``requested`` indexes from an entry."""
        names = {(column, str(kind)): _payloads_name(column, kind) for column, kind in requested}
        if not all(name in stored for name in names.values()):
            return cls.none(heads)
        payloads = {index: stored[name] for index, name in names.items()}
        fetched = stored["fetched"] & ~heads.buffers.is_null
        segment = cls(fetched, StackedIndex(heads, payloads))
        return replace(segment, kept=segment.loaded_files)

    def stored(self) -> dict[str, Any]:
        """Return the columns of the segment's entry."""
        columns = {_payloads_name(*key): column for key, column in (self.index.fetched or {}).items()}
        return {"fetched": self.fetched, **columns}

    def with_payloads(
        self, heads: Heads, places: NDArray[np.int64], payloads: Mapping[tuple[str, str], BytesColumn]
    ) -> Self:
        """Add the payloads of further files, by column and kind in the order of ``places``.

        ``heads``: heads of all files of the segment, as far as they are loaded.
        """
        before = self.index.fetched or {}
        nothing = BytesColumn.of([None] * len(heads))
        joined = {key: merged(before.get(key, nothing), places, added) for key, added in payloads.items()}
        # The cache may have evicted some heads since: their files count as not fetched, and are read again.
        fetched = self.fetched & ~heads.buffers.is_null
        fetched[places] = True
        return type(self)(fetched, StackedIndex(heads, joined), self.kept)


def body_bytes(heads: Heads, places: NDArray[np.int64], requested: WantedIndexes) -> int:
    """Sum the bytes of the requested payloads of some files."""
    return int(_body_sizes(heads, requested)[places].sum())


def _body_sizes(heads: Heads, requested: WantedIndexes) -> NDArray[np.int64]:
    sizes = np.zeros(len(heads), np.int64)
    for column, kind in requested:
        extents = heads.extents(column, kind)
        sizes += np.where(extents.within(heads.sizes), extents.lengths, 0)
    return sizes


def merged(strings: BytesColumn, places: NDArray[np.int64], added: BytesColumn) -> BytesColumn:
    """Replace strings at some places. Share the added buffer if the column has none."""
    starts, lengths = strings.starts.copy(), strings.lengths.copy()
    starts[places] = np.where(added.is_null, 0, added.starts + len(strings.data))
    lengths[places] = added.lengths
    data = np.concatenate([strings.data, added.data]) if len(strings.data) else added.data
    return BytesColumn(data, starts, lengths)


def is_worth_keeping(segment: HeadSegment | BodySegment) -> bool:
    """Return True if a segment's entry lacks many of its files."""
    return (segment.loaded_files - segment.kept) * _NEW_SHARE > segment.kept


def heads_name(first: int) -> str:
    """Name the entry with the heads of the segment that begins with row ``first``."""
    return f"heads of index files 2 {first}"


def body_name(first: int, size: int, requested: Iterable[tuple[str, str]]) -> str:
    """Name the entry with the requested indexes of the ``size`` rows from ``first`` on."""
    names = sorted((column, str(kind)) for column, kind in requested)
    return f"indexes of index files 2 {first} {size} {names}"


def _payloads_name(column: str, kind: str) -> str:
    return f"{kind} {column}"


class Reach(IntEnum):
    """Sources from which a load may read."""

    MACHINE = 0
    """Memory and this machine's disk."""
    STORE = 1
    """The shared cache as well."""
    SOURCE = 2
    """The index files themselves as well."""


@dataclass(frozen=True, slots=True, eq=False)
class Stacked:
    """The indexes of some files of one manifest, stacked."""

    at: NDArray[np.int64]  # Shape (k,): positions among the requested files.
    index: StackedIndex
    places: NDArray[np.int64]  # Shape (k,): position of each file in ``index``.


@dataclass(frozen=True, eq=False)
class SegmentPart:
    """Files of an open segment whose requested indexes are in one :class:`BodySegment`."""

    opened: HeadSegment
    segment_first: int
    span: range  # Places of the files in the segment.
    requested: WantedIndexes
    at: NDArray[np.int64]  # Shape (k,): positions among the rows requested of the segment.
    inside: NDArray[np.int64]  # Shape (k,): their places in the part.

    @property
    def first(self) -> int:
        """Row of the first file."""
        return self.segment_first + self.span.start

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of the requested files."""
        return self.first + self.inside

    @cached_property
    def heads(self) -> Heads:
        """Heads of the part's files."""
        return self.opened.slice(self.span.start, self.span.stop)

    @property
    def whole(self) -> NDArray[np.bool_]:
        """True for files of the part that are held as a whole."""
        return self.opened.whole[self.span.start : self.span.stop]

    @property
    def requested_bytes(self) -> int:
        """Bytes of the requested payloads."""
        return body_bytes(self.heads, self.inside, self.requested)

    def restore(self, stored: Mapping[str, Any]) -> BodySegment:
        """Read the segment from an entry."""
        return BodySegment.restore(stored, self.requested, self.heads)


@dataclass(frozen=True, slots=True, eq=False)
class OpenSegment:
    """A segment opened for ascending ``rows``."""

    rows: NDArray[np.int64]
    lacking: NDArray[np.int64]  # Rows without a loaded head.
    ready: Sequence[Stacked]  # Files that heads alone decide, and files held as a whole.
    parts: Sequence[SegmentPart]  # The other files.
    fronts: dict[int, bytes]  # First bytes of larger files, by row, until their payloads are taken.
    # Loaded payloads, by the first row of the part.
    bodies: dict[int, BodySegment] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        first: int,
        heads: HeadSegment,
        rows: NDArray[np.int64],
        requested: WantedIndexes,
        fronts: Mapping[int, bytes] | None = None,
    ) -> Self:
        """Divide ``rows`` into lacking, ready and parts. ``first``: first row of the segment."""
        # Positions among ``rows``, and the places of these rows in the segment. Both shrink step by step.
        at, places, lacking = np.arange(len(rows)), rows - first, np.zeros(0, np.int64)
        if not heads.is_complete:
            has_head = heads.has(places)
            at, places, lacking = at[has_head], places[has_head], rows[~has_head]
        ready: list[Stacked] = []
        if heads.has_whole:
            whole = heads.whole[places]
            if whole.any():
                ready.append(Stacked(at[whole], heads.index, places[whole]))
            at, places = at[~whole], places[~whole]
        # Columns without an index are left out, so that filters on different columns share segments.
        listed = heads.listed(requested)
        parts: list[SegmentPart] = []
        if listed:
            size = files_of_bodies(heads.largest_body(listed))
            for start_of_part, start, stop in runs(places, size):
                span, inside = range(start_of_part, start_of_part + size), places[start:stop] - start_of_part
                parts.append(SegmentPart(heads, first, span, listed, at[start:stop], inside))
        else:
            ready.append(Stacked(at, heads.without_payloads, places))
        return cls(rows, lacking, ready, parts, dict(fronts or {}))


def runs(ascending: NDArray[np.int64], size: int) -> Iterator[tuple[int, int, int]]:
    """Cut ascending numbers at multiples of ``size``. Yield the multiple, start and end of each run."""
    if not len(ascending):
        return
    first = int(ascending[0]) // size
    cuts = np.searchsorted(ascending, np.arange(first, int(ascending[-1]) // size + 2) * size).tolist()
    for number, (start, stop) in enumerate(pairwise(cuts), first):
        if start < stop:
            yield number * size, start, stop
