"""Answers about the buckets of keys: plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.types import Json


@dataclass(frozen=True, slots=True)
class KeyBucket:
    """One answer of a lookup; ``bucket`` is None where the key is in no index yet or none exists."""

    key_hash: int
    bucket: int | None


@dataclass(frozen=True, slots=True)
class CharKeyBucket:
    """The same of a key with a CHAR column, which may be stored with fewer blanks at its end or with more.

    Attributes:
        key_hash: of the form of the key that is answered, the padded one if no form is known.
        bucket: where the key is if it is padded, else where another form of it is.
        other_buckets: where further forms of the key are, ascending.
    """

    key_hash: int
    bucket: int | None
    other_buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LookupAnswer:
    """The answer to a LookupRequest, in request order.

    Attributes:
        detail: why buckets cannot be told, for the bucket modes that keep no index; else None.
    """

    snapshot_id: int | None
    bucket_mode: str
    buckets: tuple[KeyBucket | CharKeyBucket, ...]
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class BucketInfo:
    """One bucket of one partition.

    Attributes:
        index_file: the hash index file's path, None where the bucket has none.
        index_rows: keys in it; None where the bucket has none.
        full: at or above ``dynamic-bucket.target-row-num``; None for bucket modes without that option.
    """

    partition: Mapping[str, Json]
    bucket: int
    index_file: str | None
    index_rows: int | None
    full: bool | None
    data_files: int
    rows: int


@dataclass(frozen=True, slots=True)
class BucketsAnswer:
    """Buckets of one partition, or of all when none was named."""

    snapshot_id: int | None
    bucket_mode: str
    buckets: tuple[BucketInfo, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AssignedBucket:
    """One assignment; ``permitted`` is given for the strategy ``random`` only."""

    key_hash: int
    bucket: int
    strategy: str
    permitted: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class AssignAnswer:
    """The answer to an AssignRequest, in request order."""

    snapshot_id: int | None
    bucket_mode: str
    buckets: tuple[AssignedBucket, ...]
