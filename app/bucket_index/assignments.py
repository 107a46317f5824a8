"""Where the keys of a batch go, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.bucket_index.key_batch import KeyBatch


class Strategy(StrEnum):
    """The step that decided; see :mod:`app.bucket_index.assigner`."""

    EXISTING = "existing"
    NON_FULL = "non_full"
    NEW = "new"
    RANDOM = "random"


STRATEGIES: Final = tuple(Strategy)
"""Strategies by the number that stands for each in arrays."""

NUMBERS: Final = {strategy: number for number, strategy in enumerate(STRATEGIES)}
"""The number of each strategy."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where one key goes.

    Attributes:
        permitted: the buckets that a writer could as well have chosen, ascending; only for RANDOM.
    """

    bucket: int
    strategy: Strategy
    permitted: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Assignments:
    """Where the keys of a batch go.

    Attributes:
        batch: the keys.
        buckets: of each key, int32.
        strategies: of each key, the number of its strategy.
        permitted: by partition, the buckets that its RANDOM keys could choose from, ascending.
    """

    batch: KeyBatch
    buckets: NDArray[np.int32]
    strategies: NDArray[np.uint8]
    permitted: Mapping[bytes, tuple[int, ...]]

    def tolist(self) -> list[Assignment]:
        """One object per key."""
        keys = zip(self.batch.codes.tolist(), self.buckets.tolist(), self.strategies.tolist(), strict=True)
        return [
            Assignment(
                bucket,
                STRATEGIES[number],
                self.permitted[self.batch.partitions[code]] if number == NUMBERS[Strategy.RANDOM] else None,
            )
            for code, bucket, number in keys
        ]
