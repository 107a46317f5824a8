"""The file indexes of a version's data files, whether embedded in manifests or beside the data.

Embedded indexes are stacked for a whole manifest, over the bytes that it holds anyway. Those in files of
their own are fetched for the files that are asked about, of many manifests in one go. Once the plan's budget
of time is used up nothing more is read: what the caches keep is asked, and the rest is reported as not
loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError, PaimonIndexError
from app.file_index.index_kinds import KINDS, WantedIndexes
from app.file_index.stacked_index import FileIndex, StackedIndex
from app.planning.request.budget import UNBOUNDED, Budget
from app.planning.side_files.indexes import SideIndexes, fronts_of, read_together
from app.planning.side_files.segments import KeptSegments
from app.planning.side_files.shared_segments import SharedRows, SharedSegments, Unit
from app.planning.side_files.shared_turns import LEAST_FILES, SharedTurns
from app.planning.version.file_bounds import FileBounds
from app.planning.version.version import Version
from app.table.manifests.manifest import Derived, Manifest
from app.table.manifests.manifest_list import ManifestFile
from app.types.bytes_column import BytesColumn
from app.work import check_deadline

_SHARE_OF_CACHE: Final = 2
"""Payloads that others have read are read ahead, as far as they take no more than so much of their cache."""
_LEAST_UNITS: Final = 2
"""Fewer units of index files are read by each process that asks them."""


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """Files of one manifest that are asked at one time.

    Attributes:
        positions: int64, shape (k,): of the files among those that were asked about.
        rows: int64, shape (k,): of the files in the manifest.
        beside: bool, shape (k,): files whose index is a file.
        unread: int64: rows of those of which nobody has read anything yet.
    """

    number: int
    positions: NDArray[np.int64]
    rows: NDArray[np.int64]
    beside: NDArray[np.bool_]
    unread: NDArray[np.int64]

    def is_within(self, first: int, size: int) -> NDArray[np.bool_]:
        """bool, shape (k,): files whose index is a file, of the ``size`` rows from ``first`` on."""
        return self.beside & (self.rows >= first) & (self.rows < first + size)

    def part(self, some: NDArray[np.bool_]) -> Share:
        """Some of the files, given as bool of shape (k,)."""
        rows = self.rows[some]
        unread = self.unread[np.isin(self.unread, rows, assume_unique=True)]
        return Share(self.number, self.positions[some], rows, self.beside[some], unread)


_Turn: TypeAlias = "tuple[list[Share], Iterator[bytes | PaimonIndexError]]"
"""Files that are asked at one time, and the fronts that are read of them together."""


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
    _beside: dict[int, SideIndexes] = field(default_factory=dict)
    _apart: set[int] = field(default_factory=set)
    """Numbers of manifests whose embedded indexes were loaded by themselves."""
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
        shared = self._shared(files, wanted)
        for shares, fronts in self._shared_turns(self._turns(files), shared):
            for share in shares:
                check_deadline()
                yield from self._embedded_stacks(files, share)
                if not share.beside.any():
                    continue
                positions, rows = share.positions[share.beside], share.rows[share.beside]
                lacking = np.ones(len(rows), np.bool_)
                side = self._side(share.number)
                found = side.stacks(
                    rows,
                    wanted,
                    read_together(share.unread),
                    fronts,
                    is_spent=self._is_spent,
                    load_bodies=shared.load_bodies,
                )
                for at, index, places in found:
                    lacking[at] = False
                    yield Stacked(share.number, positions[at], index, places)
                    # Released before the next stack is loaded.
                    del index
                if lacking.any():
                    lacking &= ~np.isin(rows, list(side.failures))
                    self._unloaded.update(files[positions[lacking]].tolist())

    def load_shared(self, column: str) -> None:
        """Has the caches hold what others have read of the index files, as far as filters on a column ask it.

        Raises CorruptMetadataError: a file has more than one.
        """
        if self.version.table.metadata.is_shared:
            files = self.version.files().all()
            wanted = frozenset((column, kind) for kind in KINDS.values())
            self._shared(files[self.has_index(files)], wanted).load_bodies()

    def _shared(self, files: NDArray[np.int64], wanted: WantedIndexes) -> SharedSegments:
        """What processes share of the index files that are asked for ascending ``files``."""
        version, all_files = self.version, self.version.files()
        metadata = version.table.metadata

        def groups() -> Iterator[Sequence[SharedRows]]:
            if not all_files.manifests.in_memory:
                # They would be read once more.
                return
            numbers = {file: number for number, file in enumerate(version.manifest_files())}
            asked = {number: rows for number, _, rows in all_files.by_manifest(files)}
            for group in metadata.shared_groups(version.resolved):
                if all(file in numbers for file in group) and any(numbers[file] in asked for file in group):
                    yield [self._shared_rows(numbers[file], file, asked) for file in group]

        room = self._capacity // _SHARE_OF_CACHE
        return SharedSegments(metadata, version.source.readers, groups, wanted, room)

    def _shared_rows(
        self, number: int, file: ManifestFile, asked: Mapping[int, NDArray[np.int64]]
    ) -> SharedRows:
        all_files = self.version.files()
        lengths = all_files.manifests[number].embedded_indexes.lengths
        live = all_files.columns.rows[number]
        live = np.arange(len(lengths)) if live is None else live
        rows = asked.get(number, live[:0])
        return SharedRows(number, file, self._side(number), rows[lengths[rows] < 0], live[lengths[live] < 0])

    def _shared_turns(self, turns: Iterable[list[Share]], shared: SharedSegments) -> Iterator[_Turn]:
        """The same with their fronts; what other processes have read is not read.

        Where several lack much, each reads a part. All that was read is shared at the end.
        """
        for turn in turns:
            if self.budget.is_spent or not any(len(share.unread) for share in turn):
                yield turn, self._fronts(turn)
                continue
            shared.load_heads()
            lacking = shared.lacking(LEAST_FILES)
            if len(lacking) < _LEAST_UNITS:
                yield self._begin(turn)
            else:
                yield from self._units(turn, shared, lacking)
        shared.offer(shared.units)

    def _units(
        self, turn: list[Share], shared: SharedSegments, lacking: list[tuple[Unit, int]]
    ) -> Iterator[_Turn]:
        """Files of units that lack many, unit by unit, behind all others."""
        shares = {share.number: (share,) for share in turn}
        others = {share.number: np.ones(len(share.rows), np.bool_) for share in turn}
        for segment in chain.from_iterable(unit for unit, _ in lacking):
            for share in shares.get(segment.rows.number, ()):
                others[share.number] &= ~share.is_within(segment.first, segment.size)

        def begin(unit: Unit) -> _Turn:
            parts = (
                share.part(share.is_within(segment.first, segment.size))
                for segment in unit
                for share in shares.get(segment.rows.number, ())
            )
            return self._begin(parts)

        yield self._begin(share.part(others[share.number]) for share in turn)
        yield from SharedTurns(shared, lacking, begin, self._is_spent)

    def _begin(self, shares: Iterable[Share]) -> _Turn:
        """These files, of which those are read whose heads nobody has read by now."""
        left = [
            replace(share, unread=self._side(share.number).without_head(share.unread)) for share in shares
        ]
        return left, self._fronts(left)

    def _turns(self, files: NDArray[np.int64]) -> Iterator[list[Share]]:
        """Cuts ascending ``files`` up by manifests.

        From the first index file on that is to be read, all are one turn: a manifest may have few of them.
        """
        all_files = self.version.files()
        turn: list[Share] = []
        reads = 0
        for number, part, rows in all_files.by_manifest(files):
            beside = all_files.manifests[number].embedded_indexes.lengths[rows] < 0
            unread = self._side(number).without_head(rows[beside]) if beside.any() else rows[:0]
            turn.append(Share(number, np.arange(part.start, part.stop), rows, beside, unread))
            reads += len(unread)
            if not reads:
                yield turn
                turn = []
        if turn:
            yield turn

    def _fronts(self, shares: list[Share]) -> Iterator[bytes | PaimonIndexError]:
        """What is read together, in the order of shares; it ends early with the budget."""
        unread = (share for share in shares if len(share.unread))
        together = ((self._side(share.number), read_together(share.unread)) for share in unread)
        paths = (path for side, rows in together for path in side.paths(rows))
        return self.version.source.warehouse.read_ahead(fronts_of(paths, self._is_spent))

    def _is_spent(self) -> bool:
        return self.budget.is_spent

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
        warnings = []
        if self._apart:
            size = sum(size or 0 for _, size in self.version.manifest_files())
            warnings.append(
                f"indexes embedded in {len(self._apart)} manifests are read again for each plan that asks "
                f"them: the version's manifests ({size} bytes) are too large to be kept beside those of "
                "other tables, unless PAIMON_INDEX_MEMORY_BYTES is raised"
            )
        if self._held > self._capacity:
            warnings.append(
                f"the index files that this filter asks take {self._held} bytes of memory, and the cache for "
                f"them has {self._capacity}: some are read again for each plan, unless "
                "PAIMON_INDEX_MEMORY_BYTES is raised"
            )
        return warnings

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

    def _embedded_stacks(self, files: NDArray[np.int64], share: Share) -> Iterator[Stacked]:
        embedded = ~share.beside
        if not embedded.any():
            return
        manifest = self.version.files().manifests[share.number]
        positions = share.positions[embedded]
        if manifest.embedded_digests is not None and self.budget.is_spent:
            self._unloaded.update(files[positions].tolist())
        else:
            yield Stacked(
                share.number, positions, self._embedded(share.number, manifest), share.rows[embedded]
            )

    def _embedded(self, number: int, manifest: Manifest) -> StackedIndex:
        if manifest.embedded_digests is None:
            return _stacked(manifest.embedded_indexes, manifest.derived)
        # Of these there is one at a time, since all of them may be more than there is memory for.
        self._apart.add(number)
        apart = self.version.table.metadata.embedded_indexes(self.version.manifest_files()[number])
        return _stacked(apart.column, apart.derived)

    def _side(self, number: int) -> SideIndexes:
        if number not in self._beside:
            version = self.version
            file, table = version.manifest_files()[number], version.table
            key = (version.source.warehouse.name, table.directory, *file)
            kept = KeptSegments(partial(table.metadata.place_of_manifest, file))
            manifest = partial(version.files().manifests.__getitem__, number)
            self._beside[number] = SideIndexes(version.source, manifest, key, kept)
        return self._beside[number]


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
    files, bounds, indexes = version.files(), FileBounds(version), FileIndexes(version)
    if not files.manifests.in_memory:
        # Nothing of them would stay.
        return
    for declared in version.schema.options.file_indexes:
        column, kind = version.schema.by_name.get(declared.column), KINDS.get(declared.kind)
        if column is None or kind is None:
            continue
        bounds.values(column, files.all())
        for manifest in files.manifests:
            if manifest.embedded_digests is None and not manifest.embedded_indexes.is_null.all():
                _stacked(manifest.embedded_indexes, manifest.derived).open(column.name, kind, column.type)
    for name in dict.fromkeys(declared.column for declared in version.schema.options.file_indexes):
        indexes.load_shared(name)


def read_indexes(version: Version, columns: Iterable[str]) -> None:
    """Reads what filters on some columns ask of index files, as far as caches and the shared tier lack it.

    Errors as of :meth:`FileIndexes.has_index`; files whose indexes cannot be read are left out.
    """
    files, indexes = version.files().all(), FileIndexes(version)
    having = files[indexes.has_index(files)]
    for column in columns:
        wanted = frozenset((column, kind) for kind in KINDS.values())
        for _ in indexes.stacks(having, wanted):
            check_deadline()


def _stacked(embedded: BytesColumn, derived: Derived) -> StackedIndex:
    return derived.get_or_make(
        "embedded indexes", lambda: StackedIndex.read(embedded), lambda index: index.own_nbytes
    )
