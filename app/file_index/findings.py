"""Findings of an evaluation: answers about k files, as codes or with rows, and the resulting decisions.

Deciding files takes codes, which a stack gives for many files at once. A file whose rows would have to be
looked up is kept, with the code DOUBT. Finding rows looks into the index of each file. An evaluation uses
one of the two forms throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError
from app.file_index.answers import (
    KEEP,
    SHORT_LIST,
    SKIP,
    Answer,
    Answers,
    Condition,
    OutOfTime,
    Points,
    Rows,
    all_rows,
    both,
    either,
    rows,
    select,
    where,
)
from app.file_index.index_kinds import IndexKind
from app.file_index.kind import FileStack

AnswerArray: TypeAlias = "NDArray[Any]"
"""An answer for each file, shape (k,)."""

UNKNOWN_ROW_COUNT = -1


@dataclass(frozen=True, slots=True)
class _Form:
    """A form of answers about k files."""

    out_of_time: OutOfTime

    dtype: ClassVar[type]

    def everywhere(self, answer: Any, count: int) -> AnswerArray:
        return np.full(count, answer, self.dtype)


class FileAnswers(_Form):
    """Codes of :class:`Answer`, int8."""

    __slots__ = ()

    dtype = np.int8
    keep = Answer.KEEP
    skip = Answer.SKIP
    unevaluated = Answer.UNEVALUATED

    @staticmethod
    def both(left: Answers, right: Answers) -> Answers:
        """Combine the answers to both sides of AND."""
        joined = np.minimum(left, right)
        joined[(left == Answer.ROWS) & (right == Answer.ROWS)] = Answer.DOUBT
        return joined

    @staticmethod
    def either(left: Answers, right: Answers) -> Answers:
        """Combine the answers to both sides of OR."""
        return np.maximum(left, right)

    def everything(self, row_counts: NDArray[np.int64]) -> AnswerArray:
        """Answer with all rows of each file. Shape (k,)."""
        answers: Answers = where(row_counts > 0, Answer.ROWS)
        answers[row_counts == UNKNOWN_ROW_COUNT] = Answer.KEEP
        return answers

    def evaluate(
        self, stack: FileStack[Any], _: IndexKind, condition: Condition, files: NDArray[np.int64]
    ) -> tuple[AnswerArray, dict[int, CorruptIndexError]]:
        """Evaluate a stack for ``files``. A stack reads no bitmaps, so there are no errors."""
        return stack.answers(condition, files, self.out_of_time), {}

    def codes(self, answers: AnswerArray) -> Answers:
        """Return the answers unchanged: they are codes."""
        return answers


# Result of each code. Kinds that find no rows never return DOUBT or ROWS.
_DECISIONS = np.array([SKIP, KEEP, KEEP, KEEP, None], object)


class RowAnswers(_Form):
    """Objects of :data:`~app.file_index.answers.Result`."""

    __slots__ = ()

    dtype = object
    keep = KEEP
    skip = SKIP
    unevaluated = None

    both = staticmethod(np.vectorize(both, [object]))
    either = staticmethod(np.vectorize(either, [object]))

    def everything(self, row_counts: NDArray[np.int64]) -> AnswerArray:
        """Answer with all rows of each file. Shape (k,)."""
        answers = self.everywhere(KEEP, len(row_counts))
        for at in np.flatnonzero(row_counts != UNKNOWN_ROW_COUNT).tolist():
            answers[at] = rows(all_rows(int(row_counts[at])), exact=True)
        return answers

    def evaluate(
        self, stack: FileStack[Any], kind: IndexKind, condition: Condition, files: NDArray[np.int64]
    ) -> tuple[AnswerArray, dict[int, CorruptIndexError]]:
        """Evaluate the index of each of ``files``. Return the answers, and errors of bitmaps by position."""
        if not kind.tells_rows:
            decided: AnswerArray = _DECISIONS.take(stack.answers(condition, files, self.out_of_time))
            return decided, {}
        errors: dict[int, CorruptIndexError] = {}
        is_long = isinstance(condition, Points) and len(condition.keys) > SHORT_LIST
        answers = self.everywhere(KEEP, len(files))
        for at, file in enumerate(files.tolist()):
            if is_long and self.out_of_time():
                answers[at:] = self.unevaluated
                break
            try:
                answers[at] = select(stack.of_file(file), condition)
            except CorruptIndexError as error:
                errors[at] = error
        return answers, errors

    def codes(self, answers: AnswerArray) -> Answers:
        """Convert answers to codes of :class:`Answer`."""
        return np.where(answers == SKIP, Answer.SKIP, np.where(answers == KEEP, Answer.KEEP, Answer.ROWS))


@dataclass(frozen=True, slots=True, eq=False)
class FileDecisions:
    """The indexes' answers about k files.

    Attributes:
        answers: int8, shape (k,): a code of :class:`~app.file_index.answers.Answer` for each file.
        answered: bool, shape (k,): some index had an answer.
        unevaluated: bool, shape (k,): time ran out before all of the filter was evaluated.
        errors: errors of broken indexes, by position of the file in the stack. Such files are kept.
        trace: evaluations in order: kind of index, positions among the k files, and a code for each.
        rows: rows that can match, by position among the k files, only from :func:`find_rows`.
    """

    answers: Answers
    answered: NDArray[np.bool_]
    unevaluated: NDArray[np.bool_]
    errors: Mapping[int, CorruptIndexError]
    trace: Sequence[tuple[str, NDArray[np.int64], Answers]] = ()
    rows: Mapping[int, Rows] = field(default_factory=dict)

    @property
    def skip(self) -> NDArray[np.bool_]:
        """Files without a matching row, shape (k,)."""
        return np.equal(self.answers, Answer.SKIP)

    def skipped_by(self) -> Iterator[tuple[str | None, NDArray[np.bool_]]]:
        """Yield each kind of index (None for no index) with the files that it ruled out, shape (k,)."""
        skip = self.skip
        kinds = list(dict.fromkeys(kind for kind, _, _ in self.trace))
        if len(kinds) <= 1:
            # The common case needs no look at single files.
            yield (kinds[0] if kinds else None), skip
            return
        codes = {kind: code for code, kind in enumerate(kinds)}
        by = np.full(len(skip), -1, np.int32)
        # A skipped file counts for the last kind that ruled it out or, without one, the last evaluated.
        for ruled_out in (False, True):
            for kind, at, answers in self.trace:
                by[at[answers == Answer.SKIP] if ruled_out else at] = codes[kind]
        yield None, skip & (by < 0)
        for kind, code in codes.items():
            yield kind, skip & (by == code)
