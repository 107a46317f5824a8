"""The ``.index`` files next to the data files of one manifest, fetched segment by segment.

A segment covers consecutive files of a manifest. Its *heads* are loaded first: the front of each file, which
is all of most files. Then only payloads that a filter needs and the fronts lack are read (a
bloom filter of the default size takes 599,071 bytes). A segment holds requested files. Others are added when
they are requested. It is looked up in memory, on this machine's disk and in the shared cache, then read.
Concurrent requests for one load share it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.errors import FileMissingError, MemoryShortError, PaimonIndexError, StorageError
from app.file_index import WantedIndexes
from app.planning.side_files.fetch import FRONT_BYTES, SMALL_BYTES, Fronts, fetch_payloads
from app.planning.side_files.segments import (
    FILES_OF_HEADS,
    BodySegment,
    HeadSegment,
    OpenSegment,
    Reach,
    SegmentPart,
    Stacked,
    body_bytes,
    body_name,
    heads_name,
    is_worth_keeping,
    runs,
)
from app.planning.version.version import IndexSource
from app.storage import Columns, TierEntry
from app.table.manifests import Manifest, read_value, value_columns
from app.types import BytesColumn, own_bytes
from app.work import LEDGER, check_deadline

_Segment = TypeVar("_Segment", HeadSegment, BodySegment)
_Failures: TypeAlias = "Mapping[int, PaimonIndexError]"

# Reading fewer index files takes no longer than a call to the shared cache. Few manifests have fewer, since
# the engine merges them.
_LEAST_SHARED: Final = 16

SEGMENTS_AHEAD: Final = 16
"""Segments of a plan in flight; the payloads read with them take at most a portion of memory."""


@dataclass(frozen=True, slots=True)
class SideIndexes:
    """Index files of one manifest."""

    source: IndexSource
    manifest: Manifest
    key: tuple[Hashable, ...]
    # Returns the entry of a name among everything derived from the manifest.
    entry_of: Callable[[str], TierEntry | None]
    live: Callable[[], NDArray[np.int64]]  # Returns the rows of the version's files, ascending; int64.
    # Errors of unreadable files so far, by row.
    failures: dict[int, PaimonIndexError] = field(default_factory=dict)
    # Bytes of memory of requested segments, by cache key.
    held: dict[Hashable, int] = field(default_factory=dict)

    def has_index(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return True for files with an index file. Raises CorruptMetadataError for a file with two."""
        return self._names.lengths[rows] >= 0

    def paths(self, rows: NDArray[np.int64]) -> list[str]:
        """Return the paths of the index files of data files with one each."""
        manifest, source, names = self.manifest, self.source.data, self._names.take(rows)
        locate = cache(lambda code, bucket: source.locate(manifest.partitions[code], bucket))
        above = [
            locate(code, bucket)((data_file or b"").decode())
            if external is None
            else external.decode().rpartition("/")[0]
            for code, bucket, data_file, external in zip(
                manifest.partition_codes[rows].tolist(),
                manifest.buckets[rows].tolist(),
                manifest.file_names.take(rows),
                manifest.external_paths.take(rows),
                strict=True,
            )
        ]
        return [f"{place}/{(name or b'').decode()}" for place, name in zip(above, names, strict=True)]

    def segments(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
        """Cut ascending rows into segments: the first row of each, and the range of ``rows`` in it."""
        return runs(rows, FILES_OF_HEADS)

    def open_cached(self, first: int, rows: NDArray[np.int64], requested: WantedIndexes) -> OpenSegment:
        """Open a segment, from row ``first`` on, as far as memory and disk hold it."""
        opened = OpenSegment.of(first, self._cached_heads(first), rows, requested)
        for part in opened.parts:
            body = self._cached_body(part)
            if not body.fetched[part.inside].all():
                break
            opened.bodies[part.first] = body
        return opened

    def is_at_hand(self, opened: OpenSegment) -> bool:
        """Return True if nothing of a segment has to be read."""
        return len(opened.bodies) == len(opened.parts) and not len(self._readable(opened.lacking))

    def open(
        self, first: int, rows: NDArray[np.int64], requested: WantedIndexes, reach: Reach
    ) -> OpenSegment:
        """Open a segment as far as ``reach`` allows: all heads, and payloads where they are small.

        Skip unreadable files, see ``failures``. Raises DeadlineExceededError, MemoryShortError.
        """
        opened = self.open_cached(first, rows, requested)
        if len(self._readable(opened.lacking)):
            key, readable = self._heads_key(first), self._readable(rows)
            # Keyed by all requested rows, not by the missing ones: the cache may evict others meanwhile.
            segment, failures, fronts = self.source.caches.file_indexes.get_or_load(
                (*key, reach, readable.tobytes()),
                lambda: self._load_heads(first, readable, reach),
                line=self.source.warehouse.name,
                is_kept=lambda _: False,
            )
            self.failures.update(failures)
            self.held[key] = segment.nbytes
            opened = OpenSegment.of(first, segment, rows, requested, fronts)
        room = LEDGER.portion // SEGMENTS_AHEAD
        for part in opened.parts:
            room -= part.requested_bytes
            if room < 0:
                break
            if part.first not in opened.bodies:
                opened.bodies[part.first] = self._body(opened, part, reach)
        return opened

    def stacks(self, opened: OpenSegment, reach: Callable[[], Reach]) -> Iterator[Stacked]:
        """Yield the indexes requested of an open segment, part by part. Skip unreadable files."""
        yield from opened.ready
        for part in opened.parts:
            check_deadline()
            # Nothing here holds a part while the next one is loaded.
            yield self._stacked(opened, part, reach())

    def _stacked(self, opened: OpenSegment, part: SegmentPart, reach: Reach) -> Stacked:
        body = opened.bodies.pop(part.first, None) or self._body(opened, part, reach)
        at, inside = part.at, part.inside
        if not body.is_complete:
            fetched = body.fetched[inside]
            at, inside = at[fetched], inside[fetched]
        return Stacked(at, body.index, inside)

    def _cached_heads(self, first: int) -> HeadSegment:
        segment = self._cached(
            self._heads_key(first),
            lambda: self._heads_entry(first),
            HeadSegment.restore,
            lambda: HeadSegment.none(min(FILES_OF_HEADS, len(self.manifest) - first)),
        )
        self.held[self._heads_key(first)] = segment.nbytes
        return segment

    def _load_heads(
        self, first: int, rows: NDArray[np.int64], reach: Reach
    ) -> tuple[HeadSegment, _Failures, Mapping[int, bytes]]:
        segment, entry, key = self._cached_heads(first), self._heads_entry(first), self._heads_key(first)
        lacking = rows[~segment.has(rows - first)]
        if len(lacking) >= _LEAST_SHARED:
            segment = self._shared(key, entry, HeadSegment.restore, segment)
            lacking = rows[~segment.has(rows - first)]
        if reach is not Reach.SOURCE or not len(lacking):
            return segment, {}, {}
        warehouse, paths = self.source.warehouse, self.paths(lacking)
        room = Fronts.most_bytes()
        expected = len(lacking) * (SMALL_BYTES + FRONT_BYTES) + segment.nbytes
        with LEDGER.claim(
            "loads", int(min(expected, LEDGER.room / 2)), path=paths[0], line=warehouse.name
        ) as claim:
            fronts: dict[int, bytes] = {}
            failures: dict[int, PaimonIndexError] = {}
            at_once = max(1, room // FRONT_BYTES)
            for start in range(0, len(lacking), at_once):
                check_deadline()
                batch = lacking[start : start + at_once]
                taken = Fronts.take(warehouse, self.paths, batch, segment.heads.buffers.data, claim, room)
                room -= sum(map(len, taken.fronts.values()))
                with self.source.warehouse.readers.core():
                    segment = segment.with_fronts(batch - first, taken.contents, taken.sizes)
                fronts |= taken.fronts
                failures |= taken.failures
            self.failures.update(failures)
            segment = self._store(key, entry, segment, segment.at_hand, first)
        return segment, failures, fronts

    def _body(self, opened: OpenSegment, part: SegmentPart, reach: Reach) -> BodySegment:
        key, segment, rows = self._body_key(part), self._cached_body(part), self._readable(part.rows)
        if reach is not Reach.MACHINE and not segment.fetched[rows - part.first].all():
            # Popped, so that a front is freed once its payloads are taken.
            fronts = {row: opened.fronts.pop(row) for row in rows.tolist() if row in opened.fronts}
            # Concurrent requests for the same rows share one load.
            segment, failures = self.source.caches.file_indexes.get_or_load(
                (*key, reach, rows.tobytes()),
                lambda: self._load_body(part, rows, fronts, reach),
                line=self.source.warehouse.name,
                is_kept=lambda _: False,
            )
            self.failures.update(failures)
        self.held[key] = segment.nbytes
        return segment

    def _load_body(
        self, part: SegmentPart, rows: NDArray[np.int64], fronts: Mapping[int, bytes], reach: Reach
    ) -> tuple[BodySegment, _Failures]:
        segment, entry, first = self._cached_body(part), self._body_entry(part), part.first
        lacking = rows[~segment.fetched[rows - first]]
        if len(lacking) >= _LEAST_SHARED:
            size = body_bytes(part.heads, np.arange(len(part.heads)), part.requested)
            segment = self._shared(self._body_key(part), entry, part.restore, segment, size)
            lacking = rows[~segment.fetched[rows - first]]
        if reach is not Reach.SOURCE or not len(lacking):
            return segment, {}
        warehouse, places = self.source.warehouse, lacking - first
        (path,) = self.paths(lacking[:1])
        # There are three copies of a payload at once: as read, in a column, and joined with loaded ones.
        expected = 3 * body_bytes(part.heads, places, part.requested) + segment.nbytes
        with LEDGER.claim("loads", int(min(expected, LEDGER.room / 2)), path=path, line=warehouse.name):
            held_fronts = [fronts.get(row) for row in lacking.tolist()]
            read, failed = fetch_payloads(
                warehouse, self.paths, lacking, held_fronts, part.heads, places, part.requested
            )
            usable = np.setdiff1d(np.arange(len(lacking)), list(failed))
            columns = {index: column.take(usable) for index, column in read.items()}
            segment = segment.with_payloads(part.heads, places[usable], columns)
            failures = {int(lacking[at]): why for at, why in failed.items()}
            self.failures.update(failures)
            segment = self._store(self._body_key(part), entry, segment, segment.at_hand | part.whole, first)
        return segment, failures

    def _cached(
        self,
        key: Hashable,
        find_entry: Callable[[], TierEntry | None],
        restore: Callable[[Mapping[str, Any]], _Segment],
        none: Callable[[], _Segment],
    ) -> _Segment:
        segment: _Segment | None = self.source.caches.file_indexes.get(key)
        if segment is None and (entry := find_entry()) is not None:
            segment = _restored(entry, entry.get(), restore)
            if segment is not None and segment.loaded_files:
                self.source.caches.file_indexes.put(key, segment)
        return none() if segment is None else segment

    def _cached_body(self, part: SegmentPart) -> BodySegment:
        key = self._body_key(part)
        segment = self._cached(
            key, lambda: self._body_entry(part), part.restore, lambda: BodySegment.none(part.heads)
        )
        self.held[key] = segment.nbytes
        return segment

    def _shared(
        self,
        key: Hashable,
        entry: TierEntry | None,
        restore: Callable[[Mapping[str, Any]], _Segment],
        segment: _Segment,
        expected_bytes: int = 0,
    ) -> _Segment:
        """Return ``segment``, or that of the shared cache if it has more files."""
        shared = None if entry is None else _restored(entry, entry.fetch(expected_bytes), restore)
        if shared is None or shared.loaded_files <= segment.loaded_files:
            return segment
        self.source.caches.file_indexes.put(key, shared)
        return shared

    def _store(
        self,
        key: Hashable,
        entry: TierEntry | None,
        segment: _Segment,
        at_hand: NDArray[np.bool_],
        first: int,
    ) -> _Segment:
        """Store a segment that has grown, and share it once no file of it needs reading any more."""
        if entry is not None:
            columns = value_columns(segment.stored())
            if is_worth_keeping(segment):
                entry.put(columns)
                segment = replace(segment, kept=segment.loaded_files)
            if self._is_shareable(at_hand, first):
                entry.share(columns)
        if segment.loaded_files:
            self.source.caches.file_indexes.put(key, segment)
        return segment

    def _is_shareable(self, at_hand: NDArray[np.bool_], first: int) -> bool:
        """Return True if a segment has all files of the version, except unreadable ones."""
        live = between(self.live(), first, first + len(at_hand))
        live = live[self.has_index(live)]
        lacking = live[~at_hand[live - first]]
        lasting = [row for row, why in list(self.failures.items()) if not _may_pass(why)]
        return len(live) >= _LEAST_SHARED and bool(np.isin(lacking, lasting).all())

    def _readable(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows[~np.isin(rows, list(self.failures))] if self.failures else rows

    def _heads_key(self, first: int) -> tuple[Hashable, ...]:
        return (*self.key, "heads", first)

    def _heads_entry(self, first: int) -> TierEntry | None:
        return self.entry_of(heads_name(first))

    def _body_key(self, part: SegmentPart) -> tuple[Hashable, ...]:
        return (*self.key, "bodies", part.requested, part.first, len(part.span))

    def _body_entry(self, part: SegmentPart) -> TierEntry | None:
        return self.entry_of(body_name(part.first, len(part.span), part.requested))

    @property
    def _names(self) -> BytesColumn:
        manifest = self.manifest
        return manifest.derived.get_or_make(
            "side indexes",
            manifest.side_indexes,
            lambda found: own_bytes(found.starts) + own_bytes(found.lengths),
        )


def _restored(
    entry: TierEntry, columns: Columns | None, restore: Callable[[Mapping[str, Any]], _Segment]
) -> _Segment | None:
    stored = None if columns is None else read_value(columns, entry)
    return None if stored is None else restore(stored)


def _may_pass(why: PaimonIndexError) -> bool:
    """Return True if another process may be able to read the file."""
    return isinstance(why, StorageError | MemoryShortError) and not isinstance(why, FileMissingError)


def between(ascending: NDArray[np.int64], first: int, end: int) -> NDArray[np.int64]:
    """Select the numbers in [first, end) from ascending ones."""
    start, stop = np.searchsorted(ascending, (first, end))
    return ascending[start:stop]
