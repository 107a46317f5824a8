"""Evaluating a predicate with the indexes of many files: which rows of them can match.

Each step is that of :mod:`app.file_index.evaluation`, taken for all files that are still in question. Stacks
select the rows of all files that ask the same (:class:`app.file_index.answers.row_stack.SelectingRows`). A
file whose index a stack does not read, for whatever reason, is left to its own readers, as a whole: they are
the definition, and say what is wrong where something is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

import numpy as np

from app.errors import CorruptIndexError
from app.file_index.answers.result import KEEP, SKIP, Rows, both, either, rows
from app.file_index.answers.row_index import all_rows
from app.file_index.evaluation import evaluate
from app.file_index.index_choice import bounded_on_both_sides, condition_of, is_false_without_values
from app.file_index.index_kinds import KINDS, cost
from app.file_index.stacked.evaluation import UNKNOWN_ROW_COUNT
from app.predicates.model import BoundAnd, BoundLeaf, BoundOr, Constant, Unknown, conjuncts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.file_index.answers.conditions import Condition
    from app.file_index.answers.result import Result
    from app.file_index.answers.trace import Step
    from app.file_index.stacked.joined import JoinedIndexes
    from app.predicates.model import BoundPredicate


_FEW: Final = 8
"""So few files are asked one by one in less time."""


@dataclass(frozen=True, slots=True)
class FileRows:
    """What the indexes of one file say.

    Attributes:
        result: the rows that can match; KEEP where ``error`` is set.
        kind: of the index that was asked last; None if none was.
        error: what is wrong with an index that had to be asked.
    """

    result: Result
    kind: str | None
    error: CorruptIndexError | None = None


def select_rows(
    predicate: BoundPredicate, index: JoinedIndexes, files: NDArray[np.int64], row_counts: NDArray[np.int64]
) -> list[FileRows]:
    """The rows of files that can satisfy a predicate: what ``evaluate`` finds for each of them.

    Args:
        predicate: bound to the schema that the files were written with.
        index: the indexes of these files, and possibly of others.
        files: shape (k,): positions of the files in question, each once.
        row_counts: shape (k,): rows of these files, with which every index must agree; -1 if not known.
    """
    if len(files) <= _FEW:
        counts = zip(files.tolist(), row_counts.tolist(), strict=True)
        return [_by_itself(predicate, index, file, count) for file, count in counts]
    left_over = set(np.flatnonzero(index.broken(files)).tolist())
    selection = _Selection(index, files, row_counts, [KEEP] * len(files), [None] * len(files), left_over)
    at = np.flatnonzero(~np.isin(np.arange(len(files)), list(selection.left_over)))
    answers = selection.answer(predicate, at)
    for place, answer in zip(at.tolist(), answers, strict=True):
        selection.results[place] = answer
    return [
        _by_itself(predicate, index, int(files[place]), int(row_counts[place]))
        if place in selection.left_over
        else FileRows(selection.results[place], selection.kinds[place])
        for place in range(len(files))
    ]


def _by_itself(predicate: BoundPredicate, index: JoinedIndexes, file: int, row_count: int) -> FileRows:
    """What the readers of the one file say."""
    trace: list[Step] = []
    known = None if row_count == UNKNOWN_ROW_COUNT else row_count
    try:
        result = evaluate(predicate, index.file_index(file), row_count=known, trace=trace)
    except CorruptIndexError as error:
        return FileRows(KEEP, None, error)
    kinds = [step.index for step in trace if step.index is not None]
    return FileRows(result, kinds[-1] if kinds else None)


@dataclass(frozen=True, slots=True, eq=False)
class _Selection:
    """What is found out on the way; ``at`` are ascending positions in ``files`` throughout.

    Attributes:
        results: of each file, once all is done.
        kinds: the kind that each file was asked last.
        left_over: files that are left to their own readers.
    """

    index: JoinedIndexes
    files: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    results: list[Result]
    kinds: list[str | None]
    left_over: set[int]

    def answer(self, predicate: BoundPredicate, at: NDArray[np.int64]) -> list[Result]:
        match predicate:
            case BoundLeaf():
                return self._leaf(predicate, at)
            case BoundAnd() | Constant(value=True):
                return self._all_of(conjuncts(predicate), at)
            case BoundOr(children):
                return self._any_of(children, at)
            case Constant():
                return [SKIP] * len(at)
            case Unknown():
                return [KEEP] * len(at)
            case _:
                assert_never(predicate)

    def _all_of(self, parts: tuple[BoundPredicate, ...], at: NDArray[np.int64]) -> list[Result]:
        if not parts:
            counts = self.row_counts[at].tolist()
            return [KEEP if n == UNKNOWN_ROW_COUNT else rows(all_rows(n), exact=True) for n in counts]
        answers = self.answer(parts[0], at)
        for part in parts[1:]:
            left = self._open(at, [answer is not SKIP for answer in answers])
            for place, found in zip(left.tolist(), self.answer(part, at[left]), strict=True):
                answers[place] = both(answers[place], found)
        return answers

    def _any_of(self, parts: tuple[BoundPredicate, ...], at: NDArray[np.int64]) -> list[Result]:
        kept = np.zeros(len(at), bool)
        for column in bounded_on_both_sides(parts):
            for kind in self.index.kinds(column):
                kept |= self.index.extents(column, kind, self.files[at]).empty
        answers: list[Result] = [KEEP if each else SKIP for each in kept.tolist()]
        for part in parts:
            left = self._open(at, (~kept).tolist())
            for place, found in zip(left.tolist(), self.answer(part, at[left]), strict=True):
                answers[place] = either(answers[place], found)
        return answers

    def _leaf(self, leaf: BoundLeaf, at: NDArray[np.int64]) -> list[Result]:
        condition = condition_of(leaf)
        answers: list[Result] = [KEEP] * len(at)
        settled = [False] * len(at)
        for kind in sorted(self.index.kinds(leaf.field.name), key=cost):
            left = self._open(at, [not each for each in settled])
            if not len(left):
                break
            told, found = self._ask(leaf, kind, condition, at[left])
            for place, answer in zip(left[told].tolist(), found, strict=True):
                self.kinds[int(at[place])] = kind
                is_settled = answer is SKIP or (isinstance(answer, Rows) and answer.exact)
                settled[place] = is_settled
                answers[place] = answer if is_settled else both(answers[place], answer)
        return answers

    def _open(self, at: NDArray[np.int64], chosen: list[bool]) -> NDArray[np.int64]:
        """The places of ``at`` that are chosen, without files that are left to their own readers."""
        open_ = np.array(chosen, bool)
        if self.left_over:
            open_ &= ~np.isin(at, list(self.left_over))
        return np.flatnonzero(open_)

    def _ask(
        self, leaf: BoundLeaf, kind: str, condition: Condition | None, at: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], list[Result]]:
        """Which files of ``at`` an index of this kind has an answer about, as positions in it; and these."""
        files = self.files[at]
        extents, known = self.index.extents(leaf.field.name, kind, files), KINDS.get(kind)
        empty = extents.empty
        of_empty: Result = SKIP if is_false_without_values(leaf) else KEEP
        if known is None or condition is None or not known.can_answer(condition):
            told = np.flatnonzero(empty)
            return told, [of_empty] * len(told)
        sound = self.index.are_sound(leaf, known, files, self.row_counts[at])
        # What a plan did not fetch is as if the file had no such index, which its own readers know as well.
        self.left_over.update(at[extents.present & ~empty & ~sound].tolist())
        usable = np.flatnonzero(sound)
        answers: list[Result | None] = [of_empty if each else None for each in empty.tolist()]
        selected = self.index.select(leaf, known, condition, files[usable])
        for place, answer in zip(usable.tolist(), selected, strict=True):
            if answer is None:
                self.left_over.add(int(at[place]))
            answers[place] = answer
        told = np.array([place for place, answer in enumerate(answers) if answer is not None], np.int64)
        return told, [answer for answer in answers if answer is not None]
