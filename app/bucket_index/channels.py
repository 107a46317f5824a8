"""How keys and buckets are divided among the parallel assigners of a dynamic-bucket writer.

A writer has a number of channels (its parallelism), and each partition is spread over a number of assigners
among them. Rows are routed by the hashes of their partition and of their trimmed primary key; an assigner
creates only buckets of its own, so assigners need not talk to each other.

Where the channels are no multiple of the assigners, a partition whose assigners are both the last channels
and the first ones has two that own the same buckets. Their keys differ, so nothing is lost, but neither
counts what the other adds: such a bucket may get up to twice the target. The engine does the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.bucket_index.hash_index import Hashes


def routing_keys(
    partition_hashes: Hashes, key_hashes: Hashes, channels: int, assigners: int
) -> NDArray[np.int64]:
    """What Spark repartitions rows by; modulo the channels it is the row's assigner.

    Args:
        partition_hashes: row hashes of the partitions, shape (rows,).
        key_hashes: row hashes of the trimmed primary keys, shape (rows,).
        channels: number of channels, at least 1.
        assigners: number of assigners per partition, at least 1.
    """
    return _magnitudes(partition_hashes) % channels + _magnitudes(key_hashes) % assigners


def assigners_of(
    partition_hashes: Hashes, key_hashes: Hashes, channels: int, assigners: int
) -> NDArray[np.int64]:
    """The assigner, numbered from 0, that decides about each key; arguments as of :func:`routing_keys`."""
    return routing_keys(partition_hashes, key_hashes, channels, assigners) % channels


def owns(assigner: int, bucket: int, assigners: int) -> bool:
    """Whether an assigner may create, and fill, a bucket."""
    return bucket % assigners == assigner % assigners


def _magnitudes(hashes: Hashes) -> NDArray[np.int64]:
    """What remainders are taken of: Java's keep the sign of the hash, and their absolute value counts."""
    return np.abs(hashes.astype(np.int64))
