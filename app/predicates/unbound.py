"""The unbound predicate: a filter as written, before the table is known.

Columns are names, literals are raw and have positions, NOT is still there.
:func:`app.predicates.json_reader.read_json_filter` and :func:`app.predicates.sql.reader.read_sql` make it;
:func:`app.predicates.binding.binding.bind` binds it. A list of 100,000 literals is handled as one column:
:class:`LiteralList` stands for the tuple of its literals, and creates them on demand. :class:`FilterLimits`
limit the size of a filter.
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
    """Kind of a literal, before it meets a column."""

    # `value` is any JSON value; the column's type decides how to read it.
    JSON = "JSON"
    NULL = "NULL"
    BOOLEAN = "BOOLEAN"
    # Exact: an integer or decimal of SQL, as `decimal.Decimal` with the digits as written.
    NUMBER = "NUMBER"
    # A 32-bit value, widened to `float`.
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BINARY = "BINARY"
    # Days since 1970-01-01.
    DATE = "DATE"
    # A wall clock, in nanoseconds since 1970-01-01T00:00.
    TIMESTAMP_NTZ = "TIMESTAMP_NTZ"
    # An instant, as `app.types.session_zone.Instants`.
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    # The clock at the time of the query, as `Moment`.
    MOMENT = "MOMENT"


@dataclass(frozen=True, slots=True)
class Literal:
    """Value in the form that ``kind`` names, None for NULL; positions are 0-based, in the filter's text.

    ``integer_digits`` are the digits before the point that a NUMBER's type has room for; 0 means just enough.
    """

    kind: LiteralKind
    value: object
    position: int | None = None
    integer_digits: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """Column, or something within one.

    ``parts`` are the names between dots: catalog, database, table or alias may precede the column, fields or
    map keys follow it; JSON has one name, a map key as ``column[key]``. ``key`` is the key of
    ``column['key']`` in SQL.
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
class Interval:
    """Span of calendar time; the months are added first."""

    months: int = 0
    days: int = 0
    nanos: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """Day or instant at which a query runs, moved by intervals.

    ``is_date`` selects the day in the session's time zone; ``column`` takes precedence, if the table has it.
    """

    is_date: bool
    steps: tuple[Interval, ...] = ()
    column: Column | None = None


class ColumnFunction(StrEnum):
    """Function of a column, decided by ranges of its values or for each partition."""

    DATE = "date"
    DATE_FORMAT = "date_format"
    DATE_TRUNC = "date_trunc"
    MONTH = "month"
    SUBSTRING = "substring"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class Call:
    """Call of a function of a column.

    ``arguments`` are a pattern of dates, a unit of time, the year of a MONTH, or start (from 1) and length of
    a SUBSTRING.
    """

    function: ColumnFunction
    column: Column
    arguments: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """Test of one column by literals."""

    operator: Operator
    column: Column
    # None for the NULL tests, two for BETWEEN, any number for IN and NOT_IN, else one; a long list is a
    # `LiteralList`.
    literals: Sequence[Literal]
    text: str
    # EQUAL is SQL's `<=>`, which is false, not NULL, where the column is NULL.
    null_safe: bool = False
    # The function of the column whose result is tested.
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """Column that is a condition by itself; it must be BOOLEAN."""

    column: Column


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
class Either:
    """One of two readings of a condition, which depends on the release of Spark."""

    readings: tuple[Predicate, Predicate]
    text: str


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or (None) SQL's NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Part that cannot be decided. ``columns``, which it reads, must exist; ``reason`` names the way out."""

    text: str
    columns: tuple[Column, ...] = ()
    position: int | None = None
    reason: str | None = None


Predicate: TypeAlias = Leaf | Flag | And | Or | Not | Either | Constant | Unknown


def shorten(text: str) -> str:
    """Cut a long text for people."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


@dataclass(frozen=True, slots=True)
class FilterLimits:
    """Limits of a filter's size.

    ``depth`` limits nesting of AND, OR, NOT and parentheses, ``literals`` their number, and ``characters``
    SQL text, or names and texts of JSON.
    """

    depth: int = 200
    literals: int = 100_000
    # Checked before the filter is hashed or parsed, each of which holds the interpreter in one call.
    characters: int = 8 << 20

    def check_size(self, written: object) -> None:
        """Raise LimitExceededError if a filter, as SQL text or parsed JSON, is too long."""
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
        """Count literals; raise LimitExceededError if there are too many."""
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


def joined_literals(parts: Sequence[Sequence[Literal]]) -> Sequence[Literal]:
    """Concatenate literals of one or more parts."""
    lists = [part for part in parts if isinstance(part, LiteralList)]
    if len(lists) < len(parts) or len({part.kind for part in lists}) > 1:
        return tuple(chain.from_iterable(parts))
    if len(lists) == 1:
        return lists[0]
    values = list(chain.from_iterable(part.values for part in lists))
    return LiteralList(lists[0].kind, values, lambda: chain.from_iterable(lists))


def json_literals(written: Sequence[object]) -> Sequence[Literal]:
    """Return the literals for a list of JSON values."""

    def one_by_one() -> Iterable[Literal]:
        return (Literal(LiteralKind.JSON, value) for value in written)

    match set(map(type, written)):
        case types if types == {int}:
            return LiteralList(ListedKind.INTEGER, written, one_by_one)  # type: ignore[arg-type] # just looked at
        case types if types == {str}:
            return LiteralList(ListedKind.TEXT, written, one_by_one)  # type: ignore[arg-type] # types are checked
        case _:
            return tuple(one_by_one())
