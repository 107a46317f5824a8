from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.bucket_index import UNKNOWN, PartitionIndex
from app.bucket_index.partition_index import KnownHashes

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
