"""The indexes of files in several stacks, asked for rows as if they were in one.

The files that a filter keeps are spread over many stacks, a few in each, and to ask one more stack for rows
takes as long as fifty more files. So what tells their rows is copied from all stacks to one place first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from app.file_index.answers.allowance import UNLIMITED
from app.file_index.answers.file_answers import Answer
from app.file_index.answers.result import KEEP, SKIP, rows
from app.file_index.answers.row_stack import SelectingRows
from app.file_index.stacked.heads import Extents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from app.file_index.answers.conditions import Condition
    from app.file_index.answers.result import Result
    from app.file_index.container import FileIndex
    from app.file_index.index_kinds import IndexKind
    from app.file_index.kind import FileStack
    from app.file_index.stacked.index import StackedIndex
    from app.predicates.model import BoundLeaf

_COPIED: Final = 1 << 20
"""Copying so many bytes takes less time than asking one more stack."""
_MOST_COPIED: Final = 64 << 20


@dataclass(frozen=True, eq=False)
class JoinedIndexes:
    """The indexes of k files.

    Attributes:
        parts: stacks, and positions of files in each; the files of a part are behind those of the one before.
    """

    parts: tuple[tuple[StackedIndex, NDArray[np.int64]], ...]

    def kinds(self, column: str) -> tuple[str, ...]:
        """Every kind of index that a file may have on a column, also kinds that nobody here knows."""
        return tuple(dict.fromkeys(kind for index, _ in self.parts for kind in index.heads.kinds(column)))

    def file_index(self, file: int) -> FileIndex:
        """The indexes of one file.

        Raises:
            CorruptIndexError: the head of the container is broken.
        """
        part = int(np.searchsorted(self._ends, file, "right"))
        index, places = self.parts[part]
        return index.file_index(int(places[file - self._first(part)]))

    def broken(self, files: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some files have a container whose head is broken."""
        found = np.zeros(len(files), np.bool_)
        for at, index, places in self._by_part(files):
            if index.heads.broken:
                found[at] = np.isin(places, list(index.heads.broken))
        return found

    def extents(self, column: str, kind: str, files: NDArray[np.int64]) -> Extents:
        """Where the indexes of some files on a column lie, of one kind."""
        present = np.zeros(len(files), np.bool_)
        starts, lengths = np.zeros(len(files), np.int64), np.zeros(len(files), np.int64)
        for at, index, places in self._by_part(files):
            found = index.extents(column, kind)
            present[at] = found.present[places]
            starts[at], lengths[at] = found.starts[places], found.lengths[places]
        return Extents(present, starts, lengths)

    def are_sound(
        self, leaf: BoundLeaf, kind: IndexKind, files: NDArray[np.int64], row_counts: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which of some files have an index of a kind that can be asked.

        Args:
            leaf: about the column.
            kind: of the index.
            files: shape (k,).
            row_counts: shape (k,): rows with which every index must agree; below 0 if not known.
        """
        sound = np.zeros(len(files), np.bool_)
        for at, index, places in self._by_part(files):
            opened = index.open(leaf.field.name, kind, leaf.field.type)
            sound[at] = opened.sound[places]
            if opened.stack is not None and (found := opened.stack.row_counts) is not None:
                counts = row_counts[at]
                sound[at] &= (counts < 0) | (counts == found[places])
        return sound

    def select(
        self, leaf: BoundLeaf, kind: IndexKind, condition: Condition, files: NDArray[np.int64]
    ) -> list[Result | None]:
        """What sound indexes of a kind say of the rows of files.

        Args:
            leaf: what is asked, of a column.
            kind: of the indexes.
            condition: what is asked, as one of keys.
            files: shape (k,).

        Returns:
            The answer about each file; None where its own readers have to be asked.
        """
        found: list[Result | None] = [None] * len(files)
        selecting: list[tuple[NDArray[np.int64], SelectingRows, NDArray[np.int64]]] = []
        size = 0
        for at, index, places in self._by_part(files) if len(files) else ():
            stack = index.open(leaf.field.name, kind, leaf.field.type).stack
            if stack is None:
                continue
            if isinstance(stack, SelectingRows):
                selecting.append((at, stack, places))
                size += int(index.extents(leaf.field.name, kind).lengths[places].sum())
            elif not kind.tells_rows:
                _put(found, at, _held(stack, condition, places))
        are_copied = size <= min(_MOST_COPIED, _COPIED * len(selecting))
        for together in [selecting] if selecting and are_copied else [[each] for each in selecting]:
            parts = [(stack, places) for _, stack, places in together]
            told = type(parts[0][0]).rows(parts, condition)
            at = np.concatenate([at for at, _, _ in together])
            _put(found, at, [None if each is None else rows(each, exact=condition.exact) for each in told])
        return found

    def _by_part(
        self, files: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], StackedIndex, NDArray[np.int64]]]:
        """Some files stack by stack: positions in ``files``, the stack and the files' places in it."""
        if len(self.parts) == 1:
            index, places = self.parts[0]
            yield np.arange(len(files)), index, places[files]
            return
        parts = np.searchsorted(self._ends, files, "right")
        order = np.argsort(parts, kind="stable")
        cuts = np.searchsorted(parts[order], np.arange(len(self.parts) + 1)).tolist()
        for number, (index, places) in enumerate(self.parts):
            at = order[cuts[number] : cuts[number + 1]]
            if len(at):
                yield at, index, places[files[at] - self._first(number)]

    def _first(self, part: int) -> int:
        """The first file of a part."""
        return int(self._ends[part]) - len(self.parts[part][1])

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum([len(places) for _, places in self.parts])


def _held(stack: FileStack, condition: Condition, files: NDArray[np.int64]) -> list[Result]:
    """The answers of a kind that does not know rows."""
    answers = stack.answers(condition, files, UNLIMITED).tolist()
    return [SKIP if each == Answer.SKIP else KEEP for each in answers]


def _put(found: list[Result | None], at: NDArray[np.int64], answers: Sequence[Result | None]) -> None:
    for place, answer in zip(at.tolist(), answers, strict=True):
        found[place] = answer
