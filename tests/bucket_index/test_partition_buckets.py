"""The order in which a partition's buckets are tried."""

from __future__ import annotations

import numpy as np

from app.bucket_index.partition_buckets import PartitionBuckets
from app.options.dynamic_buckets import AssignerOptions


def test_buckets_with_room_are_tried_from_the_lowest_on() -> None:
    rows = dict.fromkeys([16, *range(12), 320, 32], 999)
    restored = PartitionBuckets.restore(rows, AssignerOptions(target_rows=1000))
    placement = restored.place(np.zeros(len(rows)), len(rows))
    assert placement.buckets().tolist() == sorted(rows)


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
