"""Which manifests of a version lie together in the shared tier: small ones are read in few calls.

Groups end behind manifests whose names say so, so that those of the next version are mostly the same: a
commit adds manifests at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xxhash import xxh3_64_intdigest

LARGE_BYTES: Final = 256 << 10
"""A manifest from this size on is a group of its own."""

_MOST_BYTES: Final = 2 << 20
_ENDS_EVERY: Final = 16
"""One manifest of so many ends a group, on average."""


def shared_groups(files: Sequence[tuple[str, int | None]]) -> Iterator[range]:
    """Cuts the manifests of a version up, given name and bytes of each."""
    start = size = 0
    for at, (name, stored) in enumerate(files):
        # Nobody knows how large one is whose size is not recorded.
        more = LARGE_BYTES if stored is None else stored
        if at > start and (size + more > _MOST_BYTES or more >= LARGE_BYTES):
            yield range(start, at)
            start = at
            size = 0
        size += more
        if more >= LARGE_BYTES or not xxh3_64_intdigest(name.encode(errors="surrogatepass")) % _ENDS_EVERY:
            yield range(start, at + 1)
            start, size = at + 1, 0
    if start < len(files):
        yield range(start, len(files))
