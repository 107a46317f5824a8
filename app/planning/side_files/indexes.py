"""The ``.index`` files beside the data files of one manifest, fetched piece by piece.

An index file may hold the indexes of many columns, and a bloom filter of the default size takes 599,071
bytes whatever it is about. So a first request reads the front of a file, which is all of a small one; then,
of what its head lists, only payloads that are going to be asked and lie further behind are read.

Files are fetched, stacked and cached by *segments* of consecutive files, small enough that a segment fits
into memory. A segment holds the files that somebody asked about; further ones are added when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.errors import PaimonIndexError
from app.file_index.index_kinds import WantedIndexes
from app.file_index.stacked.index import StackedIndex
from app.planning.side_files.fetch import (
    FRONT_BYTES,
    STORE_FRONT_BYTES,
    Ahead,
    Fronts,
    fetch_ahead,
    fetch_fronts,
    fetch_payloads,
    take_fronts,
)
from app.planning.side_files.kept_segments import KeptSegments
from app.planning.side_files.segments import (
    FILES_OF_HEADS,
    BodySegment,
    HeadSegment,
    Passing,
    body_bytes,
    files_of_bodies,
)
from app.planning.version.version import IndexSource
from app.storage import ByteCache, check_deadline
from app.table.manifests.manifest import Manifest
from app.types.bytes_column import BytesColumn, GrowingBytes, own_bytes

Found = tuple[NDArray[np.int64], StackedIndex, NDArray[np.int64]]

Fetched = TypeVar("Fetched")

_FRONTS_AT_ONCE: Final = 1024


@dataclass(frozen=True, slots=True)
class SideIndexes:
    """Index files of one manifest.

    Attributes:
        source: loads the version's files.
        read_manifest: gives the manifest, which may not be held between two calls.
        key: what tells it from all others.
        kept: what of them is kept on the disk.
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
        """Which of some files have an index file.

        Raises:
            CorruptMetadataError: a file has more than one.
        """
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
        found = self._directories.get((partition, bucket))
        if found is None:
            found = self.source.paths.bucket_directory(self.manifest.partitions[partition], bucket)
            self._directories[partition, bucket] = found
        return found

    def without_head(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of ascending ``rows`` whose index files nobody has read yet, or whose heads are not kept."""
        found = [rows[:0]]
        for segment, start, stop in _runs(rows, FILES_OF_HEADS):
            first = segment * FILES_OF_HEADS
            cached, some = self._cached_heads(first), rows[start:stop]
            found.append(some if cached is None else some[~cached.has(some - first)])
        return np.concatenate(found)

    def stacks(
        self, rows: NDArray[np.int64], wanted: WantedIndexes, ahead: Ahead, *, may_fetch: bool = True
    ) -> Iterator[Found]:
        """The indexes of ascending ``rows``, which have index files, segment by segment.

        Args:
            rows: which files of the manifest.
            wanted: which of their indexes are going to be asked.
            ahead: what was read of index files just now.
            may_fetch: whether index files are read; otherwise it is what the caches keep.

        Yields:
            Positions in ``rows``, the index that stacks these files, and their places in it. Files that
            cannot be read are left out, and ``failures`` tells why.

        Raises:
            DeadlineExceededError: the request's time ran out.
        """
        for segment, start, stop in _runs(rows, FILES_OF_HEADS):
            first = segment * FILES_OF_HEADS
            heads = self._heads(first, rows[start:stop] if may_fetch else rows[:0], ahead)
            at, places = np.arange(start, stop), rows[start:stop] - first
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
            for part, start_of_part, stop_of_part in _runs(places, size):
                check_deadline()
                some = at[start_of_part:stop_of_part]
                lacked = rows[some] if may_fetch else rows[:0]
                places_of_part = range(part * size, (part + 1) * size)
                body = self._body(heads, first, places_of_part, lacked, listed, ahead)
                inside = places[start_of_part:stop_of_part] - part * size
                if not body.is_complete:
                    fetched = body.fetched[inside]
                    some, inside = some[fetched], inside[fetched]
                yield some, body.index, inside
                # Or the next one would be loaded beside it.
                del body

    def _cached_heads(self, first: int) -> HeadSegment | None:
        return self.source.caches.file_indexes.get((*self.key, "heads", first))

    def _heads(self, first: int, rows: NDArray[np.int64], ahead: Ahead) -> HeadSegment:
        """The heads of the segment that begins with row ``first``, those of ``rows`` among them."""
        key = (*self.key, "heads", first)
        count = min(FILES_OF_HEADS, len(self.manifest) - first)
        cached = self._cached_heads(first)
        segment = self.kept.heads(first, count) if cached is None else cached
        missing = rows[:0] if segment.is_complete else rows[~segment.has(rows - first)]
        if len(missing):
            is_local = self.source.warehouse.is_local
            fronts = self._fronts(missing, key) if is_local else self._taken(missing, ahead)
            segment = self.kept.keep_heads(first, segment.with_fronts(missing - first, *fronts))
        if segment is not cached and segment.known:
            self.source.caches.file_indexes.put(key, segment)
        self.held[key] = segment.nbytes
        return segment

    def _taken(self, rows: NDArray[np.int64], ahead: Ahead) -> tuple[BytesColumn, NDArray[np.int64]]:
        """As :meth:`_fronts`, of files that were read just now."""
        warehouse, paths, room = (
            self.source.warehouse,
            self.paths(rows),
            GrowingBytes(FRONT_BYTES * len(rows)),
        )
        # Some were not, if their heads were dropped from the cache in between.
        found = {**ahead, **fetch_ahead(warehouse, [path for path in paths if path not in ahead])}
        fronts = take_fronts(warehouse, paths, [found[path] for path in paths], STORE_FRONT_BYTES, room)
        self.failures.update({int(rows[at]): why for at, why in fronts.failures.items()})
        return BytesColumn(room.packed(), fronts.starts, fronts.lengths), fronts.sizes

    def _fronts(
        self, rows: NDArray[np.int64], key: tuple[Hashable, ...]
    ) -> tuple[BytesColumn, NDArray[np.int64]]:
        """The fronts of index files, and the sizes of these."""
        room = GrowingBytes(FRONT_BYTES * len(rows))
        # Memory that was written to before is there at once, and new memory has to come from the system.
        scratch = np.empty(FRONT_BYTES * min(len(rows), _FRONTS_AT_ONCE), np.uint8)
        parts: list[Fronts] = []
        for start in range(0, len(rows), _FRONTS_AT_ONCE):
            some = rows[start : start + _FRONTS_AT_ONCE]
            fronts = self._together(
                self.source.caches.file_indexes,
                (*key, some.tobytes()),
                partial(fetch_fronts, self.source.warehouse, self.paths(some), room, scratch),
                FRONT_BYTES * len(some),
            )
            self.failures.update({int(some[at]): why for at, why in fronts.failures.items()})
            parts.append(fronts)
        sizes = np.concatenate([each.sizes for each in parts])
        if any(each.room is not room for each in parts):
            # Another request was fetching some of them already.
            return BytesColumn.of(front for each in parts for front in each.contents), sizes
        starts = np.concatenate([each.starts for each in parts])
        lengths = np.concatenate([each.lengths for each in parts])
        return BytesColumn(room.packed(), starts, lengths), sizes

    def _body(
        self,
        fronts: HeadSegment,
        first: int,
        part: range,
        rows: NDArray[np.int64],
        wanted: WantedIndexes,
        ahead: Ahead,
    ) -> BodySegment:
        """The asked indexes of a part of the segment that begins with row ``first``, ``rows`` among them."""
        cache = self.source.caches.file_indexes
        first += part.start
        key = (*self.key, "bodies", wanted, first, len(part))
        cached: BodySegment | None = cache.get(key)
        if cached is not None and (cached.is_complete or cached.fetched[rows - first].all()):
            self.held[key] = cached.nbytes
            return cached
        heads = fronts.slice(part.start, part.stop)
        segment = self.kept.body(first, len(part), wanted, heads) if cached is None else cached
        missing = rows[~segment.fetched[rows - first]]
        if len(missing):
            fetch = partial(
                fetch_payloads,
                self.source.warehouse,
                self.paths(missing),
                heads,
                missing - first,
                wanted,
                ahead,
            )
            expected = body_bytes(heads, missing - first, wanted)
            payloads = self._together(cache, (*key, missing.tobytes()), fetch, expected)
            self.failures.update({int(missing[at]): why for at, why in payloads.failures.items()})
            usable = ~np.isin(np.arange(len(missing)), list(payloads.failures))
            segment = segment.with_payloads(
                heads,
                (missing - first)[usable],
                {index: found.take(np.flatnonzero(usable)) for index, found in payloads.found.items()},
            )
            segment = self.kept.keep_body(first, len(part), segment)
        if segment.known:
            cache.put(key, segment)
        self.held[key] = segment.nbytes
        return segment

    def _together(
        self, cache: ByteCache[Any], key: tuple[Hashable, ...], fetch: Callable[[], Fetched], expected: int
    ) -> Fetched:
        """Fetches what requests that are under way at the same time lack alike, once for all of them."""
        fetched: Passing[Fetched] = cache.get_or_load(
            key, lambda: Passing(fetch()), expected_bytes=expected, account=self.source.readers.loads
        )
        return fetched.item

    @property
    def _names(self) -> BytesColumn:
        manifest = self.manifest
        return manifest.derived.get_or_make(
            "side indexes",
            manifest.side_indexes,
            lambda found: own_bytes(found.starts) + own_bytes(found.lengths),
        )


def _runs(ascending: NDArray[np.int64], size: int) -> Iterator[tuple[int, int, int]]:
    """Cuts ascending numbers up where they reach another multiple of ``size``.

    Yields:
        The number of multiples, and the start and end of a run of numbers above it.
    """
    if not len(ascending):
        return
    first = int(ascending[0]) // size
    cuts = np.searchsorted(ascending, np.arange(first, int(ascending[-1]) // size + 2) * size).tolist()
    for number, (start, stop) in enumerate(pairwise(cuts), first):
        if start < stop:
            yield number, start, stop
