"""What was computed of an object and lives as long as that object does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class Sized(Protocol):
    """Something that tells its weight."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""


Made = TypeVar("Made", bound=Sized)


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """Immutable things by key. Threads may share it: what two make at the same time is equal, one stays."""

    _made: dict[Hashable, Any] = field(default_factory=dict)

    def get_or_make(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` made when somebody first asked for ``key``."""
        found: Made | None = self._made.get(key)
        if found is None:
            found = self._made.setdefault(key, make())
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of memory of all that was made."""
        return sum(made.nbytes for made in list(self._made.values()))
