"""What was computed of an object and lives, and is weighed, together with that object."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Made = TypeVar("Made")


class Derived:
    """Immutable things by key. Threads may share it: what two make at the same time is equal, one stays."""

    __slots__ = ("_made", "_weighed")

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Any, int]] = {}
        self._weighed = 0

    def get_or_make(self, key: Hashable, make: Callable[[], Made], weigh: Callable[[Made], int]) -> Made:
        """What ``make`` made when somebody first asked for ``key``.

        Args:
            key: what it is known by.
            make: called where nobody asked before.
            weigh: bytes of memory that it takes beside what it was made of.
        """
        found = self._made.get(key)
        if found is None:
            made = make()
            found = self._made.setdefault(key, (made, weigh(made)))
        item: Made = found[0]
        return item

    @property
    def nbytes(self) -> int:
        """Bytes of memory of all that was made."""
        return sum(weight for _, weight in list(self._made.values()))

    def has_grown(self) -> bool:
        """Whether something was made since this was last asked."""
        before, self._weighed = self._weighed, len(self._made)
        return self._weighed > before
