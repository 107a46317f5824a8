"""Which bucket a key is in, and which a writer would put it into.

:mod:`~app.planning.buckets.lookup` answers requests; :mod:`~app.planning.buckets.directory` and
:mod:`~app.planning.scan.bucket_pruning` serve bucket pruning in :mod:`app.planning.scan`.
"""

from app.planning.buckets.answers import (
    AssignedBucket,
    AssignmentAnswer,
    BucketInfo,
    BucketList,
    BucketLookup,
    KeyBucket,
    SnapshotId,
)

__all__ = [
    # The bucket that a writer would assign to one key.
    "AssignedBucket",
    # Assignments in request order.
    "AssignmentAnswer",
    # One bucket of one partition.
    "BucketInfo",
    # Buckets and what they hold.
    "BucketList",
    # Buckets in request order.
    "BucketLookup",
    # The bucket of one key.
    "KeyBucket",
    # The number of the snapshot that an answer is of.
    "SnapshotId",
]
