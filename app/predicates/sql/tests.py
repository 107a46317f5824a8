"""Reads one test of a column by literals in Spark SQL.

::

    test     = operand [ comparison operand
                       | IS [NOT] ( NULL | UNKNOWN | TRUE | FALSE | DISTINCT FROM operand )
                       | [NOT] ( IN "(" operand { "," operand } ")"
                               | BETWEEN operand AND operand
                               | LIKE operand [ ESCAPE string ] ) ]
             | function "(" operand [ "," operand ] ")"

Operands are read in :mod:`app.predicates.sql.operands`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from app.errors import FilterError
from app.predicates.like import read_pattern, write_pattern
from app.predicates.model import Operator
from app.predicates.sql.operands import WORD_LITERALS, Operand, OperandReader, named_moment
from app.predicates.sql.reasons import TWO_COLUMNS
from app.predicates.unbound import (
    And,
    Call,
    Column,
    Constant,
    Flag,
    Leaf,
    Literal,
    LiteralKind,
    Not,
    Predicate,
    Unknown,
    joined_literals,
    shorten,
)

_NULL_SAFE: Final = "<=>"
_COMPARISONS: Final = {
    "=": Operator.EQUAL,
    "==": Operator.EQUAL,
    _NULL_SAFE: Operator.EQUAL,
    "<>": Operator.NOT_EQUAL,
    "!=": Operator.NOT_EQUAL,
    "<": Operator.LESS_THAN,
    "<=": Operator.LESS_OR_EQUAL,
    "!>": Operator.LESS_OR_EQUAL,
    ">": Operator.GREATER_THAN,
    ">=": Operator.GREATER_OR_EQUAL,
    "!<": Operator.GREATER_OR_EQUAL,
}
_ORDER: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    Operator.EQUAL: operator.eq,
    Operator.NOT_EQUAL: operator.ne,
    Operator.LESS_THAN: operator.lt,
    Operator.LESS_OR_EQUAL: operator.le,
    Operator.GREATER_THAN: operator.gt,
    Operator.GREATER_OR_EQUAL: operator.ge,
}
_MIRRORED: Final = {
    Operator.LESS_THAN: Operator.GREATER_THAN,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER_THAN: Operator.LESS_THAN,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}
_FUNCTIONS: Final = {
    "CONTAINS": Operator.CONTAINS,
    "ENDSWITH": Operator.ENDS_WITH,
    "ISNOTNULL": Operator.IS_NOT_NULL,
    "ISNULL": Operator.IS_NULL,
    "STARTSWITH": Operator.STARTS_WITH,
}
# Kinds whose values Python compares differently from Spark.
_UNFOLDED: Final = frozenset(
    {LiteralKind.FLOAT, LiteralKind.DOUBLE, LiteralKind.TIMESTAMP_LTZ, LiteralKind.MOMENT}
)
_LITERALS_ALONE: Final = "it compares two literals, by rules of Spark that are not read here"
_BEHIND_IS: Final = {**WORD_LITERALS, "UNKNOWN": WORD_LITERALS["NULL"]}


def read_test(operands: OperandReader, text: str) -> Predicate | None:
    """Read a test at the current token; None if another condition begins there.

    FilterError: a value is missing, invalid, or is where a condition belongs; or a word cannot follow an
    operand.
    """
    return _TestReader(operands, text).test()


class _TestReader:
    """Reads one test; methods return None where another form begins."""

    def __init__(self, operands: OperandReader, text: str) -> None:
        self._operands = operands
        self._text = text
        self._position = self._begin = operands.next.start
        self._head = ""

    def test(self) -> Predicate | None:
        function = self._operands.take_call(_FUNCTIONS)
        if function is not None:
            return self._call(_FUNCTIONS[function])
        left = self._operands.operand()
        if left is None:
            return None
        if self._operands.ends_test():
            return _alone(left, self._written())
        symbol = self._operands.take_any(_COMPARISONS)
        if symbol is not None:
            right = self._operands.operand()
            return None if right is None else self._comparison(symbol, left, right)
        if self._operands.take("IS"):
            return self._is(left)
        negated = self._take_not()
        match self._operands.take_any(("IN", "BETWEEN", "LIKE")):
            case "IN":
                test = self._listed(left)
            case "BETWEEN":
                test = self._range(left)
            case "LIKE":
                test = self._like(left)
            case _:
                self._operands.refuse_values("a test such as = or IN, AND or OR")
                test = None
        return Not(test) if negated and test is not None else test

    def _take_not(self) -> bool:
        start = self._operands.next.start
        if not self._operands.take("NOT"):
            return False
        # The text of the test leaves NOT out from here on.
        self._head, self._begin = self._text[self._begin : start], self._operands.next.start
        return True

    def _written(self) -> str:
        return shorten(self._head + self._text[self._begin : self._operands.last.end])

    def _undecided(self, reason: str, *operands: Operand) -> Unknown:
        columns = [operand.column if isinstance(operand, Call) else operand for operand in operands]
        named = tuple(column for column in columns if isinstance(column, Column))
        return Unknown(self._written(), named, self._position, reason)

    def _call(self, test: Operator) -> Predicate | None:
        column = self._operands.operand()
        literals: tuple[Literal, ...] = ()
        if test not in (Operator.IS_NULL, Operator.IS_NOT_NULL):
            needle = self._operands.operand() if self._operands.take(",") else None
            if not isinstance(needle, Literal):
                return None
            literals = (needle,)
        if not isinstance(column, Column) or not self._operands.take(")"):
            return None
        return self._leaf(test, column, *literals)

    def _comparison(self, symbol: str, left: Operand, right: Operand) -> Predicate:
        comparison, null_safe = _COMPARISONS[symbol], symbol == _NULL_SAFE
        match left, right:
            case Column() | Call() as tested, Literal() as literal:
                return self._leaf(comparison, tested, literal, null_safe=null_safe)
            case Literal() as literal, Column() | Call() as tested:
                mirrored = _MIRRORED.get(comparison, comparison)
                return self._leaf(mirrored, tested, literal, null_safe=null_safe)
            case tested, Column() as column if (moment := named_moment(column)) is not None:
                return self._comparison(symbol, tested, moment)
            case Column() as column, tested if (moment := named_moment(column)) is not None:
                return self._comparison(symbol, moment, tested)
            case Literal(value=one), Literal(value=other) if one is None or other is None:
                return Constant(one is other if null_safe else None)
            case Literal(kind=kind, value=one), Literal(value=other):
                if kind is not right.kind or kind in _UNFOLDED:
                    return self._undecided(_LITERALS_ALONE)
                return Constant(_ORDER[comparison](one, other))
            case _:
                return self._undecided(TWO_COLUMNS, left, right)

    def _leaf(
        self, test: Operator, tested: Column | Call, *literals: Literal, null_safe: bool = False
    ) -> Leaf:
        if null_safe and literals[0].kind is LiteralKind.NULL:
            return self._leaf(Operator.IS_NULL, tested)
        column, call = (tested, None) if isinstance(tested, Column) else (tested.column, tested)
        return Leaf(test, column, literals, self._written(), null_safe=null_safe, call=call)

    def _is(self, left: Operand) -> Predicate | None:
        negated = self._take_not()
        behind = self._operands.next.start
        right: Operand | None = None
        if word := self._operands.take_any(_BEHIND_IS):
            right = _BEHIND_IS[word]
        elif self._operands.take("DISTINCT") and self._operands.take("FROM"):
            # The test is <=>, which is IS NOT DISTINCT FROM.
            self._head = f"{self._head or self._text[self._begin : behind]}NOT "
            self._begin = behind
            negated, right = not negated, self._operands.operand()
        if right is None:
            return None
        test = self._comparison(_NULL_SAFE, left, right)
        return Not(test) if negated else test

    def _listed(self, left: Operand) -> Predicate | None:
        if isinstance(left, Literal) or not self._operands.take("("):
            return None
        if self._operands.take(")"):
            column = left.column if isinstance(left, Call) else left
            raise FilterError("IN takes one or more values", position=column.position)
        parts = self._list_parts()
        if parts is None or not self._operands.take(")"):
            return None
        columns = [part for part in parts if isinstance(part, Column | Call)]
        if columns:
            return self._undecided(TWO_COLUMNS, left, *columns)
        literals = [part for part in parts if not isinstance(part, Column | Call)]
        leaf = self._leaf(Operator.IN, left)
        return replace(leaf, literals=joined_literals(literals))

    def _list_parts(self) -> list[Sequence[Literal] | Column | Call] | None:
        parts: list[Sequence[Literal] | Column | Call] = []
        while True:
            part: Sequence[Literal] | Operand | None = self._operands.listed()
            if part is None:
                part = self._operands.operand()
            if part is None:
                return None
            parts.append((part,) if isinstance(part, Literal) else part)
            if not self._operands.take(","):
                return parts

    def _range(self, tested: Operand) -> Predicate | None:
        low = self._operands.operand()
        if low is None or not self._operands.take("AND"):
            if low is not None and self._operands.ends_test():
                self._operands.refuse("AND and the upper end of BETWEEN")
            return None
        high = self._operands.operand()
        if high is None:
            return None
        if not isinstance(tested, Literal) and isinstance(low, Literal) and isinstance(high, Literal):
            return self._leaf(Operator.BETWEEN, tested, low, high)
        return And((self._comparison(">=", tested, low), self._comparison("<=", tested, high)))

    def _like(self, left: Operand) -> Predicate | None:
        pattern = self._operands.operand()
        if (
            not isinstance(left, Column)
            or not isinstance(pattern, Literal)
            or pattern.kind not in (LiteralKind.STRING, LiteralKind.NULL)
        ):
            return None
        if not self._operands.take("ESCAPE"):
            return self._leaf(Operator.LIKE, left, pattern)
        escape = self._operands.operand()
        if not isinstance(escape, Literal) or not isinstance(escape.value, str) or len(escape.value) != 1:
            return None
        if isinstance(pattern.value, str):
            rewritten = write_pattern(read_pattern(pattern.value, escape.value)).decode()
            pattern = Literal(LiteralKind.STRING, rewritten, pattern.position)
        return self._leaf(Operator.LIKE, left, pattern)


def _alone(operand: Operand, text: str) -> Predicate | None:
    """Read an operand that is the whole condition; None where only Spark can tell."""
    match operand:
        case Call():
            return None
        case Column():
            return Flag(operand)
        case Literal(kind=LiteralKind.BOOLEAN | LiteralKind.NULL, value=value):
            return Constant(value)  # type: ignore[arg-type] # a boolean or None by its kind
        case Literal(position=position):
            raise FilterError(f"{text} is not a condition", position=position)
