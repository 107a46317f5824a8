"""How much a test repeats itself, by the profile of the run."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from hypothesis import settings

_THOROUGH: Final = 100
_Member = TypeVar("_Member")


def examples(count: int, **others: Any) -> settings:
    """Return settings for a test whose examples are cheaper, or dearer, than most."""
    return settings(max_examples=max(1, count * settings().max_examples // 100), **others)


def is_thorough() -> bool:
    """Whether this run, as that of `.ci/run`, has the time to repeat itself."""
    return settings().max_examples >= _THOROUGH


def share(members: Sequence[_Member], one_in: int) -> Sequence[_Member]:
    """All members where a run is thorough; one in so many of them in `make test`."""
    return members if is_thorough() else members[::one_in]
