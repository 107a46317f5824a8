"""Finds the bucket of a key, and the one that a writer would assign."""

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
    # Buckets with their content.
    "BucketList",
    # Buckets in request order.
    "BucketLookup",
    # The bucket of one key.
    "KeyBucket",
    # The number of the snapshot that an answer describes.
    "SnapshotId",
]
