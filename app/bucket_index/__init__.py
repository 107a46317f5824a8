"""The hash index of dynamic buckets: key hashes, their files, and the assignment of keys to buckets."""

from app.bucket_index.assigner import HashBucketAssigner
from app.bucket_index.bucket_function import BucketFunction, buckets_of, hashed_buckets
from app.bucket_index.hash_index import DynamicBucketIndexMaintainer, Hashes
from app.bucket_index.key_batch import KeyBatch, key_hashes
from app.bucket_index.partition_buckets import assigners_of
from app.bucket_index.partition_index import UNKNOWN, PartitionIndex

__all__ = [
    # The bucket number of a hash that no file holds.
    "UNKNOWN",
    # A function from bucket keys to buckets.
    "BucketFunction",
    # Hashes of one bucket, as its next index file will list them.
    "DynamicBucketIndexMaintainer",
    # An assigner of buckets in many partitions.
    "HashBucketAssigner",
    # Key hashes, int32, shape (n,).
    "Hashes",
    # Key hashes, each in a partition.
    "KeyBatch",
    # Hash index files of one partition.
    "PartitionIndex",
    # The assigner that decides about each row.
    "assigners_of",
    # Buckets of many bucket keys.
    "buckets_of",
    # Buckets of many hashes under the default function.
    "hashed_buckets",
    # Hashes of many primary keys.
    "key_hashes",
]
