"""How large a filter may be, in either of its forms."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.errors import LimitExceededError


@dataclass(frozen=True, slots=True)
class FilterLimits:
    """What an operator allows.

    Attributes:
        depth: nesting of AND, OR and NOT, and of parentheses in SQL.
        literals: literals in the whole filter.
    """

    depth: int = 200
    literals: int = 100_000

    def check_depth(self, depth: int) -> None:
        """Refuses a filter that is nested deeper than allowed.

        Raises:
            LimitExceededError: it is.
        """
        if depth > self.depth:
            raise LimitExceededError(
                f"the filter is nested deeper than {self.depth} levels", limit=self.depth
            )


@dataclass(slots=True)
class LiteralCount:
    """Counts the literals of one filter while it is read."""

    limits: FilterLimits
    _counted: int = field(default=0, init=False)

    def add(self, literals: int) -> None:
        """Counts more literals.

        Raises:
            LimitExceededError: there are now more than allowed.
        """
        self._counted += literals
        if self._counted > self.limits.literals:
            raise LimitExceededError(
                f"the filter has more than {self.limits.literals} literals", limit=self.limits.literals
            )


DEFAULT_LIMITS = FilterLimits()
