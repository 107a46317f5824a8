"""Answers about the buckets of keys: frozen values, serialized to JSON without conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from app.described import DESCRIBED

SnapshotId = Annotated[int | None, Field(description="Null for a table without snapshots.")]
BucketModeName = Annotated[str, Field(examples=["hash_dynamic"])]


@dataclass(frozen=True, slots=True)
class KeyBucket:
    """The bucket of one key."""

    key_hash: int
    bucket: int | None
    """Null if the table's index lacks the key so far, or if buckets are unknown: then `detail` says why."""
    other_buckets: tuple[int, ...] | None = None
    """Buckets of the key's forms with other padding. Only for keys with a CHAR column."""


@dataclass(frozen=True, slots=True)
class BucketLookup:
    """Buckets in the order of the request."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: SnapshotId
    bucket_mode: BucketModeName
    buckets: Sequence[KeyBucket]
    detail: str | None = None
    """Reason why buckets are unknown."""


@dataclass(frozen=True, slots=True)
class BucketInfo:
    """One bucket of one partition."""

    partition: Mapping[str, Any]
    """Typed values by partition column."""
    bucket: int
    index_file: str | None
    """Path of the hash index file."""
    index_rows: int | None
    """Keys in the index file."""
    full: bool | None
    """Null for bucket modes without a target row number."""
    data_files: int
    rows: int


@dataclass(frozen=True, slots=True)
class BucketList:
    """Buckets with their content."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: SnapshotId
    bucket_mode: str
    buckets: Sequence[BucketInfo]


@dataclass(frozen=True, slots=True)
class AssignedBucket:
    """The bucket that a writer would assign to one key."""

    key_hash: int
    bucket: int
    strategy: Literal["existing", "non_full", "new", "random"]
    permitted: Sequence[int] | None
    """Buckets to choose from. Only for the strategy random."""


@dataclass(frozen=True, slots=True)
class AssignmentAnswer:
    """Assignments in the order of the request."""

    __pydantic_config__ = DESCRIBED

    snapshot_id: SnapshotId
    bucket_mode: str
    buckets: Sequence[AssignedBucket]
