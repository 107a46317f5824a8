"""How keys and buckets are divided among the parallel assigners of a dynamic-bucket writer.

A writer has a number of channels (its parallelism), and each partition is spread over a number of assigners
among them. Rows are routed by the hashes of their partition and of their trimmed primary key; an assigner
creates only buckets of its own, so assigners need not talk to each other.
"""

from __future__ import annotations


def routing_key(partition_hash: int, key_hash: int, channels: int, assigners: int) -> int:
    """What Spark repartitions rows by; modulo the channels it is the row's assigner."""
    # Java's remainder keeps the sign of the hash, so its absolute value is the remainder of the magnitude.
    return abs(partition_hash) % channels + abs(key_hash) % assigners


def assigner_of(partition_hash: int, key_hash: int, channels: int, assigners: int) -> int:
    """The assigner, numbered from 0, that decides about a key.

    Args:
        partition_hash: row hash of the partition.
        key_hash: row hash of the trimmed primary key.
        channels: number of channels, at least 1.
        assigners: number of assigners per partition, at least 1.
    """
    return routing_key(partition_hash, key_hash, channels, assigners) % channels


def owns(assigner: int, bucket: int, assigners: int) -> bool:
    """Whether an assigner may create, and fill, a bucket."""
    return bucket % assigners == assigner % assigners
