"""A part of what a table has many of, when each of them takes a read: snapshots and tags."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from app.storage import Readers

MOST_READS: Final = 256
"""No part has more, whatever is asked for: on an object store these take less than a second."""

Key = TypeVar("Key", int, str)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Part(Generic[Key, Found]):
    """Some entries of a listing.

    Attributes:
        entries: by key, ascending.
        last: the key that the next part begins behind; None if there is no next part.
    """

    entries: dict[Key, Found]
    last: Key | None

    @classmethod
    def read(
        cls,
        keys: Sequence[Key],
        after: Key | None,
        count: int,
        read: Callable[[Key], Found | None],
        readers: Readers,
    ) -> Part[Key, Found]:
        """The part that begins behind a key.

        Args:
            keys: all that there are, ascending.
            after: the last key of the part before; None for the first part.
            count: most entries of this one.
            read: gives an entry, or None for one that is gone; called from several threads.
            readers: read side by side.
        """
        start = 0 if after is None else bisect_right(keys, after)
        some = keys[start : start + min(count, MOST_READS)]
        found = zip(some, readers.map(read, some), strict=True)
        last = some[-1] if start + len(some) < len(keys) else None
        return cls({key: entry for key, entry in found if entry is not None}, last)
