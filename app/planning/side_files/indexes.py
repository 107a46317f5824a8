"""The ``.index`` files beside the data files of one manifest, fetched piece by piece.

A first request reads the front of a file, which is all of most; then, of what its head lists, only payloads
that are going to be asked and lie further behind (a bloom filter of the default size takes 599,071 bytes).
Files are fetched, stacked and cached by *segments* of consecutive files that fit into memory; a segment holds
the files that somebody asked about, and further ones are added when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import PaimonIndexError
from app.file_index.index_kinds import WantedIndexes
from app.file_index.stacked_index import Heads, StackedIndex
from app.planning.side_files.fetch import FRONT_BYTES, Fronts, Payloads
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

Found = tuple[NDArray[np.int64], StackedIndex, NDArray[np.int64]]


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
        may_fetch: bool,
        load_bodies: Callable[[], None] = lambda: None,
    ) -> Iterator[Found]:
        """The indexes of ascending ``rows``, which have index files, segment by segment.

        Args:
            unread: those of ``rows`` whose fronts are read; none unless ``may_fetch``.
            fronts: the next ones are theirs.
            may_fetch: whether index files are read; otherwise it is what the caches keep.
            load_bodies: is called before payloads are read that the caches lack.

        Yields:
            Positions in ``rows``, the index that stacks these files, and their places in it. Files that
            cannot be read are left out, and ``failures`` tells why.

        Raises:
            DeadlineExceededError: the request's time ran out.
        """
        for first, start, stop in _runs(rows, FILES_OF_HEADS):
            at, places = np.arange(start, stop), rows[start:stop] - first
            new = between(unread, first, first + FILES_OF_HEADS)
            heads, read = self._heads(first, rows[start:stop] if may_fetch else rows[:0], new, fronts)
            self.held[*self.key, "heads", first] = heads.nbytes
            if heads.has_whole:
                whole = heads.whole[places]
                if whole.any():
                    yield at[whole], heads.index, places[whole]
                at, places = at[~whole], places[~whole]
            if not heads.is_complete:
                known = heads.has(places)
                at, places = at[known], places[known]
            # Columns of the filter without an index must not tell segments apart that hold the same.
            listed = heads.listed(wanted)
            size = files_of_bodies(heads.largest_body(listed))
            for first_of_part, start_of_part, stop_of_part in _runs(places, size):
                check_deadline()
                some = at[start_of_part:stop_of_part]
                lacked = rows[some] if may_fetch else rows[:0]
                part = range(first_of_part, first_of_part + size)
                body = self._body(heads, first, part, lacked, listed, read, load_bodies)
                inside = places[start_of_part:stop_of_part] - first_of_part
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

    def without_body(
        self, first: int, size: int, wanted: WantedIndexes, rows: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Those of some rows of a segment whose asked indexes are neither in memory nor on the disk."""
        if not len(rows):
            return rows
        fetched = self.known_body(first, size, wanted).fetched[rows - first]
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
    ) -> tuple[HeadSegment, dict[int, bytes]]:
        segment, warehouse = self.known_heads(first), self.source.warehouse
        if segment.is_complete and not len(unread):
            return segment, {}
        # The cache may have dropped heads that it had when the fronts were asked for.
        others = np.setdiff1d(rows[~segment.has(rows - first)], unread)
        if not len(unread) and not len(others):
            return segment, {}
        new = np.concatenate([unread, others])
        read = chain(islice(fronts, len(unread)), warehouse.read_ahead(fronts_of(self.paths(others))))
        found = Fronts.take(warehouse, self.paths, new, read)
        self.failures.update(found.failures)
        segment = segment.with_fronts(new - first, found.contents, found.sizes)
        segment = self.kept.keep_heads(first, segment)
        if segment.known:
            self.source.caches.file_indexes.put((*self.key, "heads", first), segment)
        return segment, found.fronts

    def _body(
        self,
        segment_of_heads: HeadSegment,
        first: int,
        part: range,
        rows: NDArray[np.int64],
        wanted: WantedIndexes,
        read: dict[int, bytes],
        load_bodies: Callable[[], None],
    ) -> BodySegment:
        """The asked indexes of a part of the segment that begins with row ``first``, ``rows`` among them.

        Fronts that were ``read``, by row, are not read again, and taken away.
        """
        cache = self.source.caches.file_indexes
        first += part.start
        key = (*self.key, "bodies", wanted, first, len(part))
        cached: BodySegment | None = cache.get(key)
        if cached is None or not cached.fetched[rows - first].all():
            load_bodies()
            cached = cache.get(key)
        if cached is not None and (cached.is_complete or cached.fetched[rows - first].all()):
            self.held[key] = cached.nbytes
            return cached
        heads = segment_of_heads.slice(part.start, part.stop)
        segment = self.kept.body(first, len(part), wanted, heads) if cached is None else cached
        missing = rows[~segment.fetched[rows - first]]
        if len(missing):
            places = missing - first
            # Each file is asked for once; what was taken of its front needs no more memory.
            fronts = [read.pop(row, None) for row in missing.tolist()]
            # Requests that are under way at the same time fetch once what they lack alike.
            uncached: Uncached[Payloads] = cache.get_or_load(
                (*key, missing.tobytes()),
                lambda: Uncached(
                    Payloads.fetch(self.source.warehouse, self.paths, missing, fronts, heads, places, wanted)
                ),
                expected_bytes=body_bytes(heads, places, wanted),
                line=self.source.readers.warehouse,
            )
            payloads = uncached.item
            self.failures.update({int(missing[at]): why for at, why in payloads.failures.items()})
            usable = np.setdiff1d(np.arange(len(missing)), list(payloads.failures))
            columns = {index: column.take(usable) for index, column in payloads.found.items()}
            segment = segment.with_payloads(heads, places[usable], columns)
            segment = self.kept.keep_body(first, len(part), segment)
        if segment.known:
            cache.put(key, segment)
        self.held[key] = segment.nbytes
        return segment

    @property
    def _names(self) -> BytesColumn:
        manifest = self.manifest
        return manifest.derived.get_or_make(
            "side indexes",
            manifest.side_indexes,
            lambda found: own_bytes(found.starts) + own_bytes(found.lengths),
        )


def fronts_of(paths: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """The ranges that are read of index files at first."""
    return ((path, 0, FRONT_BYTES) for path in paths)


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
