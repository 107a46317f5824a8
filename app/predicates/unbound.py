"""The unbound predicate: a filter as written, before the table is known.

Columns are names, literals are raw and have positions, NOT is still there.
:func:`app.predicates.json_reader.read_json_filter` and :func:`app.predicates.text.read_text` make it;
:func:`app.predicates.binding.bind` binds it. A list of 100,000 literals is handled as one column:
:class:`LiteralList` stands for the tuple of its literals, and creates them on demand. :class:`FilterLimits`
limit the size of a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeAlias, final, overload

from app.errors import LimitExceededError
from app.predicates.model import Operator

_SHOWN_CHARACTERS: Final = 200


class LiteralKind(StrEnum):
    """Form in which a literal was written, before it meets a column."""

    # Any value of JSON, read in the column's type; in text TRUE, FALSE, NULL and binaries.
    JSON = "JSON"
    # Digits of text, as `decimal.Decimal`.
    NUMBER = "NUMBER"
    # Text in quotes.
    STRING = "STRING"
    # The text in the quotes of DATE '…' and TIMESTAMP '…'.
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Literal:
    """Value in the form that ``kind`` names, None for NULL. Positions are 0-based, in the filter's text."""

    kind: LiteralKind
    value: object
    position: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnName:
    """Column, or a part of one.

    ``parts`` are the names between dots: database and table may precede the column, fields or map keys follow
    it. JSON has one name, a map key as ``column[key]``. ``key`` is the key of ``column['key']`` in text.
    """

    parts: tuple[str, ...]
    key: str | None = None
    position: int | None = None

    @property
    def name(self) -> str:
        """Parts joined by dots."""
        return ".".join(self.parts)

    def __str__(self) -> str:
        return self.name if self.key is None else f"{self.name}[{self.key}]"


@dataclass(frozen=True, slots=True)
class Leaf:
    """Test of one column by literals."""

    operator: Operator
    column: ColumnName
    # None for the NULL tests, two for BETWEEN, any number for IN and NOT_IN, else one; a long list is a
    # `LiteralList`.
    literals: Sequence[Literal]
    text: str
    # EQUAL is SQL's `<=>`, which is false, not NULL, where the column is NULL.
    null_safe: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """Column that is a condition by itself. It must be BOOLEAN."""

    column: ColumnName


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction of one or more children."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction of one or more children."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """SQL's NOT: NULL stays NULL."""

    child: Predicate


@dataclass(frozen=True, slots=True)
class TruthValue:
    """TRUE, FALSE or (None) SQL's NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Undecidable:
    """Part that cannot be decided. ``columns``, which it reads, must exist. ``reason`` names a remedy."""

    text: str
    columns: tuple[ColumnName, ...] = ()
    position: int | None = None
    reason: str | None = None


Predicate: TypeAlias = Leaf | Flag | And | Or | Not | TruthValue | Undecidable


def shorten(text: str) -> str:
    """Truncate a text that is too long to show."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


@dataclass(frozen=True, slots=True)
class FilterLimits:
    """Limits of a filter's size.

    ``depth`` limits the nesting of AND, OR, NOT and brackets, ``literals`` the number of literals, and
    ``characters`` the length of the text, or of names and texts of JSON.
    """

    depth: int = 200
    literals: int = 100_000
    # Checked before the filter is hashed or parsed, each of which holds the interpreter in one call.
    characters: int = 8 << 20

    def check_size(self, written: object) -> None:
        """Raise LimitExceededError if a filter, as text or parsed JSON, is too long."""
        size = len(written) if isinstance(written, str) else _characters(written)
        if size > self.characters:
            raise LimitExceededError(
                f"the filter has {size} characters, {self.characters} are the most", limit=self.characters
            )

    def check_depth(self, depth: int) -> None:
        """Raise LimitExceededError if a filter is nested too deeply."""
        if depth > self.depth:
            raise LimitExceededError(
                f"the filter is nested deeper than {self.depth} levels", limit=self.depth
            )


def _characters(written: object) -> int:
    size, pending = 0, [[written]]
    while pending:
        values = pending.pop()
        size += sum([len(value) for value in values if isinstance(value, str)])
        for value in values:
            if isinstance(value, list):
                pending.append(value)
            elif isinstance(value, dict):
                pending += ([*value], [*value.values()])
    return size


@dataclass(slots=True)
class LiteralCount:
    """Counter of the literals of one filter."""

    limits: FilterLimits
    _counted: int = field(default=0, init=False)

    def add(self, literals: int) -> None:
        """Count literals. Raise LimitExceededError if there are too many."""
        self._counted += literals
        if self._counted > self.limits.literals:
            raise LimitExceededError(
                f"the filter has more than {self.limits.literals} literals", limit=self.limits.literals
            )


DEFAULT_LIMITS = FilterLimits()


@final
class ListedKind(StrEnum):
    """Kind of the values of a list."""

    INTEGER = "integers of any size"
    TEXT = "strings, as ``str``"


# A dataclass, because request digests descend into dataclasses.
@dataclass(init=False, eq=False, repr=False)
class LiteralList(Sequence[Literal]):
    """Literals of one kind, none of them NULL."""

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


def listed_literals(
    kind: LiteralKind, values: Sequence[object], literals: Callable[[], Iterable[Literal]] | None = None
) -> Sequence[Literal]:
    """Return the literals of values of one kind. ``literals`` makes them, if they have positions."""

    def one_by_one() -> Iterable[Literal]:
        return (Literal(kind, value) for value in values) if literals is None else literals()

    match set(map(type, values)):
        case types if types == {int}:
            return LiteralList(ListedKind.INTEGER, values, one_by_one)  # type: ignore[arg-type] # just looked at
        case types if types == {str}:
            return LiteralList(ListedKind.TEXT, values, one_by_one)  # type: ignore[arg-type] # types are checked
        case _:
            return tuple(one_by_one())
