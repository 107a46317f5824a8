"""Segments of the index files of one manifest, kept on the disk for processes that start later.

The bytes of each index file are kept as well, by the warehouse, and outlive the manifest: the engine merges
manifests now and then, and names the same files in new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from app.file_index.index_kinds import WantedIndexes
from app.file_index.stacked.index import Heads, StackedIndex
from app.planning.side_files.segments import BodySegment, HeadSegment
from app.storage.kept_arrays import KeptArrays
from app.table.manifests.disk_form import load_value, store_value

_NEW_SHARE: Final = 4
"""A segment is written anew when it has more new files than one for so many that are kept."""


@dataclass(frozen=True, slots=True)
class KeptSegments:
    """Where segments of one manifest lie on the disk.

    Attributes:
        place_of: the place of what is called by some name among all that is made of the manifest; None where
            nothing is kept.
    """

    place_of: Callable[[str], KeptArrays | None]

    def heads(self, first: int, count: int) -> HeadSegment:
        """The heads of the ``count`` files from row ``first`` on, as far as they are kept."""
        found = self._open(_heads_name(first))
        if found is None:
            return HeadSegment.none(count)
        segment = HeadSegment.of(found["buffers"], found["sizes"])
        return replace(segment, kept=segment.known)

    def keep_heads(self, first: int, segment: HeadSegment) -> HeadSegment:
        """Keeps heads, if many of them are not kept yet.

        Returns:
            The same heads, which know how many of them are kept.
        """
        place = self.place_of(_heads_name(first))
        if place is None or not _is_worth_keeping(segment):
            return segment
        heads = {"buffers": segment.heads.buffers, "sizes": segment.heads.sizes}
        store_value(place, heads)
        return replace(segment, kept=segment.known)

    def body(self, first: int, size: int, wanted: WantedIndexes, heads: Heads) -> BodySegment:
        """The asked indexes of a segment, as far as they are kept.

        Args:
            first: its first row.
            size: how many rows segments have, but for the last one.
            wanted: which indexes.
            heads: those of its files.
        """
        found = self._open(_body_name(first, size, wanted))
        if found is None:
            return BodySegment.none(len(heads))
        payloads = {(column, str(kind)): found[_payloads_name(column, kind)] for column, kind in wanted}
        fetched = found["fetched"] & ~heads.buffers.is_null
        segment = BodySegment(fetched, StackedIndex.of(heads, payloads))
        return replace(segment, kept=segment.known)

    def keep_body(self, first: int, size: int, segment: BodySegment) -> BodySegment:
        """As :meth:`keep_heads`, with indexes that were asked."""
        payloads = segment.index.fetched or {}
        place = self.place_of(_body_name(first, size, payloads))
        if place is None or not _is_worth_keeping(segment):
            return segment
        columns = {_payloads_name(*key): column for key, column in payloads.items()}
        store_value(place, {"fetched": segment.fetched, **columns})
        return replace(segment, kept=segment.known)

    def _open(self, name: str) -> Any:  # noqa: ANN401 - what was kept
        place = self.place_of(name)
        return None if place is None else load_value(place)


def _is_worth_keeping(segment: HeadSegment | BodySegment) -> bool:
    return (segment.known - segment.kept) * _NEW_SHARE > segment.kept


def _heads_name(first: int) -> str:
    return f"heads of index files 1 {first}"


def _body_name(first: int, size: int, wanted: Iterable[tuple[str, str]]) -> str:
    names = sorted((column, str(kind)) for column, kind in wanted)
    return f"indexes of index files 1 {first} {size} {names}"


def _payloads_name(column: str, kind: str) -> str:
    return f"{kind} {column}"
