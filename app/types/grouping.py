"""Rows of columns put together by what they have in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def group_rows(*codes: NDArray[np.integer] | NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Groups rows with equal codes.

    Args:
        codes: one or several columns of numbers or truth values, each of shape (n,).

    Returns:
        The rows of each group, ascending; every row is in one group.
    """
    differing = [each for each in codes if (each != each[:1]).any()]
    if not differing:
        # Nearly always: the files of a table have one schema, and those of a plan one filter.
        return [np.arange(len(codes[0]))] if len(codes[0]) else []
    order = np.lexsort(differing)
    changes = np.zeros(len(order) - 1, np.bool_)
    for each in differing:
        changes |= each[order[1:]] != each[order[:-1]]
    return np.split(order, np.flatnonzero(changes) + 1)
