"""The extents of many serialized bitmaps, measured side by side as :mod:`app.types.roaring` measures one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from app.errors import CorruptIndexError
from app.file_index.payloads.cursor import NO_LONGER_WORTH_A_STEP, Cursors, integers, runs_of
from app.types.roaring import (
    BITS_BYTES,
    COOKIE_WITH_RUNS,
    COOKIE_WITHOUT_RUNS,
    FEWEST_WITH_OFFSETS,
    MAX_ARRAY_VALUES,
    MAX_CONTAINERS,
    bitmap_size,
)

_KEY_BYTES = 2
_KEY_AND_CARDINALITY_BYTES = 4
_OFFSET_BYTES = 4
_RUN_BYTES = 4


@dataclass(frozen=True, slots=True, eq=False)
class BitmapHeads:
    """What n bitmaps say before their first container.

    Attributes:
        with_runs: bool, shape (n,): whether containers may be stored as runs.
        containers: int64, shape (n,): number of containers; 0 where there is no bitmap.
        flags_at: int64, shape (n,): where the run flags start, if there are any.
        keys_at: int64, shape (n,): where the keys and cardinalities start.
    """

    with_runs: NDArray[np.bool_]
    containers: NDArray[np.int64]
    flags_at: NDArray[np.int64]
    keys_at: NDArray[np.int64]

    @classmethod
    def read(cls, cursors: Cursors) -> Self:
        """Reads the heads of bitmaps; the cursors end up at the first container, or are not sound."""
        cookies = cursors.u32_le("cookie of a roaring bitmap")
        with_runs = cookies & 0xFFFF == COOKIE_WITH_RUNS
        cursors.expect(
            with_runs | (cookies == COOKIE_WITHOUT_RUNS), "the cookie of a roaring bitmap", cookies
        )
        containers = (cookies >> 16) + 1
        plain = np.flatnonzero(~with_runs)
        counting = cursors.take(plain)
        containers[plain] = counting.u32_le("number of containers")
        counting.expect(containers[plain] <= MAX_CONTAINERS, f"at most {MAX_CONTAINERS} containers")
        cursors.put(plain, counting)
        flags_at = cursors.at
        cursors.skip(np.where(with_runs, (containers + 7) >> 3, 0), "run flags")
        keys_at = cursors.at
        cursors.skip(_KEY_AND_CARDINALITY_BYTES * containers, "keys of containers")
        has_offsets = ~with_runs | (containers >= FEWEST_WITH_OFFSETS)
        cursors.skip(np.where(has_offsets, _OFFSET_BYTES * containers, 0), "offsets of containers")
        return cls(with_runs, np.where(cursors.sound, containers, 0), flags_at, keys_at)

    def cardinalities(
        self, data: NDArray[np.uint8], chosen: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The bitmap that each container of the ``chosen`` bitmaps belongs to, and the values in it."""
        counts = np.where(chosen, self.containers, 0)
        owners, places = runs_of(self.keys_at + _KEY_BYTES, counts, _KEY_AND_CARDINALITY_BYTES)
        return owners, integers(data, places, "<u2") + 1


def skip_bitmaps(cursors: Cursors) -> None:
    """Moves the cursors behind the bitmap that comes next; those that are at none are no longer sound."""
    starts = cursors.at
    heads = BitmapHeads.read(cursors)
    owners, values = heads.cardinalities(cursors.data, ~heads.with_runs)
    cursors.skip(np.bincount(owners, _plain_bytes(values), len(starts)).astype(np.int64), "containers")
    bitmaps, container = np.flatnonzero(cursors.sound & heads.with_runs), 0
    while len(bitmaps) > NO_LONGER_WORTH_A_STEP:
        walking = cursors.take(bitmaps)
        walking.skip(_container_bytes(walking, heads, bitmaps, container), "a container")
        cursors.put(bitmaps, walking)
        container += 1
        bitmaps = bitmaps[walking.sound & (heads.containers[bitmaps] > container)]
    view, left = cursors.data.data, cursors.take(bitmaps)
    for at, bitmap in enumerate(bitmaps.tolist()):
        try:
            left.at[at] = starts[bitmap] + bitmap_size(view[: cursors.ends[bitmap]], int(starts[bitmap]))
        except CorruptIndexError as error:
            left.fail(at, error)
    cursors.put(bitmaps, left)


def _container_bytes(
    walking: Cursors, heads: BitmapHeads, bitmaps: NDArray[np.int64], container: int
) -> NDArray[np.int64]:
    flags = walking.data[heads.flags_at[bitmaps] + (container >> 3)]
    at = heads.keys_at[bitmaps] + container * _KEY_AND_CARDINALITY_BYTES + _KEY_BYTES
    sizes = _plain_bytes(integers(walking.data, at, "<u2") + 1)
    of_runs = np.flatnonzero(flags >> (container & 7) & 1)
    counting = walking.take(of_runs)
    sizes[of_runs] = _RUN_BYTES * counting.u16_le("number of runs")
    walking.put(of_runs, counting)
    return sizes


def _plain_bytes(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(values > MAX_ARRAY_VALUES, BITS_BYTES, 2 * values)
