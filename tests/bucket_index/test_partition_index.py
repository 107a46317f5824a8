"""What is known of a partition: the bucket of each hash, and the order in which buckets are tried."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bucket_index import UNKNOWN, PartitionIndex
from app.bucket_index.partition_buckets import PartitionBuckets
from app.bucket_index.partition_index import KnownHashes
from app.options.table_options import AssignerOptions

HASHES = st.integers(-50, 50)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.lists(HASHES, max_size=9)), max_size=4),
    st.lists(st.dictionaries(HASHES, st.integers(0, 9), max_size=20), max_size=8),
)
def test_a_hash_has_the_bucket_that_it_was_given(
    files: list[tuple[int, list[int]]], batches: list[dict[int, int]]
) -> None:
    index = PartitionIndex.merge([(bucket, np.array(hashes, np.int32)) for bucket, hashes in files])
    loaded = index.hashes.tolist()
    known = KnownHashes(index)
    plain = {hashed: bucket for bucket, hashes in files for hashed in hashes}
    asked = np.arange(-60, 60, dtype=np.int32)
    for batch in batches:
        added = sorted(batch.keys() - plain.keys())
        known.add(np.array(added, np.int32), np.array([batch[hashed] for hashed in added], np.int16))
        plain |= {hashed: batch[hashed] for hashed in added}
        assert known.find(asked).tolist() == [plain.get(hashed, UNKNOWN) for hashed in asked.tolist()]
    assert index.hashes.tolist() == loaded


def test_many_small_batches_are_found() -> None:
    known = KnownHashes(PartitionIndex.merge([(0, np.arange(1000, dtype=np.int32))]))
    for hashed in range(1000, 3000):
        known.add(np.array([hashed], np.int32), np.array([1], np.int16))
    assert known.find(np.array([999, 1000, 2999, 3000], np.int32)).tolist() == [0, 1, 1, UNKNOWN]


@pytest.mark.parametrize(
    ("buckets", "rows_of_last", "expected"),
    [
        ([], 1, []),
        ([3, 1, 2], 1, [1, 2, 3]),
        ([17, 1, 33], 1, [33, 1, 17]),
        # 13 buckets fit 16 slots; only a call that finds the thirteenth there again doubles them.
        ([16, *range(12)], 1, [0, 16, *range(1, 12)]),
        ([16, *range(12)], 2, [*range(12), 16]),
    ],
)
def test_buckets_with_room_are_tried_in_the_order_of_java(
    buckets: list[int], rows_of_last: int, expected: list[int]
) -> None:
    """Recorded from ``java.util.HashMap`` of Java 17."""
    rows = dict.fromkeys(buckets, 1) | dict.fromkeys(buckets[-1:], rows_of_last)
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
