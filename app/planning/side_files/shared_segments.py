"""Segments of index files that processes share: those of a group of manifests lie in one object.

What is there is read before any index file is, side by side, and found in the caches from then on. What is
not there is written once plans have read it: segments that have, of each file of the version, all that a
filter asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptMetadataError
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
_OBJECT_BYTES: Final = 16 << 20
"""Of payloads that lie in one object, unless those of one segment take more."""


@dataclass(frozen=True, slots=True, eq=False)
class SharedRows:
    """Files of one manifest whose indexes are files.

    ``asked``: int64, ascending rows of those that a plan asks. ``live``: of those that the version has, some
    of which may have no index.
    """

    file: ManifestFile
    side: SideIndexes
    asked: NDArray[np.int64]
    live: NDArray[np.int64]


class _IncompleteError(Exception):
    """A segment lacks files, so that nobody is to have it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """Rows of a manifest: their heads, or the payloads of ``wanted`` indexes."""

    rows: SharedRows
    first: int
    size: int
    wanted: WantedIndexes | None = None

    @property
    def name(self) -> str:
        return (
            heads_name(self.first) if self.wanted is None else body_name(self.first, self.size, self.wanted)
        )

    def lacks(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some rows that are asked, and not at hand."""
        side, some = self.rows.side, between(rows, self.first, self.first + self.size)
        if self.wanted is None:
            return side.without_head(some)
        return side.without_body(self.first, self.size, self.wanted, some)

    def put(self, stored: Mapping[str, Any]) -> None:
        if self.wanted is None:
            self.rows.side.put_heads(self.first, stored)
        else:
            self.rows.side.put_body(self.first, self.size, self.wanted, stored)

    def stored(self) -> dict[str, Any] | None:
        """What others are to have: None where no file has an index."""
        side = self.rows.side
        live = between(self.rows.live, self.first, self.first + self.size)
        live = live[side.has_index(live)]
        if not len(live):
            return None
        if not np.isin(self.lacks(live), list(side.failures)).all():
            raise _IncompleteError
        if self.wanted is None:
            return stored_heads(side.known_heads(self.first))
        return stored_body(side.known_body(self.first, self.size, self.wanted))


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
    _groups: Sequence[Sequence[SharedRows]] | None = None
    _has_loaded_bodies: bool = False

    def load_heads(self) -> None:
        """Has the caches hold what others have read of heads, at the first call."""
        if self._groups is None:
            self._groups = [*self.find_groups()] if self.metadata.is_shared else ()
            self._load([*self._heads()])

    def load_bodies(self) -> None:
        """As :meth:`load_heads`, with the indexes that the filter asks."""
        if not self._has_loaded_bodies:
            self._has_loaded_bodies = True
            self.load_heads()
            self._load([*self._bodies()])

    def offer(self) -> None:
        """Shares what was read, if something was."""
        for segments, _ in (*self._heads(), *self._bodies()):
            arrays = self._arrays(segments)
            if not arrays.is_wanted:
                continue
            try:
                stored = [each.stored() for each in segments]
            except (_IncompleteError, CorruptMetadataError):
                continue
            if any(stored):
                arrays.offer([None if each is None else value_columns(each) for each in stored])

    def _load(self, objects: Iterable[tuple[Sequence[_Segment], int]]) -> None:
        worth = [
            (self._arrays(segments), segments, size)
            for segments, size in objects
            if sum(len(each.lacks(each.rows.asked)) for each in segments) >= _LEAST_FILES
        ]
        got = self.readers.map(lambda each: each[0].get(each[2]), worth)
        for (arrays, segments, _), columns in zip(worth, got, strict=True):
            for segment, place, entry in zip(segments, arrays.places, columns or (), strict=False):
                stored = None if entry is None else read_value(entry, place)
                if stored is not None:
                    segment.put(stored)

    def _arrays(self, segments: Sequence[_Segment]) -> SharedArrays:
        arrays = self.metadata.shared_of_manifests([(each.rows.file, each.name) for each in segments])
        assert arrays is not None  # noqa: S101 - who makes this object has a shared tier
        return arrays

    def _heads(self) -> Iterator[tuple[Sequence[_Segment], int]]:
        """The segments of heads that lie in one object; nobody knows how many bytes they take."""
        for group in self._groups or ():
            segments = [*self._heads_of(group)]
            yield from [(segments, 0)] if len(group) > 1 else (([each], 0) for each in segments)

    def _heads_of(self, group: Sequence[SharedRows]) -> Iterator[_Segment]:
        for rows in group:
            for first in range(0, len(rows.side.manifest), FILES_OF_HEADS):
                yield _Segment(rows, first, FILES_OF_HEADS)

    def _bodies(self) -> Iterator[tuple[Sequence[_Segment], int]]:
        """The segments of payloads that lie in one object, with their bytes: what heads say, all known."""
        left = self.room
        for group in self._groups or ():
            together: list[_Segment] = []
            size = 0
            for segment, more in self._bodies_of(group):
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

    def _bodies_of(self, group: Sequence[SharedRows]) -> Iterator[tuple[_Segment, int]]:
        """Each with the bytes of its payloads."""
        for of_heads in self._heads_of(group):
            rows, first = of_heads.rows, of_heads.first
            heads = rows.side.known_heads(first)
            listed = heads.listed(self.wanted)
            if not listed:
                continue
            size = files_of_bodies(heads.largest_body(listed))
            for start in range(0, len(heads.heads), size):
                part = heads.slice(start, start + size)
                yield (
                    _Segment(rows, first + start, size, listed),
                    body_bytes(part, np.arange(len(part)), listed),
                )
