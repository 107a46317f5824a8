"""The table's hash index: key hashes, their files, and the buckets that keys are assigned to."""

from app.bucket_index.bucket_function import BucketFunction, bucket_of, buckets_of, hashed_buckets
from app.bucket_index.hash_index import Hashes
from app.bucket_index.key_hash import key_hash, key_hashes
from app.bucket_index.partition_index import UNKNOWN, PartitionIndex

__all__ = [
    "UNKNOWN",
    "BucketFunction",
    "Hashes",
    "PartitionIndex",
    "bucket_of",
    "buckets_of",
    "hashed_buckets",
    "key_hash",
    "key_hashes",
]
