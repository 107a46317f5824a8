"""Limits of requests, and capacities of caches."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

SHARE_OF_DEADLINE: Final = 2 / 3
"""The rest of a request's time is for the other steps of its answer."""

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request."""

    filter_depth: int = 200  # Nesting of AND, OR, NOT and parentheses.
    filter_literals: int = 100_000
    files_named: int = 100_000
    # Maximum age of a remembered latest version, for requests that do not set it.
    staleness_ms: int = 0
    # Files that a pruned snapshot names: a plan that keeps more gains little from naming them again.
    pruned_files: int = 10_000
    # Metadata of a pruned snapshot: more takes longer to write and to read than a plan of the engine alone.
    pruned_bytes: int = 16 * _MIB
    # Row ranges of a pruned snapshot: beyond it, a reader takes less time to read whole files.
    pruned_ranges: int = 100_000


@dataclass(frozen=True, slots=True)
class CacheBytes:
    """Capacity in bytes of each cache of decoded objects, or its share of their common capacity."""

    metadata: int = 64 * _MIB  # Snapshots, schemas and manifest lists.
    manifests: int = 512 * _MIB  # Manifests and index manifests, with the indexes embedded in them.
    # ``.index`` files: heads, payloads that filters requested, and small files as a whole.
    file_indexes: int = 1152 * _MIB
    deletion_vectors: int = 256 * _MIB  # Roaring bitmaps of deleted positions.
    hash_indexes: int = 256 * _MIB  # Key hashes of dynamic buckets.
    plans: int = 64 * _MIB  # Recent plans, for their further pages.
    is_shared: bool = False  # A cache may use capacity that others leave free.

    @property
    def by_name(self) -> dict[str, int]:
        """Capacity of each cache."""
        return {
            member.name: getattr(self, member.name) for member in fields(self) if member.name != "is_shared"
        }

    @property
    def total(self) -> int:
        """Capacity of all caches."""
        return sum(self.by_name.values())
