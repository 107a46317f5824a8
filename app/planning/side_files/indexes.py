"""The ``.index`` files beside the data files of one manifest, fetched piece by piece.

A first request reads the front of a file, which is all of most; then, of what its head lists, only payloads
that are going to be asked and lie further behind (a bloom filter of the default size takes 599,071 bytes).
Files are fetched, stacked and cached by *segments* of consecutive files that fit into memory; a segment holds
the files that somebody asked about, and further ones are added when they are needed. What several requests
lack of one segment is read once where it is much, under a claim on memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, takewhile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.errors import PaimonIndexError
from app.file_index.index_kinds import WantedIndexes
from app.file_index.stacked_index import Heads, StackedIndex
from app.planning.side_files.fetch import FRONT_BYTES, SMALL_BYTES, Fronts, Payloads
from app.planning.side_files.segments import (
    FILES_OF_HEADS,
    BodySegment,
    HeadSegment,
    KeptSegments,
    Uncached,
    body_bytes,
    files_of_bodies,
)
from app.planning.version.version import IndexSource
from app.table.manifests.manifest import Manifest
from app.types.bytes_column import BytesColumn, own_bytes
from app.work import check_deadline
from app.work.ledger import LEDGER

_MANY: Final = 512
"""Fronts of one segment that are read by themselves; fewer are read together with those of other segments."""

Found = tuple[NDArray[np.int64], StackedIndex, NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """The segment of heads that begins with row ``first``, and what is asked of it."""

    heads: HeadSegment
    first: int
    wanted: WantedIndexes
    is_spent: Callable[[], bool]
    load_bodies: Callable[[], None]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The ``size`` files of a manifest from row ``first`` on, whose ``wanted`` indexes lie together."""

    first: int
    size: int
    wanted: WantedIndexes
    heads: Heads


