"""How many questions about long lists of keys may still be asked, so that a plan ends in time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Protocol

SHORT_LIST: Final = 64
"""So many keys are asked of every file, whatever is left."""


class Allowance(Protocol):
    """What is left of the work that a plan may put into long lists."""

    def take(self, questions: int) -> bool:
        """Whether so many questions, each about one key and one file, may be asked; then they are counted."""

    def give_back(self, questions: int) -> None:
        """Takes back so many questions that were counted and not asked."""

    def take_once(self, what: Hashable, questions: int) -> bool:
        """As :meth:`take`, with the same answer and without counting again where ``what`` is asked again."""


class _Unlimited:
    def take(self, questions: int) -> bool:  # noqa: ARG002 - whatever the number
        return True

    def give_back(self, questions: int) -> None:
        pass

    def take_once(self, what: Hashable, questions: int) -> bool:  # noqa: ARG002 - likewise
        return True


UNLIMITED: Final[Allowance] = _Unlimited()
