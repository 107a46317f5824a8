"""The file indexes of many files that were written with one schema.

The heads of a table's files are nearly always equal except for the places of the payloads. So one head is
parsed, and all others are compared with it, eight bytes at a time, under a mask that ignores the places. The
first head that differs is parsed next, and the others that differ are compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError
from app.file_index.container import (
    EMPTY_START,
    EXTENT,
    FIXED_HEAD_BYTES,
    ContainerEntry,
    HeadLayout,
)
from app.file_index.index_kinds import KINDS, IndexKind, open_payload
from app.file_index.keys.keys import key_space
from app.file_index.kind import FileStack
from app.file_index.payloads import Cursors, words
from app.types import NULL_LENGTH, BytesColumn, DataType, own_bytes
from app.types.roaring import Buffer

_MAX_TEMPLATES: Final = 64
_HEAD_LENGTH_AT: Final = 12
_WORD: Final = 8


@dataclass(frozen=True, eq=False)
class Extents:
    """Places of one kind's indexes on one column in m containers, shape (m,). 0 without an index."""

    present: NDArray[np.bool_]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @cached_property
    def empty(self) -> NDArray[np.bool_]:
        """Files that have an empty entry, shape (m,)."""
        empty: NDArray[np.bool_] = (self.starts == EMPTY_START) & (self.lengths == 0)
        return empty & self.present

    def within(self, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return files whose payload is inside a container of ``sizes`` bytes, shape (m,)."""
        inside: NDArray[np.bool_] = (self.starts >= FIXED_HEAD_BYTES) & (self.starts + self.lengths <= sizes)
        return self.present & inside & (self.lengths >= 0)


@dataclass(frozen=True, eq=False)
class Heads:
    """Container heads of m files.

    Attributes:
        buffers: whole containers, or prefixes that hold at least the head. Null for a file without one.
        sizes: int64, shape (m,): bytes of the whole containers.
        layouts: the distinct layouts of the heads.
        layout_of: int32, shape (m,): position in ``layouts``; -1 for a file without a sound container.
        broken: errors of heads that cannot be read, by position of the file.
    """

    buffers: BytesColumn
    sizes: NDArray[np.int64]
    layouts: tuple[HeadLayout, ...]
    layout_of: NDArray[np.int32]
    broken: Mapping[int, CorruptIndexError]

    @classmethod
    def read(cls, buffers: BytesColumn, sizes: NDArray[np.int64] | None = None) -> Self:
        """Read the heads of whole containers, or of prefixes with the ``sizes`` of the containers."""
        layouts: dict[HeadLayout, int] = {}
        layout_of = np.full(len(buffers), -1, np.int32)
        broken: dict[int, CorruptIndexError] = {}
        pending = np.flatnonzero(~buffers.is_null)
        lengths = _head_lengths(buffers)
        # Tables have few layouts. The bound limits the passes over all files that hostile heads, each of a
        # layout of its own, can cause.
        for _ in range(_MAX_TEMPLATES):
            if not len(pending):
                break
            first = int(pending[0])
            same = pending == first
            try:
                layout = _layout(buffers, first)
            except CorruptIndexError as error:
                broken[first] = error
            else:
                if len(pending) > 1:
                    same |= _has_layout(buffers, lengths, pending, first, layout)
                layout_of[pending[same]] = layouts.setdefault(layout, len(layouts))
            pending = pending[~same]
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
        arrays: tuple[NDArray[Any], ...] = (
            self.layout_of,
            self.sizes,
            self.buffers.starts,
            self.buffers.lengths,
        )
        return sum(map(own_bytes, arrays))

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that some file has an index for."""
        return tuple(self._places)

    def kinds(self, column: str) -> tuple[str, ...]:
        """Return every kind of index that some file has on a column, including unknown kinds."""
        return tuple(self._places.get(column, ()))

    @property
    def listed(self) -> list[tuple[str, str]]:
        """Every pair of column and kind that some file has, including unknown kinds."""
        return [(column, kind) for column, kinds in self._places.items() for kind in kinds]

    def extents(self, column: str, kind: str) -> Extents:
        """Read the places of the indexes of one kind on one column."""
        at_of_layout = np.full(len(self.layouts) + 1, -1)
        for layout, place in self._places.get(column, {}).get(kind, ()):
            at_of_layout[layout] = place
        at = at_of_layout[self.layout_of]
        cursors = Cursors.of(self.buffers)
        cursors.expect(at >= 0, "an index")
        cursors.skip(at, "head")
        starts, lengths = cursors.i32("start"), cursors.i32("length")
        return Extents(cursors.sound, starts, lengths)

    def entries(self, file: int) -> dict[str, tuple[ContainerEntry, ...]]:
        """Return the indexes of one file by column, empty if its container is missing or broken."""
        layout, view = int(self.layout_of[file]), self.buffers.view(file)
        return {} if layout < 0 or view is None else self.layouts[layout].entries(view)

    @cached_property
    def _places(self) -> dict[str, dict[str, list[tuple[int, int]]]]:
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
    """Read the head length of each container, shape (m,). 0 if it is missing or impossible."""
    cursors = Cursors.of(buffers)
    cursors.skip(_HEAD_LENGTH_AT, "head")
    lengths = cursors.i32("head length")
    return np.where(cursors.sound & (lengths >= FIXED_HEAD_BYTES) & (lengths <= buffers.lengths), lengths, 0)


def _has_layout(
    buffers: BytesColumn, lengths: NDArray[np.int64], files: NDArray[np.int64], model: int, layout: HeadLayout
) -> NDArray[np.bool_]:
    """Return which of ``files`` have a head like that of ``model``, except for the places of payloads."""
    compared = np.full(layout.length, 0xFF, np.uint8)
    for _, kinds in layout.columns:
        for _, at in kinds:
            compared[at : at + EXTENT.size] = 0
    # The last word overlaps the one before it, so that nothing after the head is compared.
    offsets = np.append(np.arange(0, layout.length - _WORD, _WORD), layout.length - _WORD)
    masks, expected = words(compared, offsets), words(buffers.data, buffers.starts[model] + offsets)
    candidates = np.flatnonzero(lengths[files] == layout.length)
    for offset, mask, word in zip(offsets, masks, expected, strict=True):
        if mask:
            heads = words(buffers.data, buffers.starts[files[candidates]] + offset)
            candidates = candidates[(heads ^ word) & mask == 0]
    same = np.zeros(len(files), bool)
    same[candidates] = True
    return same


_BYTES_OF_EXTENTS: Final = 20
"""Maximum bytes that one :class:`Extents`, or one :class:`OpenedStack` without its stack, holds per file."""
_BYTES_OF_FILE: Final = 100
"""Approximate bytes that the arrays of one stack hold for each file, apart from keys."""


@dataclass(frozen=True, eq=False)
class OpenedStack:
    """One kind's indexes on a column. ``stack`` is None if the kind does not take its type. Masks: (m,)."""

    stack: FileStack[Any] | None
    sound: NDArray[np.bool_]
    broken: NDArray[np.bool_]

    @cached_property
    def is_whole(self) -> bool:
        """True if every file has an index that can be evaluated."""
        return bool(self.sound.all())


@dataclass(frozen=True, eq=False)
class StackedIndex:
    """The indexes of m files, opened by column and kind on first use."""

    heads: Heads
    # Payloads by column and kind, m each. None if the buffers of the heads are whole containers.
    fetched: Mapping[tuple[str, str], BytesColumn] | None = None
    _extents: dict[tuple[str, str], Extents] = field(default_factory=dict, repr=False)
    _opened: dict[tuple[str, IndexKind, DataType], OpenedStack] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, containers: BytesColumn) -> Self:
        """Read the indexes in whole containers, null for a file without one."""
        return cls(Heads.read(containers))

    def __len__(self) -> int:
        return len(self.heads)

    @property
    def nbytes(self) -> int:
        """Upper estimate of the memory once every index is open, shared buffers included."""
        columns = [self.heads.buffers, *({} if self.fetched is None else self.fetched).values()]
        shared = {id(column.data): own_bytes(column.data) for column in columns}
        return self.own_nbytes + sum(shared.values())

    @cached_property
    def own_nbytes(self) -> int:
        """Upper estimate of the memory without the buffers of containers and payloads."""
        size = 0
        for column in self.heads.columns:
            for kind in self.heads.kinds(column):
                lengths = self.extents(column, kind).lengths[self._has_payload(column, kind)]
                of_payload = KINDS[kind].directory_bytes if kind in KINDS else 0
                size += _BYTES_OF_FILE * len(self) + of_payload * int(lengths.sum())
        return size + self.heads.nbytes

    @property
    def opened_nbytes(self) -> int:
        """Estimate of the memory of heads and open indexes, without buffers of containers and payloads."""
        stacks = [opened.stack.nbytes for opened in list(self._opened.values()) if opened.stack is not None]
        columns = len(self._extents) + len(self._opened)
        return self.heads.nbytes + _BYTES_OF_EXTENTS * len(self) * columns + sum(stacks)

    def extents(self, column: str, kind: str) -> Extents:
        """Return places of the indexes of one kind on one column."""
        extents = self._extents.get((column, kind))
        if extents is None:
            extents = self._extents[column, kind] = self.heads.extents(column, kind)
        return extents

    def open(self, column: str, kind: IndexKind, data_type: DataType) -> OpenedStack:
        """Open the indexes of one kind on a column. The result marks the broken ones."""
        key = (column, kind, data_type)
        opened = self._opened.get(key)
        if opened is None:
            # Threads need no lock: two that open at once make equal stacks, and one of them stays.
            opened = self._opened[key] = self._open(column, kind, data_type)
        return opened

    def error(self, column: str, kind: IndexKind, data_type: DataType, file: int) -> CorruptIndexError:
        """Read a broken index once more and return its error."""
        try:
            open_payload(kind, self.payload(self.entry(column, kind, file), file), data_type)
        except CorruptIndexError as error:
            return error
        raise AssertionError(f"the {kind} index of {column} was broken")

    def entry(self, column: str, kind: str, file: int) -> ContainerEntry:
        """Return a file's entry of one kind on a column. The file must have it."""
        return next(entry for entry in self.heads.entries(file)[column] if entry.kind == kind)

    def payload(self, entry: ContainerEntry, file: int) -> memoryview:
        """Return the bytes of a non-empty index. Raises CorruptIndexError if they are outside the file."""
        size = int(self.heads.sizes[file])
        payload = None
        if entry.lies_within(size):
            payload = self._payloads(entry.column, entry.kind).view(file)
        if payload is None:
            raise CorruptIndexError(
                f"expected a payload within {size} bytes, found {entry.length} at {entry.start}"
            )
        return payload

    def file_index(self, file: int) -> FileIndex:
        """Return the indexes of one file. Raises CorruptIndexError if the head of the container is broken."""
        if file in self.heads.broken:
            raise self.heads.broken[file]
        return FileIndex(self, file)

    def _open(self, column: str, kind: IndexKind, data_type: DataType) -> OpenedStack:
        extents, payloads = self.extents(column, kind), self._payloads(column, kind)
        outside = extents.present & ~extents.empty & ~extents.within(self.heads.sizes)
        has_payload = ~payloads.is_null
        space = key_space(data_type)
        if space is None or not kind.takes(data_type):
            return OpenedStack(None, np.zeros(len(self), bool), outside | has_payload)
        stack = kind.stack(payloads, space)
        return OpenedStack(stack, has_payload & ~stack.broken, outside | stack.broken)

    def _payloads(self, column: str, kind: str) -> BytesColumn:
        has_payload = self._has_payload(column, kind)
        if self.fetched is None:
            extents, buffers = self.extents(column, kind), self.heads.buffers
            data, starts, lengths = buffers.data, buffers.starts + extents.starts, extents.lengths
        else:
            fetched = self.fetched.get((column, kind)) or BytesColumn.of([None] * len(self))
            data, starts, lengths = fetched.data, fetched.starts, fetched.lengths
        return BytesColumn(
            data, np.where(has_payload, starts, 0), np.where(has_payload, lengths, NULL_LENGTH)
        )

    def _has_payload(self, column: str, kind: str) -> NDArray[np.bool_]:
        within = self.extents(column, kind).within(self.heads.sizes)
        if self.fetched is None:
            return within
        fetched = self.fetched.get((column, kind))
        return np.zeros(len(self), bool) if fetched is None else within & ~fetched.is_null


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The indexes of one file of a stack. The file's head is sound."""

    stacked: StackedIndex
    file: int

    @classmethod
    def read(cls, content: Buffer) -> Self:
        """Read a whole container. Raises CorruptIndexError if its head is broken or not of version 1."""
        return cls(StackedIndex.read(BytesColumn.of([content])).file_index(0).stacked, 0)

    @property
    def size(self) -> int:
        """Bytes of the whole container."""
        return int(self.stacked.heads.sizes[self.file])

    @property
    def entries(self) -> dict[str, tuple[ContainerEntry, ...]]:
        """The indexes of each column."""
        return self.stacked.heads.entries(self.file)

    def payload(self, entry: ContainerEntry) -> memoryview:
        """Return the bytes of a non-empty index. Raises CorruptIndexError if they are outside the file."""
        return self.stacked.payload(entry, self.file)

    def open(self, entry: ContainerEntry, kind: IndexKind, data_type: DataType) -> Any:
        """Open a non-empty index. Raises CorruptIndexError if it is broken, or does not fit the type."""
        opened = self.stacked.open(entry.column, kind, data_type)
        if opened.stack is None or not opened.sound[self.file]:
            raise self.stacked.error(entry.column, kind, data_type, self.file)
        return opened.stack.of_file(self.file)
