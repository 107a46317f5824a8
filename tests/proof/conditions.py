"""Random conditions over random columns, in SQL and in JSON, and what they are for every value at once.

What a test is for a value, :mod:`tests.filters` and :mod:`tests.char_meaning` tell, value by value; joined
by SQL's three-valued logic they are columns of small numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from random import Random
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.types import DataType, Json, TypeRoot, Value, sql_key
from app.types.data_types import FLOATING_ROOTS, INTEGER_BITS, STRING_ROOTS, TIMESTAMP_ROOTS
from tests.char_meaning import SYMBOLS, TEXT_TESTS, CharTest
from tests.filters import Test
from tests.proof.columns import Column, random_values

Truths: TypeAlias = "NDArray[np.int8]"
"""0 for false, 1 for NULL, 2 for true."""

FALSE, UNKNOWN, TRUE = 0, 1, 2
_OF_ACTUAL: Final = {False: FALSE, None: UNKNOWN, True: TRUE}
_ENDS: Final = (Decimal((1 << 63) - 1), Decimal(1 << 63), Decimal(1 << 31), Decimal(1 << 15), Decimal(1 << 7))
"""At and beyond the ends of types."""
_PATTERNS: Final = ("a%", "%b", "%", "_", "a_%", "ab", "%b%", "a\\%", "é%", "", "%a%c", "__")


@dataclass(frozen=True, eq=False)
class OfOneColumn(ABC):
    """A condition on one column.

    Attributes:
        at: which column of the table.
        column: the column.
    """

    at: int
    column: Column

    @cached_property
    def by_code(self) -> Truths:
        """What it is for each code of the column."""
        return np.array([_OF_ACTUAL[self._truth(value)] for value in self.column.read], np.int8)

    def truths(self, codes: NDArray[np.int16]) -> Truths:
        return self.by_code[codes[:, self.at]]

    @abstractmethod
    def _truth(self, value: Value | None) -> bool | None:
        """Return what it is for a value."""


@dataclass(frozen=True, eq=False)
class Single(OfOneColumn):
    """A test of one column.

    Attributes:
        function: by the names of the JSON form.
        literals: in the type of the column.
    """

    function: str
    literals: tuple[Value | None, ...]

    @property
    def sql(self) -> str:
        if self._is_char:
            return self._char.text(quoted(self.column.field.name))
        return self._plain.text()

    @property
    def json(self) -> Json:
        return self._char.json(self.column.field.name) if self._is_char else self._plain.json()

    @property
    def has_sql(self) -> bool:
        data_type = self.column.field.type
        cut = data_type.root in TIMESTAMP_ROOTS and data_type.precision > 6
        return not self.literals or not (data_type.root is TypeRoot.TIME or cut)

    @property
    def pads(self) -> bool:
        return self._is_char

    def _truth(self, value: Value | None) -> bool | None:
        if self._is_char and value is not None:
            assert isinstance(value, bytes)
            return self._char.spark(value.decode(), self.column.field.type.precision)
        if self._is_char:
            return None
        return self._plain.truth({self.column.id: value})

    @property
    def _is_char(self) -> bool:
        return self.column.field.type.root is TypeRoot.CHAR and bool(self.literals)

    @cached_property
    def _plain(self) -> Test:
        return Test(self.function, self.column.field, self.literals)

    @cached_property
    def _char(self) -> CharTest:
        return CharTest(self.function, tuple(bytes(each).decode() for each in self.literals))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Written(OfOneColumn):
    """A comparison with a literal of another type than the column's, as text alone can have it.

    Attributes:
        number: what the literal is.
        literal: how it is written.
    """

    symbol: str
    number: Decimal | float
    literal: str
    has_sql: bool = True
    pads: bool = False
    json: None = None

    @property
    def sql(self) -> str:
        return f"{quoted(self.column.field.name)} {self.symbol} {self.literal}"

    def _truth(self, value: Value | None) -> bool | None:
        data_type = self.column.field.type
        if self._is_folded:
            # Spark makes a constant of it, for NULL as well.
            return _compared(self.symbol, Decimal(0), self.number)
        if value is None:
            return None
        left: Any
        right: Any
        if isinstance(self.number, float) or data_type.root in FLOATING_ROOTS:
            key = sql_key(DataType(TypeRoot.DOUBLE))
            left, right = key(_double(value, data_type)), key(float(self.number))
        else:
            left, right = Decimal(int(value)).scaleb(-data_type.scale), self.number
        return _compared(self.symbol, left, right)

    @property
    def _is_folded(self) -> bool:
        is_beyond = isinstance(self.number, Decimal) and not -_ENDS[1] <= self.number <= _ENDS[0]
        is_order = self.symbol in ("<", "<=", ">", ">=")
        return self.column.field.type.root in INTEGER_BITS and is_beyond and is_order


def _double(value: Value, data_type: DataType) -> float:
    return float(Decimal(int(value)).scaleb(-data_type.scale)) if data_type.scale else float(value)


def _compared(symbol: str, left: Any, right: Any) -> bool:
    return bool(
        {
            "=": left == right,
            "<>": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }[symbol]
    )


@dataclass(frozen=True, eq=False)
class Joined:
    """AND, OR or NOT of conditions."""

    function: str
    children: tuple[Condition, ...]

    def truths(self, codes: NDArray[np.int16]) -> Truths:
        found = [child.truths(codes) for child in self.children]
        match self.function:
            case "NOT":
                return np.int8(TRUE) - found[0]
            case "AND":
                joined: Truths = np.min(np.stack(found), axis=0)
            case _:
                joined = np.max(np.stack(found), axis=0)
        return joined

    @property
    def sql(self) -> str:
        if self.function == "NOT":
            return f"NOT ({self.children[0].sql})"
        return f" {self.function} ".join(f"({child.sql})" for child in self.children)

    @property
    def json(self) -> Json:
        children = [child.json for child in self.children]
        if self.function == "NOT" or None in children:
            return None
        return {"kind": "COMPOUND", "function": self.function, "children": children}

    @property
    def has_sql(self) -> bool:
        return all(child.has_sql for child in self.children)

    @property
    def pads(self) -> bool:
        return any(child.pads for child in self.children)


Condition: TypeAlias = Single | Written | Joined


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def both(*children: Condition) -> Condition:
    return Joined("AND", children)


def either(*children: Condition) -> Condition:
    return Joined("OR", children)


def negated(condition: Condition) -> Condition:
    return Joined("NOT", (condition,))


def is_null(at: int, column: Column) -> Condition:
    return Single(at, column, "IS_NULL", ())


def random_condition(
    rng: Random, columns: Sequence[Column], often: Sequence[int] = (), depth: int = 0
) -> Condition:
    if depth < 3 and rng.random() < 0.45 - 0.1 * depth:
        kind = rng.choice(["AND", "AND", "OR", "OR", "NOT"])
        count = 1 if kind == "NOT" else rng.randint(2, 3)
        return Joined(kind, tuple(random_condition(rng, columns, often, depth + 1) for _ in range(count)))
    if often and rng.random() < 0.4:
        at = rng.choice(often)
        return random_test(rng, at, columns[at], pinned=True)
    at = rng.randrange(len(columns))
    return random_test(rng, at, columns[at])


def random_test(rng: Random, at: int, column: Column, *, pinned: bool = False) -> Condition:
    """Any test of a column, or one that holds it to values."""
    data_type = column.field.type
    numeric = data_type.root in INTEGER_BITS or data_type.root is TypeRoot.DECIMAL
    if not pinned and rng.random() < 0.15 and (numeric or data_type.root in FLOATING_ROOTS):
        return _written(rng, at, column)
    functions = ["EQUAL", "EQUAL", "EQUAL", "IN"]
    if not pinned:
        functions += ["NOT_EQUAL", "LESS_THAN", "LESS_OR_EQUAL", "GREATER_THAN", "GREATER_OR_EQUAL"]
        functions += ["IS_NULL", "IS_NOT_NULL", "NOT_IN", "BETWEEN", "NOT_BETWEEN", "IN"]
        if data_type.root in STRING_ROOTS:
            functions += [*TEXT_TESTS, "LIKE", "LIKE"]
    function = rng.choice(functions)
    match function:
        case "IS_NULL" | "IS_NOT_NULL":
            literals: tuple[Value | None, ...] = ()
        case "LIKE":
            literals = (rng.choice(_PATTERNS).encode(),)
        case "IN" | "NOT_IN":
            literals = tuple(_literal(rng, column) for _ in range(rng.choice([1, 2, 3, 5, 40])))
        case "BETWEEN" | "NOT_BETWEEN":
            literals = (_literal(rng, column), _literal(rng, column))
        case _:
            literals = (_literal(rng, column),)
    return Single(at, column, function, literals)


def _literal(rng: Random, column: Column) -> Value | None:
    data_type = column.field.type
    if rng.random() < 0.03 and data_type.root is not TypeRoot.CHAR:
        return None
    present = column.read[1:]
    if present and rng.random() < 0.7:
        return rng.choice(present)
    return random_values(rng, data_type, 1)[0]


def _written(rng: Random, at: int, column: Column) -> Condition:
    data_type = column.field.type
    symbol = rng.choice(list(SYMBOLS.values()))
    number = Decimal(rng.randint(-90, 90)).scaleb(-rng.choice([0, 1, 1]))
    present = [each for each in column.read[1:] if each is not None]
    if present and rng.random() < 0.5:
        value = rng.choice(present)
        if data_type.root in FLOATING_ROOTS:
            number = Decimal(str(value)) if math.isfinite(value) and abs(float(value)) < 99 else number  # type: ignore[arg-type]
        else:
            number = Decimal(int(value)).scaleb(-data_type.scale)
    if data_type.root not in FLOATING_ROOTS and rng.random() < 0.15:
        beyond = rng.choice([*_ENDS, *(end + Decimal("0.5") for end in _ENDS)]) * rng.choice([1, -1])
        return Written(at, column, symbol, beyond, format(beyond, "f"))
    if data_type.root in FLOATING_ROOTS and rng.random() < 0.3:
        name = rng.choice(["NaN", "Infinity", "-Infinity", "0.1"])
        return Written(at, column, symbol, float(name), name if name == "0.1" else f"'{name}'")
    return Written(at, column, symbol, number, format(number, "f"))
