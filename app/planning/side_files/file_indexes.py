"""The file indexes of a version's data files, whether embedded in manifests or beside the data.

Embedded indexes are stacked for a whole manifest, over the bytes that it holds anyway. Those in files of
their own are fetched for the files that are asked about, of many manifests in one go. Once the plan's budget
of time is used up nothing more is read: what the caches keep is asked, and the rest is reported as not
loaded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError, PaimonIndexError
from app.file_index import KINDS, FileIndex, StackedIndex, WantedIndexes
from app.planning.request.budget import UNBOUNDED, Budget
from app.planning.side_files.fetch import FRONT_BYTES, Fronts
from app.planning.side_files.indexes import SEGMENTS_AHEAD, SideIndexes
from app.planning.side_files.segments import Opened, Reach
from app.planning.version.file_bounds import FileBounds
from app.planning.version.version import Version
from app.table.manifests import Manifest
from app.work import check_deadline, wait_for

_SHARE_OF_CACHE: Final = 2
"""Segments that others have read are loaded ahead, while they take no more than so much of their cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """Files of one segment whose indexes are files of their own.

    Attributes:
        at: int64, shape (k,): positions of the files among those that were asked about.
        rows: int64, shape (k,): of the files in the manifest.
    """

    number: int
    side: SideIndexes
    first: int
    at: NDArray[np.int64]
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Stacked:
    """The indexes of some files of one manifest, stacked.

    ``at``: int64, shape (k,): positions of the files among those that were asked about. ``places``: int64,
    shape (k,): position of each file in ``index``.
    """

    manifest: int
    at: NDArray[np.int64]
    index: StackedIndex
    places: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FileIndexes:
    """The file indexes of one version."""

    version: Version
    budget: Budget = UNBOUNDED
    reach: Reach = Reach.SOURCE
    ahead: int = SEGMENTS_AHEAD
    """Segments that are opened side by side."""
    _beside: dict[int, SideIndexes] = field(default_factory=dict)
    _unloaded: set[int] = field(default_factory=set)
    """Files whose indexes were not asked, since the budget was used up."""

    def has_index(self, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of ascending ``files`` have an index.

        Raises CorruptMetadataError: a file has more than one.
        """
        having = np.zeros(len(files), np.bool_)
        all_files = self.version.files()
        for number, part, rows in all_files.by_manifest(files):
            embedded = all_files.manifests[number].embedded_indexes.lengths[rows] >= 0
            having[part] = embedded if embedded.all() else embedded | self._side(number).has_index(rows)
        return having

    def path(self, file: int) -> str:
        """The file that a file's index is in."""
        version = self.version
        number, row = version.files().place(file)
        if version.files().manifests[number].embedded_indexes.lengths[row] < 0:
            return self._side(number).paths(np.array([row]))[0]
        return (
            f"{version.source.paths.data_file(version.files().entry(file))} (index embedded in its manifest)"
        )

    def stacks(self, files: NDArray[np.int64], wanted: WantedIndexes) -> Iterator[Stacked]:
        """The indexes of ascending ``files`` that all have one, in as few stacks as there is memory for.

        Files whose indexes cannot be read are left out; :meth:`failures` tells why.

        Raises DeadlineExceededError: the request's time ran out.
        """
        asked: list[_Asked] = []
        all_files = self.version.files()
        for number, part, rows in all_files.by_manifest(files):
            check_deadline()
            positions = np.arange(part.start, part.stop)
            beside = all_files.manifests[number].embedded_indexes.lengths[rows] < 0
            if not beside.all():
                embedded = _embedded(all_files.manifests[number])
                yield Stacked(number, positions[~beside], embedded, rows[~beside])
            if beside.any():
                side = self._side(number)
                segments = side.segments(rows[beside])
                asked += (
                    _Asked(number, side, first, positions[beside][start:stop], rows[beside][start:stop])
                    for first, start, stop in segments
                )
        for each, opened in self._opened(asked, wanted):
            lacking = np.ones(len(each.rows), np.bool_)
            for at, index, places in each.side.stacks(opened, self._reach):
                lacking[at] = False
                yield Stacked(each.number, each.at[at], index, places)
                # Released before the next stack is loaded.
                del index
            if lacking.any():
                lacking &= ~np.isin(each.rows, list(each.side.failures))
                self._unloaded.update(files[each.at[lacking]].tolist())

    def load_shared(self, column: str) -> None:
        """Has the caches hold what others have read of the index files, as far as filters on a column ask it.

        Raises CorruptMetadataError: a file has more than one.
        """
        files = self.version.files().all()
        wanted = frozenset((column, kind) for kind in KINDS.values())
        for _ in self.stacks(files[self.has_index(files)], wanted):
            if self._held > self._capacity // _SHARE_OF_CACHE:
                return

    def _opened(self, asked: Iterable[_Asked], wanted: WantedIndexes) -> Iterator[tuple[_Asked, Opened]]:
        """Each segment as far as it is at hand, or has been read while those before it are looked at."""
        begun: deque[tuple[_Asked, Future[Opened]]] = deque()
        # Their fronts are held together; of large segments one is read while another is looked at.
        ahead = 0
        try:
            for each in asked:
                check_deadline()
                opened, reach = each.side.known(each.first, each.rows, wanted), self._reach()
                if reach is Reach.MACHINE or each.side.is_at_hand(opened):
                    yield each, opened
                    continue
                del opened
                ahead += len(each.rows) * FRONT_BYTES
                while len(begun) >= self.ahead or (len(begun) > 1 and ahead > Fronts.most_bytes()):
                    before, opening = begun.popleft()
                    ahead -= len(before.rows) * FRONT_BYTES
                    yield before, wait_for(opening)
                open_ = partial(each.side.open, each.first, each.rows, wanted, reach)
                opening = self.version.source.warehouse.readers.begin(open_)
                begun.append((each, opening))
                del opening
            while begun:
                before, opening = begun.popleft()
                yield before, wait_for(opening)
        finally:
            # After an error, or where nobody asks further, the rest is not needed.
            for _, opening in begun:
                opening.cancel()

    def _reach(self) -> Reach:
        return Reach.MACHINE if self.budget.is_spent else self.reach

    def open(
        self, files: NDArray[np.int64], wanted: WantedIndexes
    ) -> Iterator[tuple[int, FileIndex | CorruptIndexError]]:
        """The indexes of single files, or why they cannot be decoded; the rest as above."""
        for stacked in self.stacks(files, wanted):
            yield from _opened(stacked, files)
            # Released before the next stack is loaded.
            del stacked

    @property
    def are_complete(self) -> bool:
        """Whether no index was left unasked since the budget was used up."""
        return not self._unloaded

    def not_loaded(self, files: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some files whose indexes were not asked, since the budget was used up."""
        return files[np.isin(files, list(self._unloaded))] if self._unloaded else files[:0]

    def passing_warnings(self) -> list[str]:
        """What the caller has to know of this plan, and may not hold for the next one."""
        if not self._unloaded:
            return []
        warning = (
            f"{len(self._unloaded)} files are kept without asking their indexes: these were not loaded "
            "before the plan's budget of time (budget_ms) was used up. They are being loaded; the same "
            "request may leave out more files later"
        )
        return [warning]

    def lasting_warnings(self) -> list[str]:
        """What the caller has to know of every plan of the version that asks these indexes."""
        if self._held <= self._capacity:
            return []
        warning = (
            f"the index files that this filter asks take {self._held} bytes of memory, and the cache for "
            f"them has {self._capacity}: some are read again for each plan, unless "
            "PAIMON_INDEX_MEMORY_BYTES is raised"
        )
        return [warning]

    @property
    def _held(self) -> int:
        return sum(sum(side.held.values()) for side in self._beside.values())

    @property
    def _capacity(self) -> int:
        return self.version.source.caches.file_indexes.capacity

    def failures(self, files: NDArray[np.int64]) -> Iterator[tuple[int, PaimonIndexError]]:
        """Why indexes of ascending ``files`` could not be read, as far as somebody asked for them."""
        for number, part, rows in self.version.files().by_manifest(files):
            failures = self._beside[number].failures if number in self._beside else {}
            if failures:
                failed = np.isin(rows, list(failures))
                for file, row in zip(files[part][failed].tolist(), rows[failed].tolist(), strict=True):
                    yield file, failures[row]

    def _side(self, number: int) -> SideIndexes:
        if number not in self._beside:
            version = self.version
            file, table = version.manifest_files()[number], version.table
            key = (version.source.warehouse.name, table.directory, *file)
            entry_of = partial(table.metadata.entry_of_manifest, file)
            live, manifest = partial(self._live, number), version.files().manifests[number]
            self._beside[number] = SideIndexes(version.source, manifest, key, entry_of, live)
        return self._beside[number]

    def _live(self, number: int) -> NDArray[np.int64]:
        all_files = self.version.files()
        live = all_files.columns.rows[number]
        return np.arange(len(all_files.manifests[number])) if live is None else live


def _opened(
    stacked: Stacked, files: NDArray[np.int64]
) -> Iterator[tuple[int, FileIndex | CorruptIndexError]]:
    for file, place in zip(files[stacked.at].tolist(), stacked.places.tolist(), strict=True):
        check_deadline()
        try:
            index: FileIndex | CorruptIndexError = stacked.index.file_index(place)
        except CorruptIndexError as error:
            index = error
        yield file, index


def open_declared(version: Version) -> None:
    """Opens what filters on indexed columns ask first: their statistics, and indexes that are there.

    These are embedded in manifests, or others have read them. Raises CorruptMetadataError: the statistics of
    one of the manifests are damaged, or a file has two index files.
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
    """Reads what filters on some columns ask of index files, as far as caches and the shared tier lack it.

    Yields part by part, without files whose indexes cannot be read. Errors as of
    :meth:`FileIndexes.has_index`.
    """
    # One at a time: what waits to be written for others is bounded.
    files, indexes = version.files().all(), FileIndexes(version, ahead=1)
    having = files[indexes.has_index(files)]
    for column in columns:
        wanted = frozenset((column, kind) for kind in KINDS.values())
        yield from (None for _ in indexes.stacks(having, wanted))


def _embedded(manifest: Manifest) -> StackedIndex:
    return manifest.derived.get_or_make(
        "embedded indexes",
        lambda: StackedIndex.read(manifest.embedded_indexes),
        lambda index: index.own_nbytes,
    )
