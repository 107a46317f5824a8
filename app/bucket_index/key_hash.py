"""The hash by which dynamic buckets know a key.

It is taken of the *trimmed* primary key (the primary key without the partition columns, in primary key
order) as a binary row, so it depends on the columns' types as well as on the values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.bucket_index.hash_index import Hashes
from app.types import DataType, Value
from app.types.binary_row.matrix import FieldValues, write_rows
from app.types.binary_row.row import row_hash, write_row
from app.types.murmur3 import hash_rows


def key_hash(key: Sequence[Value | None], types: Sequence[DataType]) -> int:
    """The signed 32-bit hash of one trimmed primary key."""
    return row_hash(write_row(key, types))


def key_hashes(fields: Sequence[FieldValues], count: int) -> Hashes:
    """The hashes of many trimmed primary keys, in order.

    Args:
        fields: the key columns, each of shape (count,).
        count: number of keys.
    """
    hashes = np.empty(count, np.int32)
    for positions, rows in write_rows(fields, count):
        hashes[positions] = hash_rows(rows)
    return hashes
