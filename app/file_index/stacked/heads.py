"""The heads of many containers.

The heads of a table's files are nearly always the same bytes but for the places of the payloads. So the head
of one file is parsed, and all others are compared with it, eight bytes at a time, under a mask that lets the
places differ; what is left is tried with the next head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError
from app.file_index.container import EMPTY_START, EXTENT, FIXED_HEAD_BYTES, Entry, HeadLayout
from app.file_index.payloads.cursors import Cursors, words
from app.types.bytes_column import BytesColumn

_MAX_TEMPLATES: Final = 64
_HEAD_LENGTH_AT: Final = 12
_WORD: Final = 8


@dataclass(frozen=True, eq=False)
class Extents:
    """Where the indexes of one kind on one column lie in m containers.

    Attributes:
        present: bool, shape (m,): whether the file has such an index.
        starts: int64, shape (m,): its offset in the container; 0 where there is none.
        lengths: int64, shape (m,): its bytes; 0 where there is none.
    """

    present: NDArray[np.bool_]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @cached_property
    def empty(self) -> NDArray[np.bool_]:
        """Which files have an empty entry, shape (m,)."""
        found: NDArray[np.bool_] = (self.starts == EMPTY_START) & (self.lengths == 0)
        return found & self.present

    def within(self, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which files have a payload, and one that lies inside of a container of ``sizes`` bytes."""
        inside: NDArray[np.bool_] = (self.starts >= FIXED_HEAD_BYTES) & (self.starts + self.lengths <= sizes)
        return self.present & inside & (self.lengths >= 0)


@dataclass(frozen=True, eq=False)
class Heads:
    """Container heads of m files.

    Attributes:
        buffers: whole containers, or prefixes that hold at least the head; null where a file has none.
        sizes: int64, shape (m,): bytes of the whole containers.
        layouts: the distinct layouts of the heads.
        layout_of: int32, shape (m,): position in ``layouts``; -1 where a file has no container, or
            a broken one.
        broken: what is wrong with heads that cannot be read, by position of the file.
    """

    buffers: BytesColumn
    sizes: NDArray[np.int64]
    layouts: tuple[HeadLayout, ...]
    layout_of: NDArray[np.int32]
    broken: Mapping[int, CorruptIndexError]

    @classmethod
    def read(cls, buffers: BytesColumn, sizes: NDArray[np.int64] | None = None) -> Self:
        """Reads the heads.

        Args:
            buffers: whole containers, or prefixes that hold at least the head.
            sizes: bytes of the whole containers, if these are prefixes.
        """
        layouts: dict[HeadLayout, int] = {}
        layout_of = np.full(len(buffers), -1, np.int32)
        broken: dict[int, CorruptIndexError] = {}
        pending = np.flatnonzero(~buffers.is_null)
        lengths = _head_lengths(buffers)
        for _ in range(_MAX_TEMPLATES):
            if not len(pending):
                break
            first = int(pending[0])
            alike = pending == first
            try:
                layout = _layout(buffers, first)
            except CorruptIndexError as error:
                broken[first] = error
            else:
                alike |= _alike(buffers, lengths, pending, first, layout)
                layout_of[pending[alike]] = layouts.setdefault(layout, len(layouts))
            pending = pending[~alike]
        for file in pending.tolist():
            try:
                layout_of[file] = layouts.setdefault(_layout(buffers, file), len(layouts))
            except CorruptIndexError as error:
                broken[file] = error
        return cls(buffers, buffers.lengths if sizes is None else sizes, tuple(layouts), layout_of, broken)

    def __len__(self) -> int:
        return len(self.layout_of)

    @property
    def nbytes(self) -> int:
        """Bytes of memory without the buffers."""
        return (
            self.layout_of.nbytes
            + self.sizes.nbytes
            + self.buffers.starts.nbytes
            + self.buffers.lengths.nbytes
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that a file has an index for."""
        return tuple(self._places)

    def kinds(self, column: str) -> tuple[str, ...]:
        """Every kind of index that a file has on a column, also kinds that nobody here knows."""
        return tuple(self._places.get(column, ()))

    def extents(self, column: str, kind: str) -> Extents:
        """Where the indexes of one kind on one column lie."""
        at_of_layout = np.full(len(self.layouts) + 1, -1)
        for layout, place in self._places.get(column, {}).get(kind, ()):
            at_of_layout[layout] = place
        at = at_of_layout[self.layout_of]
        cursors = Cursors.of(self.buffers)
        cursors.expect(at >= 0)
        cursors.skip(at)
        starts, lengths = cursors.i32(), cursors.i32()
        return Extents(cursors.sound, starts, lengths)

    def entries(self, file: int) -> dict[str, tuple[Entry, ...]]:
        """The indexes of one file; none where it has no container, or a broken one."""
        layout, view = int(self.layout_of[file]), self.buffers.view(file)
        return {} if layout < 0 or view is None else self.layouts[layout].entries(view)

    @cached_property
    def _places(self) -> dict[str, dict[str, list[tuple[int, int]]]]:
        """By column and kind: the layouts that list it, with the offset of its ``start`` in the head."""
        places: dict[str, dict[str, list[tuple[int, int]]]] = {}
        for layout, listed in enumerate(self.layouts):
            for column, kinds in listed.columns:
                of_column = places.setdefault(column, {})
                for kind, at in kinds:
                    of_column.setdefault(kind, []).append((layout, at))
        return places


def _layout(buffers: BytesColumn, file: int) -> HeadLayout:
    return HeadLayout.read(buffers.view(file) or memoryview(b""))


def _head_lengths(buffers: BytesColumn) -> NDArray[np.int64]:
    """What each container says of the length of its head, shape (m,); 0 where it cannot be that."""
    cursors = Cursors.of(buffers)
    cursors.skip(_HEAD_LENGTH_AT)
    lengths = cursors.i32()
    return np.where(cursors.sound & (lengths >= FIXED_HEAD_BYTES) & (lengths <= buffers.lengths), lengths, 0)


def _alike(
    buffers: BytesColumn,
    lengths: NDArray[np.int64],
    files: NDArray[np.int64],
    model: int,
    layout: HeadLayout,
) -> NDArray[np.bool_]:
    """Which of ``files`` have the head of ``model`` but for the places of payloads, shape (len(files),)."""
    compared = np.full(layout.length, 0xFF, np.uint8)
    for _, kinds in layout.columns:
        for _, at in kinds:
            compared[at : at + EXTENT.size] = 0
    # The last word overlaps the one before it, so that nothing behind the head is compared.
    offsets = np.append(np.arange(0, layout.length - _WORD, _WORD), layout.length - _WORD)
    masks, expected = words(compared, offsets), words(buffers.data, buffers.starts[model] + offsets)
    left = np.flatnonzero(lengths[files] == layout.length)
    for offset, mask, word in zip(offsets, masks, expected, strict=True):
        if mask:
            found = words(buffers.data, buffers.starts[files[left]] + offset)
            left = left[(found ^ word) & mask == 0]
    alike = np.zeros(len(files), bool)
    alike[left] = True
    return alike
