"""How many questions about long lists of keys may still be asked, so that a plan ends in time."""

from __future__ import annotations

from typing import Final, Protocol

SHORT_LIST: Final = 64
"""So many keys are asked of every file, whatever is left."""


class Allowance(Protocol):
    """What is left of the work that a plan may put into long lists."""

    def take(self, questions: int) -> bool:
        """Whether so many questions, each about one key and one file, may be asked; then they are counted."""


class _Unlimited:
    def take(self, questions: int) -> bool:  # noqa: ARG002 - whatever the number
        return True


UNLIMITED: Final[Allowance] = _Unlimited()
