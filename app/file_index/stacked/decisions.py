"""What evaluating a predicate with the indexes of many files comes to, and who may watch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from app.file_index.answers.file_answers import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from app.errors import CorruptIndexError
    from app.file_index.answers.file_answers import Answers
    from app.predicates.model import BoundLeaf, Unknown


@dataclass(frozen=True, slots=True, eq=False)
class FileDecisions:
    """What the indexes say about k files.

    Attributes:
        answers: int8, shape (k,): a code of :class:`~app.file_index.answers.file_answers.Answer` for each.
        answered: bool, shape (k,): whether an index said something.
        unasked: bool, shape (k,): whether an index was not asked a list of values, for want of allowance.
        errors: what is wrong with indexes that had to be asked, by position of the file; such files are kept.
        said: what was asked, in order: kind of index, positions among the k files, and an answer for each.
    """

    answers: Answers
    answered: NDArray[np.bool_]
    unasked: NDArray[np.bool_]
    errors: Mapping[int, CorruptIndexError]
    said: Sequence[tuple[str, NDArray[np.int64], Answers]] = ()

    @property
    def skip(self) -> NDArray[np.bool_]:
        """Which files have no matching row, shape (k,)."""
        return np.equal(self.answers, Answer.SKIP)

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Which files the file's own indexes would skip only if they are skipped here, shape (k,)."""
        return np.not_equal(self.answers, Answer.DOUBT)

    @property
    def narrows(self) -> NDArray[np.bool_]:
        """Which files have indexes that know the rows that can match, shape (k,)."""
        return np.isin(self.answers, (Answer.DOUBT, Answer.ROWS))

    def skipped_by(self) -> Iterator[tuple[str | None, NDArray[np.bool_]]]:
        """The files without a matching row, by the kind of index that ruled them out.

        Yields:
            A kind, None where no index did, and which files, shape (k,). Where several kinds had a part in
            it, the last one that ruled a file out, or was asked at all, counts.
        """
        skip = self.skip
        kinds = list(dict.fromkeys(kind for kind, _, _ in self.said))
        if len(kinds) <= 1:
            # Mostly so, and then nothing needs to be told of single files.
            yield (kinds[0] if kinds else None), skip
            return
        codes = {kind: code for code, kind in enumerate(kinds)}
        by = np.full(len(skip), -1, np.int32)
        for wanted in (False, True):
            for kind, at, answers in self.said:
                by[at[answers == Answer.SKIP] if wanted else at] = codes[kind]
        yield None, skip & (by < 0)
        for kind, code in codes.items():
            yield kind, skip & (by == code)


class DecisionTrace(Protocol):
    """Is told what was asked."""

    def __call__(
        self,
        part: BoundLeaf | Unknown,
        column: str | None,
        kind: str | None,
        files: NDArray[np.int64],
        answers: Answers,
    ) -> None:
        """Takes note of the answers of one kind of index about ``files``; no kind: there was none to ask."""