@dataclass(frozen=True, slots=True)
class SideIndexes:
    """Index files of one manifest.

    Attributes:
        read_manifest: gives the manifest, which may not be held between two calls.
        failures: why files could not be read so far, by row.
        held: bytes of memory that what was asked so far takes, by its key in the cache.
    """

    source: IndexSource
    read_manifest: Callable[[], Manifest]
    key: tuple[Hashable, ...]
    kept: KeptSegments
    failures: dict[int, PaimonIndexError] = field(default_factory=dict)
    held: dict[Hashable, int] = field(default_factory=dict)
    _directories: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def manifest(self) -> Manifest:
        """The manifest."""
        return self.read_manifest()

    def has_index(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some files have an index file. Raises CorruptMetadataError: a file has more than one."""
        return self._names.lengths[rows] >= 0

    def paths(self, rows: NDArray[np.int64]) -> list[str]:
        """The index files of data files that have one each."""
        manifest = self.manifest
        above = [
            self._directory(*place) if external is None else external.decode().rpartition("/")[0]
            for *place, external in zip(
                manifest.partition_codes[rows].tolist(),
                manifest.buckets[rows].tolist(),
                manifest.external_paths.take(rows),
                strict=True,
            )
        ]
        names = self._names.take(rows)
        return [f"{place}/{(name or b'').decode()}" for place, name in zip(above, names, strict=True)]

    def _directory(self, partition: int, bucket: int) -> str:
        directory = self._directories.get((partition, bucket))
        if directory is None:
            directory = self.source.paths.bucket_directory(self.manifest.partitions[partition], bucket)
            self._directories[partition, bucket] = directory
        return directory

    def without_head(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of ascending ``rows`` whose heads are neither in memory nor on the disk."""
        parts = [rows[:0]]
        for first, start, stop in _runs(rows, FILES_OF_HEADS):
            segment, some = self.known_heads(first), rows[start:stop]
            if not segment.is_complete:
                parts.append(some[~segment.has(some - first)])
        return np.concatenate(parts)

    def stacks(
        self,
        rows: NDArray[np.int64],
        wanted: WantedIndexes,
        unread: NDArray[np.int64],
        fronts: Iterator[bytes | PaimonIndexError],
        *,
        is_spent: Callable[[], bool] = lambda: False,
        load_bodies: Callable[[], None] = lambda: None,
    ) -> Iterator[Found]:
        """The indexes of ascending ``rows``, which have index files, segment by segment.

        Args:
            unread: those of ``rows`` whose fronts nobody has read.
            fronts: the next ones are those of :func:`read_together`, as far as there are any.
            is_spent: whether nothing more is to be read; what the caches keep is given all the same.
            load_bodies: is called before payloads are read that the caches lack.

        Yields:
            Positions in ``rows``, the index that stacks these files, and their places in it. Files are left
            out that cannot be read, as ``failures`` tells, and that nobody has read in time.

        Raises:
            DeadlineExceededError: the request's time ran out.
        """
        for first, start, stop in _runs(rows, FILES_OF_HEADS):
            left, new = np.arange(start, stop), between(unread, first, first + FILES_OF_HEADS)
            while len(left):
                heads, read = self._heads(first, rows[left], new, fronts, is_spent)
                self.held[*self.key, "heads", first] = heads.nbytes
                asked = _Asked(heads, first, wanted, is_spent, load_bodies)
                known, lacking = left, left[:0]
                if not heads.is_complete:
                    is_known = heads.has(rows[left] - first)
                    known, lacking = left[is_known], left[~is_known]
                    lacking = lacking[~np.isin(rows[lacking], list(self.failures))]
                yield from self._of_segment(asked, known, rows[known], read)
                # While others' loads are waited for, nothing is held.
                del heads, read, asked
                if is_spent():
                    break
                check_deadline()
                left, new = lacking, new[:0]

    def _of_segment(
        self, asked: _Asked, at: NDArray[np.int64], rows: NDArray[np.int64], read: dict[int, bytes]
    ) -> Iterator[Found]:
        """What :meth:`stacks` gives of files of one segment whose heads are known.

        ``at``: their positions. ``read``: fronts, as of :meth:`_body`.
        """
        heads, first = asked.heads, asked.first
        places = rows - first
        if heads.has_whole:
            whole = heads.whole[places]
            if whole.any():
                yield at[whole], heads.index, places[whole]
            at, rows, places = at[~whole], rows[~whole], places[~whole]
        # Columns of the filter without an index must not tell segments apart that hold the same.
        listed = heads.listed(asked.wanted)
        size = files_of_bodies(heads.largest_body(listed))
        for first_of_part, start, stop in _runs(places, size):
            check_deadline()
            some, inside = at[start:stop], places[start:stop] - first_of_part
            lacked = rows[:0] if asked.is_spent() else rows[start:stop]
            part = range(first_of_part, first_of_part + size)
            body = self._body(asked, part, lacked, listed, read)
            if not body.is_complete:
                fetched = body.fetched[inside]
                some, inside = some[fetched], inside[fetched]
            yield some, body.index, inside
            # Released before the next segment is loaded.
            del body

    def known_heads(self, first: int) -> HeadSegment:
        """What memory and disk hold of the heads of the segment that begins with row ``first``."""
        cache, key = self.source.caches.file_indexes, (*self.key, "heads", first)
        segment: HeadSegment | None = cache.get(key)
        if segment is None:
            segment = self.kept.heads(first, min(FILES_OF_HEADS, len(self.manifest) - first))
            if segment.known:
                cache.put(key, segment)
        return segment

    def put_heads(self, first: int, stored: Mapping[str, Any]) -> None:
        """Has memory hold heads that another process has read, as of :func:`stored_heads`."""
        segment = self.kept.heads_of(stored)
        if segment.known:
            self.source.caches.file_indexes.put((*self.key, "heads", first), segment)

    def known_body(self, first: int, size: int, wanted: WantedIndexes) -> BodySegment:
        """What memory and disk hold of asked indexes of the ``size`` rows from ``first`` on."""
        cache, key = self.source.caches.file_indexes, (*self.key, "bodies", wanted, first, size)
        segment: BodySegment | None = cache.get(key)
        if segment is None:
            segment = self.kept.body(first, size, wanted, self._heads_of_part(first, size))
            if segment.known:
                cache.put(key, segment)
        return segment

    def put_body(self, first: int, size: int, wanted: WantedIndexes, stored: Mapping[str, Any]) -> None:
        """As :meth:`put_heads`, with asked indexes, as of :func:`stored_body`."""
        key = (*self.key, "bodies", wanted, first, size)
        segment = self.kept.body_of(stored, wanted, self._heads_of_part(first, size))
        if segment.known:
            self.source.caches.file_indexes.put(key, segment)

    def without_body(self, first: int, body: BodySegment, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some rows whose asked indexes are not in the segment that begins with row ``first``."""
        if not len(rows):
            return rows
        fetched = body.fetched[rows - first]
        whole = self.known_heads(first - first % FILES_OF_HEADS).whole[rows - first + first % FILES_OF_HEADS]
        return rows[~fetched & ~whole]

    def _heads_of_part(self, first: int, size: int) -> Heads:
        start = first % FILES_OF_HEADS
        return self.known_heads(first - start).slice(start, start + size)

    def _heads(
        self,
        first: int,
        rows: NDArray[np.int64],
        unread: NDArray[np.int64],
        fronts: Iterator[bytes | PaimonIndexError],
        is_spent: Callable[[], bool],
    ) -> tuple[HeadSegment, dict[int, bytes]]:
        """The heads of a segment, and fronts that were read of its files, by row, as far as they are held."""
        segment, warehouse = self.known_heads(first), self.source.warehouse
        if segment.is_complete and not len(unread):
            return segment, {}
        if len(unread):
            # These come first, whatever else is lacking: the next fronts are those of other files.
            read: Iterable[bytes | PaimonIndexError] = [*islice(fronts, len(unread))]
            new = unread
        else:
            # The cache may have dropped heads that it had when the fronts were asked for.
            new = rows[~segment.has(rows - first)]
            if len(new) >= _MANY and not is_spent():
                del segment
                return self._many_heads(first, new, is_spent)
            read = warehouse.read_ahead(fronts_of(self.paths(new), is_spent))
        taken = Fronts.take(warehouse, self.paths, new, read, segment.heads.buffers.data)
        self.failures.update(taken.failures)
        return self._with_fronts(first, segment, taken), taken.fronts

    def _many_heads(
        self, first: int, lacking: NDArray[np.int64], is_spent: Callable[[], bool]
    ) -> tuple[HeadSegment, dict[int, bytes]]:
        """As :meth:`_heads`, with some of those that are lacking, as many as there is memory for.

        Requests that are under way at the same time read once what they lack alike.
        """
        warehouse = self.source.warehouse

        def load() -> Uncached[tuple[HeadSegment, Fronts | None]]:
            segment = self.known_heads(first)
            new = lacking[~segment.has(lacking - first)]
            new = new[: segment.files_at_once(_MANY, Fronts.most_bytes())]
            if not len(new):
                return Uncached((segment, None))
            paths = self.paths(new)
            expected = len(new) * SMALL_BYTES + Fronts.most_bytes() + segment.nbytes
            expected = int(min(expected, LEDGER.room / 2))
            with LEDGER.claim("loads", expected, path=paths[0], line=warehouse.name) as claim:
                read = warehouse.read_ahead(fronts_of(paths, is_spent))
                taken = Fronts.take(warehouse, self.paths, new, read, segment.heads.buffers.data, claim)
                return Uncached((self._with_fronts(first, segment, taken), taken))

        loaded: Uncached[tuple[HeadSegment, Fronts | None]]
        loaded = self.source.caches.file_indexes.get_or_load(
            (*self.key, "fronts", first, lacking.tobytes()), load
        )
        segment, taken = loaded.item
        if taken is None:
            return segment, {}
        self.failures.update(taken.failures)
        return segment, dict(taken.fronts)

    def _with_fronts(self, first: int, segment: HeadSegment, taken: Fronts) -> HeadSegment:
        segment = segment.with_fronts(taken.rows - first, taken.contents, taken.sizes)
        segment = self.kept.keep_heads(first, segment)
        if segment.known:
            self.source.caches.file_indexes.put((*self.key, "heads", first), segment)
        return segment

    def _body(
        self,
        asked: _Asked,
        part: range,
        rows: NDArray[np.int64],
        wanted: WantedIndexes,
        read: dict[int, bytes],
    ) -> BodySegment:
        """The ``wanted`` indexes of a part of the segment, ``rows`` among them, which may be read.

        Fronts that were ``read``, by row, are not read again, and taken away.
        """
        cache, first = self.source.caches.file_indexes, asked.first + part.start
        key = (*self.key, "bodies", wanted, first, len(part))
        cached: BodySegment | None = cache.get(key)
        if len(rows) and (cached is None or not cached.fetched[rows - first].all()):
            asked.load_bodies()
            cached = cache.get(key)
        if cached is not None and (cached.is_complete or cached.fetched[rows - first].all()):
            self.held[key] = cached.nbytes
            return cached
        heads = asked.heads.slice(part.start, part.stop)
        segment = self.kept.body(first, len(part), wanted, heads) if cached is None else cached
        missing = rows[~segment.fetched[rows - first]]
        if len(missing):
            # Each file is asked for once; what was taken of its front needs no more memory.
            fronts = [read.pop(row, None) for row in missing.tolist()]

            def load() -> Uncached[tuple[BodySegment, Mapping[int, PaimonIndexError]]]:
                return self._load_body(key, _Part(first, len(part), wanted, heads), segment, missing, fronts)

            # Requests that are under way at the same time fetch once what they lack alike.
            loaded: Uncached[tuple[BodySegment, Mapping[int, PaimonIndexError]]]
            loaded = cache.get_or_load((*key, missing.tobytes()), load)
            segment, failures = loaded.item
            self.failures.update(failures)
        elif segment.known:
            cache.put(key, segment)
        self.held[key] = segment.nbytes
        return segment

    def _load_body(
        self,
        key: tuple[Hashable, ...],
        part: _Part,
        segment: BodySegment,
        missing: NDArray[np.int64],
        fronts: Sequence[bytes | None],
    ) -> Uncached[tuple[BodySegment, Mapping[int, PaimonIndexError]]]:
        """A segment of payloads with those of some rows more, and why there are none of them."""
        cache, warehouse, places = (
            self.source.caches.file_indexes,
            self.source.warehouse,
            missing - part.first,
        )
        cached: BodySegment | None = cache.get(key)
        if cached is not None:
            segment = cached
        if segment.fetched[places].all():
            return Uncached((segment, {}))
        (path,) = self.paths(missing[:1])
        # As they come, in a column, and among the others.
        expected = 3 * body_bytes(part.heads, places, part.wanted) + segment.nbytes
        with LEDGER.claim("loads", int(min(expected, LEDGER.room / 2)), path=path, line=warehouse.name):
            payloads = Payloads.fetch(warehouse, self.paths, missing, fronts, part.heads, places, part.wanted)
            usable = np.setdiff1d(np.arange(len(missing)), list(payloads.failures))
            columns = {index: column.take(usable) for index, column in payloads.found.items()}
            segment = segment.with_payloads(part.heads, places[usable], columns)
            segment = self.kept.keep_body(part.first, part.size, segment)
        if segment.known:
            cache.put(key, segment)
        return Uncached((segment, {int(missing[at]): why for at, why in payloads.failures.items()}))

    @property
    def _names(self) -> BytesColumn:
        manifest = self.manifest
        return manifest.derived.get_or_make(
            "side indexes",
            manifest.side_indexes,
            lambda found: own_bytes(found.starts) + own_bytes(found.lengths),
        )


def fronts_of(paths: Iterable[str], is_spent: Callable[[], bool]) -> Iterator[tuple[str, int, int]]:
    """The ranges that are read of index files at first, until no more is to be read."""
    return ((path, 0, FRONT_BYTES) for path in takewhile(lambda _: not is_spent(), paths))


def read_together(unread: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of ascending rows whose fronts are read together with those of other segments."""
    if len(unread) < _MANY:
        return unread
    _, segments, counts = np.unique(unread // FILES_OF_HEADS, return_inverse=True, return_counts=True)
    return unread[counts[segments] < _MANY]


def between(ascending: NDArray[np.int64], first: int, end: int) -> NDArray[np.int64]:
    """Those of ascending numbers from ``first`` on that are less than ``end``."""
    start, stop = np.searchsorted(ascending, (first, end))
    return ascending[start:stop]


def _runs(ascending: NDArray[np.int64], size: int) -> Iterator[tuple[int, int, int]]:
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
