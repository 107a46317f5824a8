"""Segments of index files that processes share: those of a group of manifests lie in one object.

What is there is read before any index file is, side by side, and found in the caches from then on. What is
not there is written once plans have read it: segments that have, of each file of the version, all that a
filter asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.errors import FileMissingError, MemoryShortError, PaimonIndexError, StorageError
from app.file_index.index_kinds import WantedIndexes
from app.planning.side_files.indexes import SideIndexes, between
from app.planning.side_files.segments import (
    FILES_OF_HEADS,
    body_bytes,
    body_name,
    files_of_bodies,
    heads_name,
    stored_body,
    stored_heads,
)
from app.storage import Readers
from app.storage.shared_tier import SharedArrays
from app.table.manifests.disk_form import read_value, value_columns
from app.table.manifests.manifest_list import ManifestFile
from app.table.metadata import TableMetadata

_LEAST_FILES: Final = 16
"""Fewer index files are read in as little time as it takes to ask the shared tier."""
_FILES_OF_UNIT: Final = 1024
"""What a unit has at least, unless it is the last one of its group."""
_OBJECT_BYTES: Final = 16 << 20
"""Of payloads that lie in one object, unless those of one segment take more."""


@dataclass(frozen=True, slots=True, eq=False)
class SharedRows:
    """Files of one manifest whose indexes are files.

    ``number``: of the manifest in the version. ``asked``: int64, ascending rows of those that a plan asks.
    ``live``: of those that the version has, some of which may have no index.
    """

    number: int
    file: ManifestFile
    side: SideIndexes
    asked: NDArray[np.int64]
    live: NDArray[np.int64]


class _IncompleteError(Exception):
    """A segment lacks files, so that nobody is to have it."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The ``size`` rows of a manifest from ``first`` on: heads, or payloads of ``wanted`` indexes."""

    rows: SharedRows
    first: int
    size: int
    wanted: WantedIndexes | None = None

    @property
    def name(self) -> str:
        """What places call it."""
        return (
            heads_name(self.first) if self.wanted is None else body_name(self.first, self.size, self.wanted)
        )

    def lacks(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some rows that are asked, and not at hand."""
        side, some = self.rows.side, between(rows, self.first, self.first + self.size)
        if self.wanted is None:
            return side.without_head(some)
        return side.without_body(self.first, side.known_body(self.first, self.size, self.wanted), some)

    def put(self, stored: Mapping[str, Any]) -> None:
        """Has memory hold what another process gave as :meth:`stored`."""
        if self.wanted is None:
            self.rows.side.put_heads(self.first, stored)
        else:
            self.rows.side.put_body(self.first, self.size, self.wanted, stored)

    @property
    def live(self) -> NDArray[np.int64]:
        """Rows that the version has and that have an index."""
        live = between(self.rows.live, self.first, self.first + self.size)
        return live[self.rows.side.has_index(live)]

    def stored(self) -> dict[str, Any] | None:
        """What others are to have: None where no file has anything of it."""
        side, live = self.rows.side, self.live
        # The caches may drop a segment at any time: what is looked at is what is stored.
        if self.wanted is None:
            heads = side.known_heads(self.first)
            lacking, known = live[~heads.has(live - self.first)], heads.known
        else:
            body = side.known_body(self.first, self.size, self.wanted)
            lacking, known = side.without_body(self.first, body, live), body.known
        lasting = [row for row, why in list(side.failures.items()) if not _may_pass(why)]
        if not np.isin(lacking, lasting).all():
            raise _IncompleteError
        if not known:
            return None
        return stored_heads(heads) if self.wanted is None else stored_body(body)


Unit: TypeAlias = "Sequence[Segment]"
"""Segments of heads that lie in one object; their files are read by one process for all."""


@dataclass(slots=True, eq=False)
class SharedSegments:
    """The index files that one filter asks of some files of a version.

    Attributes:
        find_groups: gives the manifests whose segments lie together, all of each group.
        room: bytes of payloads that are read ahead.
    """

    metadata: TableMetadata
    readers: Readers
    find_groups: Callable[[], Iterable[Sequence[SharedRows]]]
    wanted: WantedIndexes
    room: int
    _units: Sequence[Unit] | None = None
    _has_loaded_bodies: bool = False
    _offered_bytes: int = 0

    @property
    def units(self) -> Sequence[Unit]:
        """All that is shared; nothing before :meth:`load_heads`."""
        return self._units or ()

    def load_heads(self) -> None:
        """Has the caches hold what others have read of heads, at the first call."""
        if self._units is None:
            groups = self.find_groups() if self.metadata.is_shared else ()
            self._units = [unit for group in groups for unit in _units_of(group)]
            # Nobody knows how many bytes heads take.
            self._load([(unit, 0) for unit in self._units])

    def load_bodies(self) -> None:
        """As :meth:`load_heads`, with the indexes that the filter asks."""
        if not self._has_loaded_bodies:
            self._has_loaded_bodies = True
            self.load_heads()
            self._load([*self._bodies(self.units, self.room)])

    def lacking(self, least: int) -> list[tuple[Unit, int]]:
        """Units of which ``least`` asked files are at hand in no cache, or more; how many these are.

        None where processes cannot agree on who reads them. They are in an order of this process's own.
        """
        if not self.units or self._arrays(self.units[0]).tier.is_resting:
            return []
        counts = ((unit, _lacking(unit)) for unit in self.units)
        lacking = [(unit, count) for unit, count in counts if count >= least]
        return sorted(lacking, key=lambda each: self._arrays(each[0]).rank)

    def claim(self, unit: Unit) -> bool:
        """Whether this process is to read a unit, as of :meth:`SharedTier.claim`."""
        return self._arrays(unit).claim()

    def claimed(self, units: Sequence[Unit]) -> list[bool]:
        """Which of some units processes have claimed lately."""
        places = [self._arrays(unit) for unit in units]
        return places[0].tier.claimed([place.keys for place in places]) if places else []

    def take_over(self, unit: Unit) -> bool:
        """Has the caches hold a unit, if another process has read it by now."""
        if _lacking(unit) >= _LEAST_FILES and not self._load([(unit, 0)], is_awaited=True):
            return False
        # These are written before the heads.
        self._load([*self._bodies([unit], self.room)], is_awaited=True)
        return True

    def offer(self, units: Sequence[Unit]) -> None:
        """Shares what was read of units, in the background, if something was."""
        if units:
            self._arrays(units[0]).tier.later(self._offer_all, units)

    def _offer_all(self, units: Sequence[Unit]) -> None:
        for unit in units:
            for segments, size in self._bodies([unit], self.room - self._offered_bytes):
                if self._offer(segments):
                    self._offered_bytes += size
            self._offer(unit)

    def _offer(self, segments: Sequence[Segment]) -> bool:
        """Whether it was offered."""
        arrays = self._arrays(segments)
        if not arrays.is_wanted:
            return False
        try:
            if sum(len(each.live) for each in segments) < _LEAST_FILES:
                # Nobody asks for it.
                return False
            stored = [each.stored() for each in segments]
        except (_IncompleteError, PaimonIndexError):
            return False
        if not any(stored):
            return False
        entries = [None if each is None else value_columns(each) for each in stored]
        arrays.offer(entries, is_background=True)
        return True

    def _load(self, objects: Iterable[tuple[Sequence[Segment], int]], *, is_awaited: bool = False) -> int:
        """Reads objects of which much is lacking; how many of them there were."""
        worth = [
            (self._arrays(segments), segments, size)
            for segments, size in objects
            if _lacking(segments) >= _LEAST_FILES
        ]
        got = self.readers.map(lambda each: each[0].get(each[2], is_awaited=is_awaited), worth)
        for (arrays, segments, _), columns in zip(worth, got, strict=True):
            for segment, place, entry in zip(segments, arrays.places, columns or (), strict=False):
                stored = None if entry is None else read_value(entry, place)
                if stored is not None:
                    segment.put(stored)
        return sum(columns is not None for columns in got)

    def _arrays(self, segments: Sequence[Segment]) -> SharedArrays:
        arrays = self.metadata.shared_of_manifests([(each.rows.file, each.name) for each in segments])
        assert arrays is not None  # noqa: S101 - who makes this object has a shared tier
        return arrays

    def _bodies(self, units: Iterable[Unit], room: int) -> Iterator[tuple[Sequence[Segment], int]]:
        """The segments of payloads that lie in one object, with their bytes: what heads say, all known.

        ``room``: bytes that they have together at most.
        """
        left = room
        for unit in units:
            together: list[Segment] = []
            size = 0
            for segment, more in self._bodies_of(unit):
                left -= more
                if left < 0:
                    return
                if together and size + more > _OBJECT_BYTES:
                    yield together, size
                    together, size = [], 0
                together.append(segment)
                size += more
            if together:
                yield together, size

    def _bodies_of(self, unit: Unit) -> Iterator[tuple[Segment, int]]:
        """Each with the bytes of its payloads."""
        for of_heads in unit:
            rows, first = of_heads.rows, of_heads.first
            heads = rows.side.known_heads(first)
            listed = heads.listed(self.wanted)
            if not listed:
                continue
            size = files_of_bodies(heads.largest_body(listed))
            for start in range(0, len(heads.heads), size):
                part = heads.slice(start, start + size)
                yield (
                    Segment(rows, first + start, size, listed),
                    body_bytes(part, np.arange(len(part)), listed),
                )


def _may_pass(why: PaimonIndexError) -> bool:
    """Whether a file that could not be read may be read by others."""
    return isinstance(why, StorageError | MemoryShortError) and not isinstance(why, FileMissingError)


def _lacking(segments: Sequence[Segment]) -> int:
    """How many files that are asked are at hand in no cache."""
    return sum(len(each.lacks(each.rows.asked)) for each in segments)


def _units_of(group: Sequence[SharedRows]) -> Iterator[Unit]:
    unit: list[Segment] = []
    files = 0
    for rows in group:
        for first in range(0, len(rows.side.manifest), FILES_OF_HEADS):
            unit.append(Segment(rows, first, FILES_OF_HEADS))
            files += min(FILES_OF_HEADS, len(rows.side.manifest) - first)
            if files >= _FILES_OF_UNIT:
                yield unit
                unit, files = [], 0
    if unit:
        yield unit
