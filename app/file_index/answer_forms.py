"""The two forms of what an evaluation finds of many files: whether they have matching rows, and which.

Both are arrays with an answer for each file; an evaluation combines them alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from app.errors import CorruptIndexError
from app.file_index.answers import file_answers, result
from app.file_index.answers.conditions import SHORT_LIST, Condition, OutOfTime, Points
from app.file_index.answers.file_answers import Answer, Answers
from app.file_index.answers.result import KEEP, SKIP
from app.file_index.answers.row_index import all_rows, select
from app.file_index.index_kinds import IndexKind
from app.file_index.kind import FileStack

AnswerArray: TypeAlias = "NDArray[Any]"
"""An answer for each file, shape (k,)."""

Combine: TypeAlias = Callable[[AnswerArray, AnswerArray], AnswerArray]

UNKNOWN_ROW_COUNT = -1


@dataclass(frozen=True, slots=True)
class AnswerForm(ABC):
    """A form of answers; ``unasked``: time ran out before a long list of values."""

    out_of_time: OutOfTime

    dtype: ClassVar[type]
    keep: ClassVar[Any]
    skip: ClassVar[Any]
    unasked: ClassVar[Any]

    def everywhere(self, answer: Any, count: int) -> AnswerArray:
        """The same answer about ``count`` files."""
        return np.full(count, answer, self.dtype)

    @abstractmethod
    def everything(self, row_counts: NDArray[np.int64]) -> AnswerArray:
        """All rows of files of so many, -1 where that is not known."""

    @abstractmethod
    def both(self, left: AnswerArray, right: AnswerArray) -> AnswerArray:
        """The answers to ``left AND right``."""

    @abstractmethod
    def either(self, left: AnswerArray, right: AnswerArray) -> AnswerArray:
        """The answers to ``left OR right``."""

    @abstractmethod
    def ask(
        self, stack: FileStack[Any], kind: IndexKind, condition: Condition, files: NDArray[np.int64]
    ) -> tuple[AnswerArray, dict[int, CorruptIndexError]]:
        """What sound indexes say of files; and, by position among these, what is wrong with their bitmaps."""

    @abstractmethod
    def codes(self, answers: AnswerArray) -> Answers:
        """Whether files have matching rows, as far as the answers tell."""


class Whether(AnswerForm):
    """Codes of :class:`Answer`, int8: many files are asked at once."""

    __slots__ = ()

    dtype = np.int8
    keep = Answer.KEEP
    skip = Answer.SKIP
    unasked = Answer.UNASKED

    @override
    def both(self, left: AnswerArray, right: AnswerArray) -> AnswerArray:
        return file_answers.both(left, right)

    @override
    def either(self, left: AnswerArray, right: AnswerArray) -> AnswerArray:
        return file_answers.either(left, right)

    @override
    def everything(self, row_counts: NDArray[np.int64]) -> AnswerArray:
        answers = file_answers.where(row_counts > 0, Answer.ROWS)
        answers[row_counts == UNKNOWN_ROW_COUNT] = Answer.KEEP
        return answers

    @override
    def ask(
        self, stack: FileStack[Any], kind: IndexKind, condition: Condition, files: NDArray[np.int64]
    ) -> tuple[AnswerArray, dict[int, CorruptIndexError]]:
        return stack.answers(condition, files, self.out_of_time), {}

    @override
    def codes(self, answers: AnswerArray) -> Answers:
        return answers


_both: Combine = np.vectorize(result.both, [object])
_either: Combine = np.vectorize(result.either, [object])
_DECISIONS = np.array([SKIP, KEEP, KEEP, KEEP, None], object)
"""By code; a kind that tells no rows has no others than these."""


class WhichRows(AnswerForm):
    """Objects of :data:`Result`: the index of each file is looked into."""

    __slots__ = ()

    dtype = object
    keep = KEEP
    skip = SKIP
    unasked = None

    @override
    def both(self, left: AnswerArray, right: AnswerArray) -> AnswerArray:
        return _both(left, right)

    @override
    def either(self, left: AnswerArray, right: AnswerArray) -> AnswerArray:
        return _either(left, right)

    @override
    def everything(self, row_counts: NDArray[np.int64]) -> AnswerArray:
        answers = self.everywhere(KEEP, len(row_counts))
        for at in np.flatnonzero(row_counts != UNKNOWN_ROW_COUNT).tolist():
            answers[at] = result.rows(all_rows(int(row_counts[at])), exact=True)
        return answers

    @override
    def ask(
        self, stack: FileStack[Any], kind: IndexKind, condition: Condition, files: NDArray[np.int64]
    ) -> tuple[AnswerArray, dict[int, CorruptIndexError]]:
        if not kind.tells_rows:
            decided: AnswerArray = _DECISIONS.take(stack.answers(condition, files, self.out_of_time))
            return decided, {}
        errors: dict[int, CorruptIndexError] = {}
        is_long = isinstance(condition, Points) and len(condition.keys) > SHORT_LIST
        answers = self.everywhere(KEEP, len(files))
        for at, file in enumerate(files.tolist()):
            if is_long and self.out_of_time():
                answers[at:] = self.unasked
                break
            try:
                answers[at] = select(stack.of_file(file), condition)
            except CorruptIndexError as error:
                errors[at] = error
        return answers, errors

    @override
    def codes(self, answers: AnswerArray) -> Answers:
        return np.where(answers == SKIP, Answer.SKIP, np.where(answers == KEEP, Answer.KEEP, Answer.ROWS))
