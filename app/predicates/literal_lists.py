"""Long lists of literals of one kind, without an object for each.

A list of 100,000 literals is read, bound and asked as one column of values. Whoever needs a literal of it as
such, with its position in the text, gets it made: a :class:`LiteralList` stands for the tuple of its literals
wherever an unbound predicate holds one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import cached_property
from itertools import chain
from typing import final, overload

from app.predicates.unbound import Literal, LiteralKind
from app.types import Value


@final
class ListedKind(Enum):
    """What the values of a list are, in the forms of :mod:`app.types.values`."""

    INTEGER = "integers of any size"
    TEXT = "strings, as ``str``"
    BINARY = "binaries"
    DATE = "days"
    CLOCK = "wall clocks"
    INSTANT = "instants"
    OTHER = "values that are only read one by one"


class LiteralList(Sequence[Literal]):
    """Literals of one kind.

    Args:
        kind: what the values are.
        values: those that are not NULL, in their order.
        literals: makes the literals, one for each value and each NULL.
        nulls: how many are NULL.
    """

    def __init__(
        self,
        kind: ListedKind,
        values: Sequence[Value | str],
        literals: Callable[[], Iterable[Literal]],
        nulls: int = 0,
    ) -> None:
        self.kind = kind
        self.values = values
        self.nulls = nulls
        self._literals = literals

    def __len__(self) -> int:
        return len(self.values) + self.nulls

    @overload
    def __getitem__(self, at: int) -> Literal: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Literal]: ...

    def __getitem__(self, at: int | slice) -> Literal | Sequence[Literal]:
        return self._one_by_one[at]

    def __iter__(self) -> Iterator[Literal]:
        return iter(self._literals())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._one_by_one == tuple(other)

    def __hash__(self) -> int:
        return hash(self._one_by_one)

    def __repr__(self) -> str:
        return repr(self._one_by_one)

    @cached_property
    def _one_by_one(self) -> tuple[Literal, ...]:
        return tuple(self._literals())


def joined_literals(parts: Sequence[Sequence[Literal]]) -> Sequence[Literal]:
    """The literals of one or more parts, one part behind the other."""
    kinds = {part.kind if isinstance(part, LiteralList) else None for part in parts}
    lists = [part for part in parts if isinstance(part, LiteralList)]
    if len(kinds) > 1 or not lists:
        return tuple(chain.from_iterable(parts))
    if len(lists) == 1:
        return lists[0]
    values = list(chain.from_iterable(part.values for part in lists))
    nulls = sum(part.nulls for part in lists)
    return LiteralList(lists[0].kind, values, lambda: chain.from_iterable(lists), nulls)


def json_literals(written: Sequence[object]) -> Sequence[Literal]:
    """The literals that a list of JSON values stands for."""

    def one_by_one() -> Iterator[Literal]:
        return (Literal(LiteralKind.JSON, value) for value in written)

    match set(map(type, written)):
        case types if types == {int}:
            return LiteralList(ListedKind.INTEGER, written, one_by_one)  # type: ignore[arg-type] # just looked at
        case types if types == {str}:
            return LiteralList(ListedKind.TEXT, written, one_by_one)  # type: ignore[arg-type] # likewise
        case _:
            return tuple(one_by_one())
