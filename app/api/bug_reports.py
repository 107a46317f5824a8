"""What the log tells of an exception that nobody raised on purpose.

Texts of exceptions may hold literals of a filter, or what a storage library says of its endpoint. Unless its
level is DEBUG, the log has their kinds and the places in the code only, which are enough to find most bugs.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST: Final = 8


def places_of(error: BaseException) -> str:
    """The kinds of an exception and of those that it came from, and where each was raised, innermost last."""
    return "\n".join(
        f"{type(each).__name__}\n{''.join(traceback.format_tb(each.__traceback__))}" for each in _chain(error)
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    at: BaseException | None = error
    for _ in range(_MOST):
        if at is None:
            return
        yield at
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
