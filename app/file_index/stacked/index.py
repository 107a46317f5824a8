"""The file indexes of many files that were written with one schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError
from app.file_index.container import Entry, FileIndex, blamed
from app.file_index.index_kinds import KINDS, IndexKind
from app.file_index.keys.keys import key_space
from app.file_index.kind import FileStack
from app.file_index.stacked.heads import Extents, Heads
from app.types import DataType
from app.types.array_memory import own_bytes
from app.types.bytes_column import NULL_LENGTH, BytesColumn

_BYTES_OF_FILE: Final = 100
"""About what the arrays of one stack hold for each file, apart from keys."""


@dataclass(frozen=True, eq=False)
class OpenedStack:
    """The indexes of one kind on one column.

    Attributes:
        stack: what answers; None if no file can have such an index on a column of this type, or the kind
            has no form over many files.
        sound: bool, shape (m,): which files have an index that can be asked.
        broken: bool, shape (m,): which have one that is broken.
    """

    stack: FileStack | None
    sound: NDArray[np.bool_]
    broken: NDArray[np.bool_]

    @cached_property
    def is_whole(self) -> bool:
        """Whether every file has an index that can be asked."""
        return bool(self.sound.all())


@dataclass(frozen=True, eq=False)
class StackedIndex:
    """The indexes of m files, opened by column and kind when they are first asked for.

    Threads may share one: what they open at the same time is equal, and one of the copies stays.

    Attributes:
        heads: the heads of the files' containers.
        fetched: payloads by column and kind, each a column of m; None if the heads stand in whole containers.
    """

    heads: Heads
    fetched: Mapping[tuple[str, str], BytesColumn] | None = None
    _extents: dict[tuple[str, str], Extents] = field(default_factory=dict, repr=False)
    _opened: dict[tuple[str, IndexKind, DataType], OpenedStack] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, containers: BytesColumn) -> Self:
        """The indexes in whole containers; null where a file has none."""
        return cls(Heads.read(containers))

    @classmethod
    def of(cls, heads: Heads, payloads: Mapping[tuple[str, str], BytesColumn]) -> Self:
        """The indexes of which there are payloads; the others are as if the files had none.

        Args:
            heads: of m containers.
            payloads: by column and kind, each a column of m; null where nothing was fetched.
        """
        return cls(heads, payloads)

    def __len__(self) -> int:
        return len(self.heads)

    @property
    def nbytes(self) -> int:
        """About how much memory this takes at most once everything is open, shared buffers included."""
        columns = [self.heads.buffers, *({} if self.fetched is None else self.fetched).values()]
        shared = {id(column.data): own_bytes(column.data) for column in columns}
        return self.own_nbytes + sum(shared.values())

    @cached_property
    def own_nbytes(self) -> int:
        """As :attr:`nbytes`, without the buffers of the containers and payloads."""
        held = 0
        for column in self.heads.columns:
            for kind in self.heads.kinds(column):
                lengths = self.extents(column, kind).lengths[self._held(column, kind)]
                of_payload = KINDS[kind].directory_bytes if kind in KINDS else 0
                held += _BYTES_OF_FILE * len(self) + of_payload * int(lengths.sum())
        return held + self.heads.nbytes

    def extents(self, column: str, kind: str) -> Extents:
        """Where the indexes of one kind on one column lie."""
        found = self._extents.get((column, kind))
        if found is None:
            found = self._extents[column, kind] = self.heads.extents(column, kind)
        return found

    def open(self, column: str, kind: IndexKind, data_type: DataType) -> OpenedStack:
        """The indexes of one kind on a column of some type; which of them are broken it tells itself."""
        key = (column, kind, data_type)
        found = self._opened.get(key)
        if found is None:
            found = self._opened[key] = self._open(column, kind, data_type)
        return found

    def error(self, column: str, kind: IndexKind, data_type: DataType, file: int) -> CorruptIndexError:
        """What is wrong with an index that is broken, as the reader of the one file says it."""
        entry = self.entry(column, kind, file)
        try:
            self.file_index(file).open(entry, kind, data_type)
        except CorruptIndexError as error:
            return blamed(entry, error)
        return blamed(entry, CorruptIndexError("expected every value once, and in order where so stored"))

    def entry(self, column: str, kind: str, file: int) -> Entry:
        """The index of one kind on a column, of a file that has it."""
        return next(entry for entry in self.heads.entries(file)[column] if entry.kind == kind)

    def file_index(self, file: int) -> FileIndex:
        """The indexes of one file, for questions about its rows.

        Raises:
            CorruptIndexError: the head of the container is broken.
        """
        if file in self.heads.broken:
            raise self.heads.broken[file]
        entries, size = self.heads.entries(file), int(self.heads.sizes[file])
        container = self.heads.buffers.view(file)
        payloads: dict[Entry, memoryview] = {}
        for entry in (each for listed in entries.values() for each in listed if each.lies_within(size)):
            if self.fetched is None:
                view = None if container is None else container[entry.start : entry.end]
            else:
                column = self.fetched.get((entry.column, entry.kind))
                view = None if column is None else column.view(file)
            if view is not None:
                payloads[entry] = view
        return FileIndex.of(size, entries, payloads)

    def _open(self, column: str, kind: IndexKind, data_type: DataType) -> OpenedStack:
        extents, payloads = self.extents(column, kind), self._payloads(column, kind)
        outside = extents.present & ~extents.empty & ~extents.within(self.heads.sizes)
        held = ~payloads.is_null
        space = key_space(data_type)
        if space is None or not kind.takes(data_type):
            return OpenedStack(None, np.zeros(len(self), bool), outside | held)
        stack = kind.stack(payloads, space)
        if stack is None:
            return OpenedStack(None, np.zeros(len(self), bool), outside)
        broken = stack.broken
        return OpenedStack(stack, held & ~broken, outside | broken)

    def _payloads(self, column: str, kind: str) -> BytesColumn:
        """The payloads that are at hand; null for the other files."""
        held = self._held(column, kind)
        if self.fetched is None:
            extents, buffers = self.extents(column, kind), self.heads.buffers
            data, starts, lengths = buffers.data, buffers.starts + extents.starts, extents.lengths
        else:
            fetched = self.fetched.get((column, kind)) or BytesColumn.of([None] * len(self))
            data, starts, lengths = fetched.data, fetched.starts, fetched.lengths
        return BytesColumn(data, np.where(held, starts, 0), np.where(held, lengths, NULL_LENGTH))

    def _held(self, column: str, kind: str) -> NDArray[np.bool_]:
        """Which files have a payload that is at hand, shape (m,)."""
        within = self.extents(column, kind).within(self.heads.sizes)
        if self.fetched is None:
            return within
        fetched = self.fetched.get((column, kind))
        return np.zeros(len(self), bool) if fetched is None else within & ~fetched.is_null
