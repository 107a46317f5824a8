"""Answers about many files at once, and how they combine.

An answer is :data:`app.file_index.answers.result.Result` for each file, as far as it can be told without
rows. The codes are in an order that makes OR the larger of two answers, and AND the smaller, except that two
sets of rows may have none in common.

=====  =========================================================  ==================
code   what the file answers if it is asked for rows              AND with ``ROWS``
=====  =========================================================  ==================
SKIP   ``SKIP``                                                   SKIP
DOUBT  rows, or ``SKIP`` where there turn out to be none          DOUBT
ROWS   rows                                                       DOUBT
KEEP   ``KEEP``                                                   ROWS
=====  =========================================================  ==================

A stack also says UNASKED of files that there was no time to ask; they are as good as kept.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray


class Answer:
    """What is known about one file; as codes of NumPy, which compares arrays with them fastest."""

    SKIP: Final = np.int8(0)
    DOUBT: Final = np.int8(1)
    ROWS: Final = np.int8(2)
    KEEP: Final = np.int8(3)
    UNASKED: Final = np.int8(4)


Answers: TypeAlias = "NDArray[np.int8]"
"""One code of :class:`Answer` for each file."""


def everywhere(answer: np.int8, count: int) -> Answers:
    """The same answer about ``count`` files."""
    return np.full(count, answer, np.int8)


def where(holds: NDArray[np.bool_], answer: np.int8) -> Answers:
    """``answer`` where ``holds`` is true, and SKIP elsewhere."""
    return np.where(holds, answer, Answer.SKIP)


def both(left: Answers, right: Answers) -> Answers:
    """The answers to ``left AND right``."""
    joined = np.minimum(left, right)
    joined[(left == Answer.ROWS) & (right == Answer.ROWS)] = Answer.DOUBT
    return joined


def either(left: Answers, right: Answers) -> Answers:
    """The answers to ``left OR right``."""
    return np.maximum(left, right)
