"""Where the next new keys of one partition go, worked out before anything is changed.

New keys fill buckets one after the other, so their buckets are *runs*; once no bucket has room and none may
be created, each of the keys that remain goes to a bucket of its own choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.bucket_index.assignments import NUMBERS, Strategy


class Run(NamedTuple):
    """Keys that go to one bucket in a row.

    Attributes:
        bucket: where they go.
        keys: how many, at least 1.
        opens: whether the first of them creates the bucket.
    """

    bucket: int
    keys: int
    opens: bool


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where some new keys go.

    Attributes:
        runs: the first of them.
        chosen: the buckets of the others, one each.
        permitted: the buckets that ``chosen`` was chosen from, ascending.
    """

    runs: Sequence[Run]
    chosen: NDArray[np.int16]
    permitted: tuple[int, ...]

    def __len__(self) -> int:
        """The number of keys that have a place."""
        return sum(run.keys for run in self.runs) + len(self.chosen)

    def buckets(self) -> NDArray[np.int16]:
        """The bucket of each key."""
        in_runs = np.repeat([run.bucket for run in self.runs], [run.keys for run in self.runs])
        return np.concatenate((in_runs.astype(np.int16), self.chosen))

    def strategies(self) -> NDArray[np.uint8]:
        """The number of each key's strategy."""
        numbers = np.full(len(self), NUMBERS[Strategy.NON_FULL], np.uint8)
        at = 0
        for run in self.runs:
            if run.opens:
                numbers[at] = NUMBERS[Strategy.NEW]
            at += run.keys
        numbers[at:] = NUMBERS[Strategy.RANDOM]
        return numbers
