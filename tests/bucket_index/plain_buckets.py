"""Hashes and buckets of keys as they are defined: one key after the other."""

from collections.abc import Sequence

from app.bucket_index import BucketFunction, buckets_of
from app.types import DataType, TypeRoot, Value
from app.types.binary_row.row import row_hash, write_row
from app.types.binary_row.rows import fields_of


def key_hash(key: Sequence[Value | None], types: Sequence[DataType]) -> int:
    """Return the signed 32-bit hash of one trimmed primary key."""
    return row_hash(write_row(key, types))


def bucket_of(
    function: BucketFunction, key: Sequence[Value | None], types: Sequence[DataType], buckets: int
) -> int:
    """Return the bucket of a bucket key; keys that ``mod`` refuses, and those of ``hive``, one at a time."""
    if function is BucketFunction.DEFAULT:
        return abs(key_hash(key, types)) % buckets
    if function is BucketFunction.MOD and [each.root for each in types] in (
        [TypeRoot.INT],
        [TypeRoot.BIGINT],
    ):
        return int(key[0] or 0) % buckets
    return int(buckets_of(function, fields_of([tuple(key)], types), 1, buckets)[0])
