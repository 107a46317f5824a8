"""Reads one condition of Spark SQL that tests a column by literals.

::

    test     = operand [ comparison operand
                       | IS [NOT] ( NULL | UNKNOWN | TRUE | FALSE | DISTINCT FROM operand )
                       | [NOT] ( IN "(" operand { "," operand } ")"
                               | BETWEEN operand AND operand
                               | LIKE operand [ ESCAPE string ] ) ]
             | function "(" operand [ "," operand ] ")"

Operands are read in :mod:`app.predicates.sql.operands`. What has another form may still be a condition;
it is somebody else's matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from app.errors import FilterError
from app.predicates.like import read_pattern, write_pattern
from app.predicates.limits import LiteralCount
from app.predicates.literal_lists import joined_literals
from app.predicates.model import Operator
from app.predicates.sql.operands import Operand, OperandReader
from app.predicates.sql.tokens import Token
from app.predicates.unbound import (
    And,
    Column,
    Constant,
    Flag,
    Leaf,
    Literal,
    LiteralKind,
    Not,
    Predicate,
    Unknown,
    shorten,
)
from app.types.session_zone import SessionZone

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
_FOLDABLE: Final = frozenset(
    {
        LiteralKind.BOOLEAN,
        LiteralKind.NUMBER,
        LiteralKind.STRING,
        LiteralKind.BINARY,
        LiteralKind.DATE,
        LiteralKind.TIMESTAMP_NTZ,
    }
)
"""Kinds whose values Python compares as Spark does."""


def read_test(
    tokens: Sequence[Token], text: str, count: LiteralCount, zone: SessionZone | None
) -> Predicate | None:
    """Reads all of ``tokens`` as one test; None if they do not have the form of one.

    Args:
        tokens: one or more tokens, END not among them.
        text: what they were cut from.
        count: counts the literals of the test.
        zone: the time zone of the caller's session; None if it is not known.

    Raises:
        FilterError: a literal has no value, or a value stands where a condition belongs.
        LimitExceededError: the filter has too many literals.
    """
    operands = OperandReader(tokens, zone)
    predicate = _TestReader(operands, text).test()
    if predicate is None or not operands.finished:
        return None
    count.add(operands.literals)
    return predicate


class _TestReader:
    """Reads one test; every method answers None where the form is another."""

    def __init__(self, operands: OperandReader, text: str) -> None:
        self._operands = operands
        self._start = operands.position
        self._text = text

    def test(self) -> Predicate | None:
        """The test."""
        function = self._operands.take_call(_FUNCTIONS)
        if function is not None:
            return self._call(_FUNCTIONS[function])
        left = self._operands.operand()
        if left is None:
            return None
        if self._operands.finished:
            return _alone(left, shorten(self._text))
        symbol = self._operands.take_any(_COMPARISONS)
        if symbol is not None:
            right = self._operands.operand()
            return None if right is None else self._comparison(symbol, left, right)
        if self._operands.take("IS"):
            return self._is(left)
        negated = self._take_not()
        match self._operands.take_any(("IN", "BETWEEN", "LIKE")):
            case "IN":
                found = self._listed(left)
            case "BETWEEN":
                found = self._range(left)
            case "LIKE":
                found = self._like(left)
            case _:
                found = None
        return Not(found) if negated and found is not None else found

    def _take_not(self) -> bool:
        """Steps over NOT; the text of the test is from then on that of its opposite."""
        start = self._operands.position
        if not self._operands.take("NOT"):
            return False
        self._text = self._text[: start - self._start] + self._text[self._operands.position - self._start :]
        return True

    def _call(self, operator: Operator) -> Predicate | None:
        column = self._operands.operand()
        literals: tuple[Literal, ...] = ()
        if operator not in (Operator.IS_NULL, Operator.IS_NOT_NULL):
            needle = self._operands.operand() if self._operands.take(",") else None
            if not isinstance(needle, Literal):
                return None
            literals = (needle,)
        if not isinstance(column, Column) or not self._operands.take(")"):
            return None
        return self._leaf(operator, column, *literals)

    def _comparison(self, symbol: str, left: Operand, right: Operand) -> Predicate:
        operator, null_safe = _COMPARISONS[symbol], symbol == _NULL_SAFE
        match left, right:
            case Column() as column, Literal() as literal:
                return self._leaf(operator, column, literal, null_safe=null_safe)
            case Literal() as literal, Column() as column:
                return self._leaf(_MIRRORED.get(operator, operator), column, literal, null_safe=null_safe)
            case Literal() as one, Literal() as other:
                return _fold(operator, one, other, shorten(self._text), null_safe=null_safe)
            case _:
                columns = tuple(each for each in (left, right) if isinstance(each, Column))
                return Unknown(shorten(self._text), columns)

    def _leaf(self, operator: Operator, column: Column, *literals: Literal, null_safe: bool = False) -> Leaf:
        if null_safe and literals[0].kind is LiteralKind.NULL:
            return Leaf(Operator.IS_NULL, column, (), shorten(self._text))
        return Leaf(operator, column, literals, shorten(self._text), null_safe=null_safe)

    def _is(self, left: Operand) -> Predicate | None:
        negated = self._operands.take("NOT")
        if self._operands.take("NULL") or self._operands.take("UNKNOWN"):
            null = Literal(LiteralKind.NULL, None)
            found: Predicate | None = self._comparison(_NULL_SAFE, left, null)
        elif self._operands.take("TRUE"):
            found = self._comparison(_NULL_SAFE, left, Literal(LiteralKind.BOOLEAN, value=True))
        elif self._operands.take("FALSE"):
            found = self._comparison(_NULL_SAFE, left, Literal(LiteralKind.BOOLEAN, value=False))
        elif self._operands.take("DISTINCT") and self._operands.take("FROM"):
            negated = not negated
            right = self._operands.operand()
            found = None if right is None else self._comparison(_NULL_SAFE, left, right)
        else:
            return None
        return Not(found) if negated and found is not None else found

    def _listed(self, left: Operand) -> Predicate | None:
        if not isinstance(left, Column) or not self._operands.take("("):
            return None
        if self._operands.take(")"):
            raise FilterError("IN takes one or more values", position=left.position)
        parts: list[Sequence[Literal]] = []
        while True:
            if (several := self._operands.listed()) is not None:
                parts.append(several)
            else:
                literal = self._operands.operand()
                if not isinstance(literal, Literal):
                    return None
                parts.append((literal,))
            if not self._operands.take(","):
                break
        if not self._operands.take(")"):
            return None
        return Leaf(Operator.IN, left, joined_literals(parts), shorten(self._text))

    def _range(self, tested: Operand) -> Predicate | None:
        low = self._operands.operand()
        high = self._operands.operand() if self._operands.take("AND") else None
        if low is None or high is None:
            return None
        if isinstance(tested, Column) and isinstance(low, Literal) and isinstance(high, Literal):
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


def _alone(operand: Operand, text: str) -> Predicate:
    """An operand that is the whole test."""
    match operand:
        case Column():
            return Flag(operand)
        case Literal(kind=LiteralKind.BOOLEAN | LiteralKind.NULL, value=value):
            return Constant(value)  # type: ignore[arg-type] # a boolean or None by its kind
        case Literal(position=position):
            raise FilterError(f"{text} is not a condition", position=position)


def _fold(operator: Operator, left: Literal, right: Literal, text: str, *, null_safe: bool) -> Predicate:
    """A comparison of two literals, such as ``1 = 1``."""
    one: Any = left.value
    other: Any = right.value
    if one is None or other is None:
        return Constant(one is other if null_safe else None)
    if left.kind is not right.kind or left.kind not in _FOLDABLE:
        return Unknown(text)
    match operator:
        case Operator.EQUAL:
            return Constant(one == other)
        case Operator.NOT_EQUAL:
            return Constant(one != other)
        case Operator.LESS_THAN:
            return Constant(one < other)
        case Operator.LESS_OR_EQUAL:
            return Constant(one <= other)
        case Operator.GREATER_THAN:
            return Constant(one > other)
        case _:
            return Constant(one >= other)
