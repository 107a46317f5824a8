"""How large a request may be, and how many bytes each cache may hold."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

SHARE_OF_DEADLINE: Final = 2 / 3
"""The rest of what a request has until its deadline is for whatever else its answer takes."""

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one request.

    ``filter_depth``: nesting of AND, OR, NOT and parentheses. ``staleness_ms``: how old the latest version
    may be that answers a request which does not say.
    """

    filter_depth: int = 200
    filter_literals: int = 100_000
    files_named: int = 100_000
    staleness_ms: int = 0


@dataclass(frozen=True, slots=True)
class CacheBytes:
    """Capacity in bytes of each cache of decoded objects, or its share of the room that all of them have.

    Attributes:
        metadata: snapshots, schemas and manifest lists.
        manifests: manifests and index manifests, with the indexes embedded in them.
        file_indexes: ``.index`` files: heads, payloads that filters asked, and small files as a whole.
        deletion_vectors: roaring bitmaps of deleted positions.
        hash_indexes: key hashes of dynamic buckets.
        plans: recent plans, so that the further pages of one are not planned again.
        is_shared: whether one cache may hold what others leave empty.
    """

    metadata: int = 64 * _MIB
    manifests: int = 512 * _MIB
    file_indexes: int = 1152 * _MIB
    deletion_vectors: int = 256 * _MIB
    hash_indexes: int = 256 * _MIB
    plans: int = 64 * _MIB
    is_shared: bool = False

    @property
    def by_name(self) -> dict[str, int]:
        """Of each cache."""
        return {
            member.name: getattr(self, member.name) for member in fields(self) if member.name != "is_shared"
        }

    @property
    def total(self) -> int:
        """Of all caches."""
        return sum(self.by_name.values())
