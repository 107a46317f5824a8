"""The unbound predicate: a filter as it was written, before anything is known of the table.

Columns are names, literals are raw and say where they come from, NOT is still there. The readers
(:func:`app.predicates.json_reader.read_json_filter`, :func:`app.predicates.sql.reader.read_sql`) make it,
:func:`app.predicates.binding.binding.bind` turns it into what can be evaluated.

A list of 100,000 literals is read, bound and asked as one column: a :class:`LiteralList` stands for the tuple
of its literals, and makes them for whoever needs one as such, with its position in the text. What the values
are in the type of a column, :mod:`app.predicates.binding.fitting` says.

How large a filter may be, in either of its forms, stands here too: :class:`FilterLimits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Final, TypeAlias, final, overload

from app.errors import LimitExceededError
from app.predicates.model import Operator

_SHOWN_CHARACTERS: Final = 200


class LiteralKind(StrEnum):
    """What a literal is before it meets a column."""

    JSON = "JSON"
    """``value`` is any JSON value; the column's type says how to read it."""
    NULL = "NULL"
    BOOLEAN = "BOOLEAN"
    NUMBER = "NUMBER"
    """Exact: an integer or decimal of SQL, as ``decimal.Decimal`` with the digits as written."""
    FLOAT = "FLOAT"
    """A 32-bit value, widened to ``float``."""
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BINARY = "BINARY"
    DATE = "DATE"
    """Days since 1970-01-01."""
    TIMESTAMP_NTZ = "TIMESTAMP_NTZ"
    """A wall clock, in nanoseconds since 1970-01-01T00:00."""
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    """An instant, as :class:`app.types.session_zone.Instants`."""
    MOMENT = "MOMENT"
    """What the clock says when the query runs, as :class:`Moment`."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value in the form that ``kind`` names, None for NULL; positions are 0-based, in the filter's text.

    ``integer_digits`` before the point are what the type of a NUMBER has room for; 0 is just enough.
    """

    kind: LiteralKind
    value: object
    position: int | None = None
    integer_digits: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or something within one.

    ``parts``: the names between the dots: those of a catalog, database, table or alias may stand before the
    column's, those of fields or map keys behind it. JSON has one name, a map key as ``column[key]``. ``key``:
    the key of ``column['key']`` in SQL.
    """

    parts: tuple[str, ...]
    key: str | None = None
    position: int | None = None

    @property
    def name(self) -> str:
        """The parts as one text."""
        return ".".join(self.parts)

    def __str__(self) -> str:
        return self.name if self.key is None else f"{self.name}[{self.key}]"


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of calendar time; the months are added first."""

    months: int = 0
    days: int = 0
    nanos: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """The day or the instant at which a query runs, moved by intervals.

    ``is_date``: it is the day in the session's time zone, not the instant. ``column``: where it is written as
    a name, the column that goes before, if the table has it.
    """

    is_date: bool
    steps: tuple[Interval, ...] = ()
    column: Column | None = None


class ColumnFunction(StrEnum):
    """A function of a column, decided by ranges of its values or for each partition."""

    DATE = "date"
    DATE_FORMAT = "date_format"
    DATE_TRUNC = "date_trunc"
    MONTH = "month"
    SUBSTRING = "substring"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of a column.

    ``arguments`` beside the column: a pattern of dates, a unit of time, the year of a MONTH, or where a
    SUBSTRING starts, from 1 on, and its length.
    """

    function: ColumnFunction
    column: Column
    arguments: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A test of one column by literals.

    Attributes:
        literals: none for the NULL tests, two for BETWEEN, any number for IN and NOT_IN, else one; long lists
            are no tuples (:mod:`app.predicates.unbound`).
        null_safe: EQUAL is SQL's ``<=>``, which is false, not NULL, where the column is NULL.
        call: what is tested is this function of the column's values.
    """

    operator: Operator
    column: Column
    literals: Sequence[Literal]
    text: str
    null_safe: bool = False
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """A column that stands as a condition by itself; it must be BOOLEAN."""

    column: Column


@dataclass(frozen=True, slots=True)
class And:
    """True where every child is; one or more children."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True where any child is; one or more children."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """SQL's NOT: NULL stays NULL."""

    child: Predicate


@dataclass(frozen=True, slots=True)
class Either:
    """One of two conditions, of which nobody knows which: releases of Spark differ."""

    readings: tuple[Predicate, Predicate]
    text: str


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or (None) SQL's NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part that nothing here can decide: the columns that it is known to read, and why.

    ``columns`` have to be there; ``reason`` names the way out.
    """

    text: str
    columns: tuple[Column, ...] = ()
    position: int | None = None
    reason: str | None = None


Predicate: TypeAlias = Leaf | Flag | And | Or | Not | Either | Constant | Unknown


def shorten(text: str) -> str:
    """Text for people, cut where it would fill their screen."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


@dataclass(frozen=True, slots=True)
class FilterLimits:
    """How large a filter may be.

    Attributes:
        depth: how deep AND, OR, NOT and parentheses may nest.
        literals: how many it may have.
        characters: of SQL text; of JSON its names and texts. What has more is refused before it
            is hashed or read, since one call would hold the interpreter for long.
    """

    depth: int = 200
    literals: int = 100_000
    characters: int = 8 << 20

    def check_size(self, written: object) -> None:
        """Raises LimitExceededError if a filter, as SQL text or parsed JSON, is longer than allowed."""
        size = len(written) if isinstance(written, str) else _characters(written)
        if size > self.characters:
            raise LimitExceededError(
                f"the filter has {size} characters, {self.characters} are the most", limit=self.characters
            )

    def check_depth(self, depth: int) -> None:
        """Raises LimitExceededError if a filter is nested deeper than allowed."""
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
    """Counts the literals of one filter while it is read."""

    limits: FilterLimits
    _counted: int = field(default=0, init=False)

    def add(self, literals: int) -> None:
        """Counts more literals; raises LimitExceededError if there are now more than allowed."""
        self._counted += literals
        if self._counted > self.limits.literals:
            raise LimitExceededError(
                f"the filter has more than {self.limits.literals} literals", limit=self.limits.literals
            )


DEFAULT_LIMITS = FilterLimits()


@final
class ListedKind(StrEnum):
    """What the values of a list are."""

    INTEGER = "integers of any size"
    TEXT = "strings, as ``str``"


@dataclass(init=False, eq=False, repr=False)
class LiteralList(Sequence[Literal]):
    """Literals of one kind, none of them NULL; as a dataclass it is what request digests take."""

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
