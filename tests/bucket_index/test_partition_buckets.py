"""The order in which a partition's buckets are tried; recorded from ``java.util.HashMap`` of Java 17."""

from __future__ import annotations

import numpy as np
import pytest

from app.bucket_index.partition_buckets import PartitionBuckets
from app.options.dynamic_buckets import AssignerOptions

# As of sixteen assigners, so that slots crowd until they are trees.
SIXTEENTHS = [16 * (number * 7 % 40) for number in range(40)]
# fmt: off
SIXTEENTHS_IN_ORDER = [
    320, 576, 128, 512, 64, 256, 192, 448, 384, 0, 272, 464, 16, 80, 208, 400, 592, 528, 144, 336,
    352, 160, 544, 608, 96, 288, 480, 416, 32, 224, 240, 48, 432, 624, 176, 368, 304, 560, 496, 112,
]
# fmt: on


@pytest.mark.parametrize(
    ("buckets", "rows_of_last", "expected"),
    [
        ([], 1, []),
        ([3, 1, 2], 1, [1, 2, 3]),
        # 13 buckets fit 16 slots; only a call that finds the thirteenth there again doubles them.
        ([16, *range(12)], 1, [0, 16, *range(1, 12)]),
        ([16, *range(12)], 2, [*range(12), 16]),
        (
            [0, 320, 640, 192, 512, 64, 384, 704, 256, 576, 128, 448],
            1,
            [256, 576, 704, 384, 64, 512, 448, 192, 128, 640, 320, 0],
        ),
        (
            SIXTEENTHS,
            1,
            SIXTEENTHS_IN_ORDER,
        ),
    ],
)
def test_buckets_are_tried_in_the_order_of_java(
    buckets: list[int], rows_of_last: int, expected: list[int]
) -> None:
    rows = dict.fromkeys(buckets, 1)
    if buckets:
        rows[buckets[-1]] = rows_of_last
    restored = PartitionBuckets.restore(rows, AssignerOptions(target_rows=1000))
    keys = sum(1000 - taken for taken in rows.values())
    placement = restored.place(np.zeros(keys), keys)
    assert [run.bucket for run in placement.runs] == expected


def test_buckets_of_others_and_full_ones_are_not_tried() -> None:
    options = AssignerOptions(channels=3, assigners=2, assign_id=2, target_rows=4, max_buckets=7)
    restored = PartitionBuckets.restore({6: 3, 1: 2, 4: 4, 2: 9}, options)
    placement = restored.place(np.array([0.0, 0.0, 0.0, 0.99, 0.0, 0.5]), 6)
    assert [run.bucket for run in placement.runs] == [6, 0]
    assert placement.buckets().tolist() == [6, 0, 0, 0, 0, 4]
    assert placement.permitted == (0, 2, 4, 6)
    # Nothing was taken in, so the same keys find the same places.
    assert restored.place(np.zeros(2), 2).buckets().tolist() == [6, 0]
    restored.accept(placement)
    assert restored.place(np.array([0.75]), 1).buckets().tolist() == [6]
