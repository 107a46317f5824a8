"""What evaluating a predicate with the indexes of many files comes to, and who may watch it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from app.file_index.stacked.answers import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from app.errors import CorruptIndexError
    from app.file_index.stacked.answers import Answers
    from app.predicates.model import BoundLeaf, Unknown


@dataclass(frozen=True, slots=True, eq=False)
class FileDecisions:
    """What the indexes say about k files.

    Attributes:
        answers: int8, shape (k,): a code of :class:`~app.file_index.stacked.answers.Answer` for each.
        answered: bool, shape (k,): whether an index said something.
        errors: what is wrong with indexes that had to be asked, by position of the file; such files are kept.
    """

    answers: Answers
    answered: NDArray[np.bool_]
    errors: Mapping[int, CorruptIndexError]

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


class Trace(Protocol):
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
