"""The bound predicate, which planning and every index evaluate.

A *bound* predicate names fields by id and type, holds literals in the in-memory form of their type
(:mod:`app.types.values`) and is in *negation normal form*: NOT has been pushed down to the leaves, so that
"unknown" (SQL's NULL) and "false" both exclude a row and need not be distinguished.
:mod:`app.predicates.binding` makes it from :mod:`app.predicates.unbound`. The types differ, so that
an unbound predicate cannot be evaluated by mistake.

Binding guarantees of a leaf: no literal is NULL. IN and NOT_IN have at least two literals, distinct and
ascending in SQL's order. BETWEEN has two distinct bounds in order. NOT BETWEEN has become two comparisons.
Integer and decimal literals fit the type. BOOLEAN columns are not tested by NOT_EQUAL and NOT_IN. Only string
columns are tested by STARTS_WITH, ENDS_WITH, CONTAINS and LIKE.

The *shape* of a filter is its text with ``?`` for every literal, so it reveals no value. A list of any
length is shown with two: ``city IN (?, ?)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from app.types import DataField, TypeRoot, Value, to_json

_SHOWN_LITERALS = 5
# Longer strings are truncated in messages.
SHOWN_CHARACTERS: Final = 100

_Result = TypeVar("_Result")

# Longer filters have no shape.
_MAX_LEAVES: Final = 16


class Operator(StrEnum):
    """Test of a leaf. Values are the names in Paimon's predicate JSON."""

    EQUAL = "EQUAL"
    NOT_EQUAL = "NOT_EQUAL"
    LESS_THAN = "LESS_THAN"
    LESS_OR_EQUAL = "LESS_OR_EQUAL"
    GREATER_THAN = "GREATER_THAN"
    GREATER_OR_EQUAL = "GREATER_OR_EQUAL"
    IN = "IN"
    NOT_IN = "NOT_IN"
    BETWEEN = "BETWEEN"
    IS_NULL = "IS_NULL"
    IS_NOT_NULL = "IS_NOT_NULL"
    STARTS_WITH = "STARTS_WITH"
    ENDS_WITH = "ENDS_WITH"
    CONTAINS = "CONTAINS"
    LIKE = "LIKE"


NULL_TESTS: Final = frozenset({Operator.IS_NULL, Operator.IS_NOT_NULL})
TEXT_TESTS: Final = frozenset({Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS, Operator.LIKE})

# Tests that are true exactly where the other is false; BETWEEN and the tests of text have none.
NEGATIONS: Final = {
    Operator.EQUAL: Operator.NOT_EQUAL,
    Operator.NOT_EQUAL: Operator.EQUAL,
    Operator.LESS_THAN: Operator.GREATER_OR_EQUAL,
    Operator.GREATER_OR_EQUAL: Operator.LESS_THAN,
    Operator.GREATER_THAN: Operator.LESS_OR_EQUAL,
    Operator.LESS_OR_EQUAL: Operator.GREATER_THAN,
    Operator.IN: Operator.NOT_IN,
    Operator.NOT_IN: Operator.IN,
    Operator.IS_NULL: Operator.IS_NOT_NULL,
    Operator.IS_NOT_NULL: Operator.IS_NULL,
}


@dataclass(frozen=True, slots=True)
class BoundLeaf:
    """Test of one field."""

    operator: Operator
    # Column, or map key named `column[key]`, with id and type of the schema that the predicate is bound to.
    field: DataField
    # None for the NULL tests, two for BETWEEN, two or more for IN and NOT_IN, else one. The literal of LIKE
    # is the SQL pattern, with backslash as its escape.
    literals: tuple[Value, ...] = ()
    # Cache of values computed once for all files, by name.
    derived: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        literals = self.literals[:_SHOWN_LITERALS]
        name, shown = self.field.name, [shown_value(value, self.field) for value in literals]
        match self.operator:
            case Operator.IS_NULL:
                return f"{name} IS NULL"
            case Operator.IS_NOT_NULL:
                return f"{name} IS NOT NULL"
            case Operator.IN | Operator.NOT_IN:
                listed = ", ".join(shown) + (", ..." if len(self.literals) > len(shown) else "")
                return f"{name} {self.operator.replace('_', ' ')} ({listed})"
            case Operator.BETWEEN:
                return f"{name} BETWEEN {shown[0]} AND {shown[1]}"
            case _:
                return f"{name} {_SYMBOLS.get(self.operator, self.operator.replace('_', ' '))} {shown[0]}"


@dataclass(frozen=True, slots=True)
class BoundAnd:
    """Conjunction. True without children."""

    children: tuple[BoundPredicate, ...]

    def __str__(self) -> str:
        return _joined(self)


@dataclass(frozen=True, slots=True)
class BoundOr:
    """Disjunction. False without children."""

    children: tuple[BoundPredicate, ...]

    def __str__(self) -> str:
        return _joined(self)


@dataclass(frozen=True, slots=True)
class Constant:
    """Constant for every row. False also stands for SQL's NULL."""

    value: bool

    def __str__(self) -> str:
        return str(self.value).upper()


