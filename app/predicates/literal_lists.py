"""Lists of literals, as one column of values without an object for each.

A list of 100,000 literals is read, bound and asked as a column. Whoever needs a literal of it as such, with
its position in the text, gets it made: a :class:`LiteralList` stands for the tuple of its literals wherever
an unbound predicate holds one. What the values of a list are in the type of a column,
:mod:`app.predicates.binding.fitting` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import final, overload

from app.predicates.unbound import Literal, LiteralKind


@final
class ListedKind(StrEnum):
    """What the values of a list are."""

    INTEGER = "integers of any size"
    TEXT = "strings, as ``str``"


@dataclass(init=False, eq=False, repr=False)
class LiteralList(Sequence[Literal]):
    """Literals of one kind, none of them NULL; as a dataclass it is what request digests take.

    Args:
        literals: makes the literals, one for each value.
    """

    kind: ListedKind
    values: Sequence[int | str]

    def __init__(
        self, kind: ListedKind, values: Sequence[int | str], literals: Callable[[], Iterable[Literal]]
    ) -> None:
        self.kind = kind
        self.values = values
        self._literals = literals

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> Literal: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Literal]: ...

    def __getitem__(self, at: int | slice) -> Literal | Sequence[Literal]:
        return self._one_by_one[at]

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
    lists = [part for part in parts if isinstance(part, LiteralList)]
    if len(lists) < len(parts) or len({part.kind for part in lists}) > 1:
        return tuple(chain.from_iterable(parts))
    if len(lists) == 1:
        return lists[0]
    values = list(chain.from_iterable(part.values for part in lists))
    return LiteralList(lists[0].kind, values, lambda: chain.from_iterable(lists))


def json_literals(written: Sequence[object]) -> Sequence[Literal]:
    """The literals that a list of JSON values stands for."""

    def one_by_one() -> Iterable[Literal]:
        return (Literal(LiteralKind.JSON, value) for value in written)

    match set(map(type, written)):
        case types if types == {int}:
            return LiteralList(ListedKind.INTEGER, written, one_by_one)  # type: ignore[arg-type] # just looked at
        case types if types == {str}:
            return LiteralList(ListedKind.TEXT, written, one_by_one)  # type: ignore[arg-type] # likewise
        case _:
            return tuple(one_by_one())
