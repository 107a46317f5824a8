"""The file indexes of a version's data files, embedded in manifests or in files of their own.

Embedded indexes are stacked for a whole manifest, over bytes that it holds anyway. Index files are fetched
for the requested files, of many manifests at once. When the plan's time budget is used up, only cached
indexes are used. The others are reported as not loaded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError, PaimonIndexError
from app.file_index import KINDS, FileIndex, StackedIndex, WantedIndexes
from app.planning.request.budget import UNBOUNDED, Budget
from app.planning.side_files.fetch import FRONT_BYTES, Fronts
from app.planning.side_files.indexes import SEGMENTS_AHEAD, SideIndexes
from app.planning.side_files.segments import OpenSegment, Reach, Stacked
from app.planning.version.file_bounds import FileBounds
from app.planning.version.version import Version
from app.table.manifests import Manifest
from app.work import check_deadline, wait_for

# Segments from the shared cache are preloaded into up to one part in this many of their cache.
_SHARE_OF_CACHE: Final = 2

# Indexes of a manifest, first row of a segment, its requested files' positions among all, and their rows.
_SegmentFiles: TypeAlias = "tuple[SideIndexes, int, NDArray[np.int64], NDArray[np.int64]]"


@dataclass(frozen=True, slots=True)
class FileIndexes:
    """The file indexes of one version."""

    version: Version
    budget: Budget = UNBOUNDED
    reach: Reach = Reach.SOURCE
    ahead: int = SEGMENTS_AHEAD
    """Segments in flight."""
    _side_indexes: dict[int, SideIndexes] = field(default_factory=dict)
    # Files whose indexes were not evaluated before the budget was used up.
    _unloaded: set[int] = field(default_factory=set)

    def has_index(self, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return True for each of ascending ``files`` with an index.

        Raises CorruptMetadataError if a file has more than one.
        """
        having = np.zeros(len(files), np.bool_)
        all_files = self.version.files()
        for number, part, rows in all_files.by_manifest(files):
            embedded = all_files.manifests[number].embedded_indexes.lengths[rows] >= 0
            having[part] = embedded if embedded.all() else embedded | self._side(number).has_index(rows)
        return having

    def path(self, file: int) -> str:
        """Return the path of a file's index file. Name the file itself if its index is embedded."""
        version = self.version
        number, row = version.files().place(file)
        if version.files().manifests[number].embedded_indexes.lengths[row] < 0:
            return self._side(number).paths(np.array([row]))[0]
        return (
            f"{version.source.data.data_file(version.files().entry(file))} (index embedded in its manifest)"
        )

    def stacks(self, files: NDArray[np.int64], requested: WantedIndexes) -> Iterator[Stacked]:
        """Yield the indexes of ascending ``files``, which must have one, in as few stacks as memory allows.

        Skip files whose indexes cannot be read, see :meth:`failures`. Raises DeadlineExceededError.
        """
        segments_to_open: list[_SegmentFiles] = []
        all_files = self.version.files()
        for number, part, rows in all_files.by_manifest(files):
            check_deadline()
            positions = np.arange(part.start, part.stop)
            in_files = all_files.manifests[number].embedded_indexes.lengths[rows] < 0
            if not in_files.all():
                embedded = _embedded(all_files.manifests[number])
                yield Stacked(positions[~in_files], embedded, rows[~in_files])
            if in_files.any():
                side, at, rows_beside = self._side(number), positions[in_files], rows[in_files]
                segments_to_open += (
                    (side, first, at[start:stop], rows_beside[start:stop])
                    for first, start, stop in side.segments(rows_beside)
                )
        for (side, _, at, rows), opened in self._open_segments(segments_to_open, requested):
            is_missing = np.ones(len(rows), np.bool_)
            # `map` holds no stack while the next one is loaded, unlike the variable of a loop.
            yield from map(partial(_placed, at, is_missing), side.stacks(opened, self._reach))
            if is_missing.any():
                is_missing &= ~np.isin(rows, list(side.failures))
                self._unloaded.update(files[at[is_missing]].tolist())

    def load_shared(self, column: str) -> None:
        """Load from the shared cache the index files that filters on a column need, within a share of memory.

        Raises CorruptMetadataError if a file has more than one.
        """
        files = self.version.files().all()
        requested = frozenset((column, kind) for kind in KINDS.values())
        for _ in self.stacks(files[self.has_index(files)], requested):
            if self._held > self._capacity // _SHARE_OF_CACHE:
                return

    def _open_segments(
        self, segments: Iterable[_SegmentFiles], requested: WantedIndexes
    ) -> Iterator[tuple[_SegmentFiles, OpenSegment]]:
        """Yield each segment opened, in order. Read the next ones while the caller uses one."""
        in_flight: deque[tuple[_SegmentFiles, Future[OpenSegment]]] = deque()
        # Bounds the fronts of all segments in flight: large segments are read one ahead only.
        front_bytes = 0
        try:
            for segment in segments:
                check_deadline()
                side, first, _, rows = segment
                reach = self._reach()
                opened = side.open_cached(first, rows, requested)
                if reach is Reach.MACHINE or side.is_at_hand(opened):
                    yield segment, opened
                    continue
                # The cache may evict what it has of the segment while the rest is loaded.
                del opened
                front_bytes += len(rows) * FRONT_BYTES
                while len(in_flight) >= self.ahead or (
                    len(in_flight) > 1 and front_bytes > Fronts.most_bytes()
                ):
                    front_bytes -= len(in_flight[0][0][-1]) * FRONT_BYTES
                    yield _first_opened(in_flight)
                open_ = partial(side.open, first, rows, requested, reach)
                in_flight.append((segment, self.version.source.warehouse.readers.begin(open_)))
            while in_flight:
                yield _first_opened(in_flight)
        finally:
            # After an error, or if the caller stops, the rest is not needed.
            for _, opening in in_flight:
                opening.cancel()

    def _reach(self) -> Reach:
        return Reach.MACHINE if self.budget.is_spent else self.reach

    def open(
        self, files: NDArray[np.int64], requested: WantedIndexes
    ) -> Iterator[tuple[int, FileIndex | CorruptIndexError]]:
        """Yield the indexes of single files, or the errors of files that cannot be decoded."""
        single = partial(_single_indexes, files)
        return chain.from_iterable(map(single, self.stacks(files, requested)))

    @property
    def are_complete(self) -> bool:
        """True if the budget sufficed for every index."""
        return not self._unloaded

    def not_loaded(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        """Select the files whose indexes were not evaluated before the budget was used up."""
        return files[np.isin(files, list(self._unloaded))] if self._unloaded else files[:0]

    def passing_warnings(self) -> list[str]:
        """Return warnings about this plan, which may not hold for the next one."""
        if not self._unloaded:
            return []
        warning = (
            f"{len(self._unloaded)} files are kept without evaluating their indexes, which were not loaded "
            "before the plan's budget of time (budget_ms) was used up. They are being loaded; the same "
            "request may leave out more files later"
        )
        return [warning]

    def lasting_warnings(self) -> list[str]:
        """Return warnings about every plan that evaluates these indexes."""
        if self._held <= self._capacity:
            return []
        warning = (
            f"the index files that this filter needs take {self._held} bytes of memory, and the cache for "
            f"them has {self._capacity}: some are read again for each plan, unless "
            "PAIMON_INDEX_MEMORY_BYTES is raised"
        )
        return [warning]

    @property
    def _held(self) -> int:
        return sum(sum(side.held.values()) for side in self._side_indexes.values())

    @property
    def _capacity(self) -> int:
        return self.version.source.caches.file_indexes.capacity

    def failures(self, files: NDArray[np.int64]) -> Iterator[tuple[int, PaimonIndexError]]:
        """Yield the errors met so far in reading indexes of ascending ``files``."""
        for number, part, rows in self.version.files().by_manifest(files):
            failures = self._side_indexes[number].failures if number in self._side_indexes else {}
            if failures:
                failed = np.isin(rows, list(failures))
                for file, row in zip(files[part][failed].tolist(), rows[failed].tolist(), strict=True):
                    yield file, failures[row]

    def _side(self, number: int) -> SideIndexes:
        if number not in self._side_indexes:
            version = self.version
            file, table = version.manifest_files()[number], version.table
            key = (version.source.warehouse.name, table.directory, *file)
            entry_of = partial(table.metadata.entry_of_manifest, file)
            live, manifest = partial(self._live, number), version.files().manifests[number]
            self._side_indexes[number] = SideIndexes(version.source, manifest, key, entry_of, live)
        return self._side_indexes[number]

    def _live(self, number: int) -> NDArray[np.int64]:
        all_files = self.version.files()
        live = all_files.columns.rows[number]
        return np.arange(len(all_files.manifests[number])) if live is None else live


def _first_opened(
    in_flight: deque[tuple[_SegmentFiles, Future[OpenSegment]]],
) -> tuple[_SegmentFiles, OpenSegment]:
    segment, opening = in_flight.popleft()
    return segment, wait_for(opening)


def _placed(at: NDArray[np.int64], is_missing: NDArray[np.bool_], stacked: Stacked) -> Stacked:
    """Convert positions among the rows of a segment to those among the requested files."""
    is_missing[stacked.at] = False
    return replace(stacked, at=at[stacked.at])


def _single_indexes(
    files: NDArray[np.int64], stacked: Stacked
) -> Iterator[tuple[int, FileIndex | CorruptIndexError]]:
    for file, place in zip(files[stacked.at].tolist(), stacked.places.tolist(), strict=True):
        check_deadline()
        try:
            index: FileIndex | CorruptIndexError = stacked.index.file_index(place)
        except CorruptIndexError as error:
            index = error
        yield file, index


def open_declared(version: Version) -> None:
    """Open in advance the statistics and available indexes that filters on indexed columns need first.

    Read embedded indexes and the shared cache only. Raises CorruptMetadataError if statistics are damaged,
    or a file has two index files.
    """
    files, bounds, indexes = version.files(), FileBounds(version), FileIndexes(version, reach=Reach.STORE)
    for declared in version.schema.options.file_indexes:
        column, kind = version.schema.by_name.get(declared.column), KINDS.get(declared.kind)
        if column is None or kind is None:
            continue
        bounds.values(column, files.all())
        for manifest in files.manifests:
            if not manifest.embedded_indexes.is_null.all():
                _embedded(manifest).open(column.name, kind, column.type)
    if version.table.metadata.is_shared:
        for name in dict.fromkeys(declared.column for declared in version.schema.options.file_indexes):
            indexes.load_shared(name)


def read_indexes(version: Version, columns: Iterable[str]) -> Iterator[None]:
    """Read the index files that filters on some columns need, if neither caches nor shared tier have them.

    Yield after each part. Skip files whose indexes cannot be read. Raises CorruptMetadataError if a
    file has two index files.
    """
    # One at a time: the queue of writes to the shared cache is bounded, and the caller flushes it.
    files, indexes = version.files().all(), FileIndexes(version, ahead=1)
    indexed = files[indexes.has_index(files)]
    for column in columns:
        requested = frozenset((column, kind) for kind in KINDS.values())
        yield from (None for _ in indexes.stacks(indexed, requested))


def _embedded(manifest: Manifest) -> StackedIndex:
    return manifest.derived.get_or_make(
        "embedded indexes",
        lambda: StackedIndex.read(manifest.embedded_indexes),
        lambda index: index.opened_nbytes,
        grows=True,
    )
