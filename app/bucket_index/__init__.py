"""The table's hash index: key hashes, their files, and the buckets that keys are assigned to."""

from app.bucket_index.assigner import HashBucketAssigner
from app.bucket_index.bucket_function import BucketFunction, buckets_of, hashed_buckets
from app.bucket_index.hash_index import DynamicBucketIndexMaintainer, Hashes
from app.bucket_index.key_batch import KeyBatch, key_hashes
from app.bucket_index.partition_buckets import Assignment, Assignments, Strategy, assigners_of
from app.bucket_index.partition_index import UNKNOWN, PartitionIndex
from app.options.table_options import AssignerOptions, DynamicBucketOptions

__all__ = [
    "UNKNOWN",
    "AssignerOptions",
    "Assignment",
    "Assignments",
    "BucketFunction",
    "DynamicBucketIndexMaintainer",
    "DynamicBucketOptions",
    "HashBucketAssigner",
    "Hashes",
    "KeyBatch",
    "PartitionIndex",
    "Strategy",
    "assigners_of",
    "buckets_of",
    "hashed_buckets",
    "key_hashes",
]