@dataclass(frozen=True, slots=True)
class Unknown:
    """Part of a filter that cannot be decided: it keeps every row."""

    text: str
    # 0-based character in the filter's text at which the part begins.
    position: int | None = None
    # The cause, and a remedy if there is one.
    reason: str | None = None

    def __str__(self) -> str:
        return self.text


BoundPredicate: TypeAlias = BoundLeaf | BoundAnd | BoundOr | Constant | Unknown

ALWAYS_TRUE = Constant(value=True)
ALWAYS_FALSE = Constant(value=False)

_SYMBOLS = {
    Operator.EQUAL: "=",
    Operator.NOT_EQUAL: "<>",
    Operator.LESS_THAN: "<",
    Operator.LESS_OR_EQUAL: "<=",
    Operator.GREATER_THAN: ">",
    Operator.GREATER_OR_EQUAL: ">=",
}


def _joined(predicate: BoundAnd | BoundOr) -> str:
    def within(word: str) -> Callable[[Sequence[str]], str]:
        return lambda parts: f"({word.join(parts)})"

    return fold(predicate, str, within(" AND "), within(" OR "))[1:-1]


def shown_value(value: Value, field: DataField) -> str:
    """Format a value as SQL text for messages."""
    match to_json(value, field.type):
        case bool(truth):
            return str(truth).upper()
        case {"$hex": digits}:
            return f"X'{digits}'"
        case str(text) if field.type.root not in (TypeRoot.DECIMAL, TypeRoot.FLOAT, TypeRoot.DOUBLE):
            return f"'{text}'" if len(text) <= SHOWN_CHARACTERS else f"'{text[:SHOWN_CHARACTERS]}...'"
        case other:
            return str(other)


def fold(
    predicate: BoundPredicate,
    leaf: Callable[[BoundLeaf | Constant | Unknown], _Result],
    both: Callable[[Sequence[_Result]], _Result],
    either: Callable[[Sequence[_Result]], _Result],
) -> _Result:
    """Combine results bottom-up: ``both`` for AND, ``either`` for OR, ``leaf`` for the rest."""
    match predicate:
        case BoundAnd(children) | BoundOr(children):
            # map, not a comprehension, which would add a Python frame for each level of nesting.
            results = list(map(partial(fold, leaf=leaf, both=both, either=either), children))
            return both(results) if isinstance(predicate, BoundAnd) else either(results)
        case _:
            return leaf(predicate)


def conjuncts(predicate: BoundPredicate) -> tuple[BoundPredicate, ...]:
    """List the parts ANDed at the top, nested ANDs flattened; none for TRUE."""
    match predicate:
        case BoundAnd(children):
            return tuple(part for child in children for part in conjuncts(child))
        case Constant(value=True):
            return ()
        case _:
            return (predicate,)


def leaves(predicate: BoundPredicate) -> Iterator[BoundLeaf | Constant | Unknown]:
    """Yield the parts that are neither AND nor OR, in order."""
    pending = [predicate]
    while pending:
        match pending.pop():
            case BoundAnd(children) | BoundOr(children):
                pending.extend(reversed(children))
            case leaf:
                yield leaf


def shape_of(predicate: BoundPredicate) -> str:
    """Format a filter as text with ``?`` for literals, empty if it is long, constant, or tests map keys.

    An undecidable part becomes TRUE, which keeps every row, too.
    """
    parts = list(leaves(predicate))
    tests = [part for part in parts if isinstance(part, BoundLeaf)]
    # The text of an unknown part may contain literals.
    if not tests or len(parts) > _MAX_LEAVES or any("[" in test.field.name for test in tests):
        return ""
    shape = fold(
        predicate,
        _shape_of_leaf,
        lambda shapes: f"({' AND '.join(shapes)})",
        lambda shapes: f"({' OR '.join(shapes)})",
    )
    return shape if len(parts) == 1 else shape[1:-1]


def _shape_of_leaf(leaf: BoundLeaf | Constant | Unknown) -> str:
    match leaf:
        case BoundLeaf():
            name = "`" + leaf.field.name.replace("`", "``") + "`"
            return _TESTS[leaf.operator].format(name)
        case Constant(value=False):
            return "FALSE"
        case _:
            return "TRUE"


_TESTS: Final = {
    Operator.EQUAL: "{} = ?",
    Operator.NOT_EQUAL: "{} <> ?",
    Operator.LESS_THAN: "{} < ?",
    Operator.LESS_OR_EQUAL: "{} <= ?",
    Operator.GREATER_THAN: "{} > ?",
    Operator.GREATER_OR_EQUAL: "{} >= ?",
    Operator.IN: "{} IN (?, ?)",
    Operator.NOT_IN: "{} NOT IN (?, ?)",
    Operator.BETWEEN: "{} BETWEEN ? AND ?",
    Operator.IS_NULL: "{} IS NULL",
    Operator.IS_NOT_NULL: "{} IS NOT NULL",
    **dict.fromkeys(TEXT_TESTS, "{} LIKE ?"),
}
