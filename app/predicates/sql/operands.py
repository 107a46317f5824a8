"""Reads the operands of a test in Spark SQL: columns, keys of maps, literals, calls.

::

    operand  = "(" operand ")" | sum | call
    sum      = product { ( "+" | "-" ) ( product | interval ) }
    product  = bare { "*" bare }
    bare     = column [ "[" string "]" ] | literal | moment
    column   = name { "." name }
    call     = function "(" argument { "," argument } ")", one of them a column; the functions are below
             | ( CAST | TRY_CAST ) "(" column AS DATE ")" | column "::" DATE
    moment   = CURRENT_DATE | CURRENT_TIMESTAMP | ( CURRENT_DATE | CURDATE | CURRENT_TIMESTAMP | NOW ) "(" ")"
             | ( DATE_ADD | DATE_SUB | ADD_MONTHS ) "(" sum "," sum ")"
    literal  = { "+" | "-" } number | string { string } | type string | TRUE | FALSE | NULL
             | ( CAST | TRY_CAST ) "(" literal AS type [ "(" number [ "," number ] ")" ] ")"
             | literal "::" type

:mod:`app.predicates.sql.literals` adds literals and moments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final, TypeAlias

from app.predicates.sql.literals import (
    added,
    cast_literal,
    integer_literal,
    is_int,
    multiplied,
    negate,
    read_interval,
    read_list,
    read_number,
    read_string,
    typed_literal,
)
from app.predicates.sql.tokens import OPERATORS, Token, TokenKind, TokenReader
from app.predicates.unbound import Call, Column, ColumnFunction, Interval, Literal, LiteralKind, Moment
from app.types.session_zone import SessionZone

Operand: TypeAlias = Column | Literal | Call

# Literals of one word, without positions.
WORD_LITERALS: Final = {
    "TRUE": Literal(LiteralKind.BOOLEAN, value=True),
    "FALSE": Literal(LiteralKind.BOOLEAN, value=False),
    "NULL": Literal(LiteralKind.NULL, None),
}
# Signs that begin an expression but no operand.
_PREFIXES: Final = frozenset({"(", "*", "~", "!"})
# Words that never begin an expression, unless they are names.
_BEHIND_NAMES: Final = frozenset({*OPERATORS, "AND", "OR", "THEN", "ELSE", "END"}) - {"NOT"}
_NUMERIC: Final = frozenset({LiteralKind.NUMBER, LiteralKind.FLOAT, LiteralKind.DOUBLE, LiteralKind.NULL})
_SIGNS: Final = frozenset({"+", "-", "*"})
_TYPE_ARGUMENT: Final = re.compile(r"[0-9]{1,3}")
# Forms of each function's arguments: c is the column, t a text, n a number.
_COLUMN_FUNCTIONS: Final = {
    "DATE": (ColumnFunction.DATE, ("c",)),
    "DATE_FORMAT": (ColumnFunction.DATE_FORMAT, ("ct",)),
    "DATE_TRUNC": (ColumnFunction.DATE_TRUNC, ("tc",)),
    "LEFT": (ColumnFunction.SUBSTRING, ("cn",)),
    "MONTH": (ColumnFunction.MONTH, ("c",)),
    "SUBSTR": (ColumnFunction.SUBSTRING, ("cn", "cnn")),
    "SUBSTRING": (ColumnFunction.SUBSTRING, ("cn", "cnn")),
    "TO_DATE": (ColumnFunction.DATE, ("c", "ct")),
    "YEAR": (ColumnFunction.YEAR, ("c",)),
}
_NAMED_MOMENTS: Final = {"CURRENT_DATE": True, "CURRENT_TIMESTAMP": False}
# Functions of the clock, and whether they return a day; the named ones need no parentheses.
_MOMENTS: Final = {**_NAMED_MOMENTS, "CURDATE": True, "NOW": False}
_DATE_MOVES: Final = {
    "DATE_ADD": Interval(days=1),
    "DATE_SUB": Interval(days=-1),
    "ADD_MONTHS": Interval(months=1),
}
# Prefixes of strings in other databases; Spark has none of them.
_FOREIGN_PREFIXES: Final = frozenset({"B", "E", "N", "Q"})


class OperandReader(TokenReader):
    """Reads operands from left to right.

    ``doubles_quotes``: two adjacent quotes are one within the string, as in Spark from 4.1 on; earlier
    releases end one string and begin the next.
    """

    def __init__(self, tokens: Sequence[Token], zone: SessionZone | None) -> None:
        super().__init__(tokens)
        self.literals = 0
        self.doubles_quotes = False
        self.met_doubled = False
        self._zone = zone
        self._in_call = False

    def operand(self) -> Operand | None:
        """Read a column, literal or call in any number of parentheses; None for anything else.

        FilterError: no expression can begin here, or a literal has no value.
        """
        opened = 0
        while self.take("("):
            opened += 1
        operand = self._sum()
        closed = all(self.take(")") for _ in range(opened))
        if isinstance(operand, Literal):
            self.literals += 1
        return operand if closed else None

    def _sum(self) -> Operand | None:
        start = self.at
        first = self._product()
        if not isinstance(first, Literal) or self.next.word not in ("+", "-"):
            return first
        total: Literal | int | None = self._whole(first, start)
        while total is not None and (sign := self.take_any(("+", "-"))):
            self.literals += 1
            behind = self.at
            other = self._interval() if self.next.word == "INTERVAL" else self._product()
            right = self._whole(other, behind) if isinstance(other, Literal) else other
            total = added(total, right, negative=sign == "-")
        return integer_literal(total, first.position) if isinstance(total, int) else total

    def _product(self) -> Operand | None:
        start = self.at
        first = self._bare_operand()
        if not isinstance(first, Literal) or self.next.word != "*":
            return first
        total: Literal | int | None = self._whole(first, start)
        while total is not None and self.take("*"):
            self.literals += 1
            behind = self.at
            other = self._bare_operand()
            total = multiplied(total, self._whole(other, behind)) if isinstance(other, Literal) else None
        return integer_literal(total, first.position) if isinstance(total, int) else total

    def _whole(self, literal: Literal, start: int) -> Literal | int:
        """Return the integer if there are only plain INTs since ``start``; otherwise the literal."""
        for token in self.tokens[start : self.at]:
            is_number = token.kind is TokenKind.NUMBER and token.text.isdecimal()
            if token.word not in _SIGNS and not (is_number and is_int(int(token.text))):
                return literal
        return int(literal.value) if isinstance(literal.value, Decimal) else literal

    def _interval(self) -> Interval | None:
        self.at += 1
        negative = False
        while (sign := self.next.word) in ("+", "-"):
            negative ^= sign == "-"
            self.at += 1
        token = self.next
        if token.kind not in (TokenKind.STRING, TokenKind.NUMBER):
            return None
        self.at += 1
        text = token.text if token.kind is TokenKind.NUMBER else token.text[1:-1]
        count, _, unit = text.strip().partition(" ")
        if not unit and self.next.kind is TokenKind.WORD:
            unit = self.next.word
            self.at += 1
        # More units, or a range of units, follow.
        goes_on = self.next.kind in (TokenKind.NUMBER, TokenKind.STRING) or self.next.word == "TO"
        return None if goes_on else read_interval(count, unit, negative=negative)

    def listed(self) -> Sequence[Literal] | None:
        """Read the values of a LIST token; None at another token."""
        token = self.tokens[self.at]
        if token.kind is not TokenKind.LIST:
            return None
        self.at += 1
        literals = read_list(token.text, token.start)
        self.literals += len(literals)
        return literals

    def _bare_operand(self) -> Operand | None:
        start = self.next.start
        operand = self._before_cast()
        while operand is not None and self.take("::"):
            operand = self._to_type(operand, start)
        return operand

    def _before_cast(self) -> Operand | None:
        token = self.next
        match token.kind:
            case TokenKind.NUMBER:
                self.at += 1
                return read_number(token.text, token.start)
            case TokenKind.STRING:
                text = self._strings()
                return None if text is None else Literal(LiteralKind.STRING, text, token.start)
            case TokenKind.QUOTED:
                return self._column()
            case TokenKind.WORD if token.word not in ("AND", "OR"):
                return self._word(token, self.tokens[self.at + 1])
            case TokenKind.SYMBOL if token.word in ("+", "-"):
                return self._signed()
            case _:
                if token.kind is not TokenKind.LIST and token.word not in _PREFIXES:
                    self.refuse("a value")
                return None

    def _word(self, token: Token, behind: Token) -> Operand | None:
        if begins_case(self.tokens, self.at):
            return None
        if behind.kind is TokenKind.STRING:
            if token.word in _FOREIGN_PREFIXES:
                self.refuse("a string without a letter before its quotes")
            self.at += 1
            text = self._strings()
            return None if text is None else typed_literal(token.word, text, token.start, self._zone)
        if behind.word == "(":
            return self._call(token)
        if token.word in WORD_LITERALS:
            self.at += 1
            return replace(WORD_LITERALS[token.word], position=token.start)
        is_interval = token.word == "INTERVAL" and behind.kind is TokenKind.NUMBER
        if token.word in _NAMED_MOMENTS and behind.word in ("+", "-"):
            return named_moment(self._column())
        return None if is_interval else self._column()

    def _call(self, name: Token) -> Operand | None:
        # Operands nest no further functions.
        if self._in_call and name.word not in _MOMENTS:
            return None
        if self.take_call(_MOMENTS):
            moment = Literal(LiteralKind.MOMENT, Moment(_MOMENTS[name.word]), name.start)
            return moment if self.take(")") else None
        self._in_call = True
        try:
            if name.word in ("CAST", "TRY_CAST"):
                return self._cast()
            if self.take_call(_DATE_MOVES):
                return self._moved_date(name)
            if self.take_call(_COLUMN_FUNCTIONS):
                return self._function(name)
            return None
        finally:
            self._in_call = False

    def _function(self, name: Token) -> Operand | None:
        function, forms = _COLUMN_FUNCTIONS[name.word]
        column, form, arguments = None, "", self._arguments()
        values: list[int | str] = [1] if name.word == "LEFT" else []
        for argument in arguments:
            match argument:
                case Literal() if function is ColumnFunction.DATE and len(arguments) == 1:
                    return cast_literal(argument, "DATE", (), name.start, self._zone)
                case Column():
                    form, column = f"{form}c", argument
                case Literal(value=str(text)):
                    form, values = f"{form}t", [*values, text]
                case Literal(value=Decimal() as number) if abs(number) < 1 << 31 and not number % 1:
                    form, values = f"{form}n", [*values, int(number)]
                case _:
                    return None
        return None if column is None or form not in forms else Call(function, column, tuple(values))

    def _arguments(self) -> list[Column | Literal]:
        """Read columns and literals up to the closing parenthesis; empty if there is anything else."""
        arguments: list[Column | Literal] = []
        while self.next.kind is not TokenKind.SYMBOL or self.next.word in ("+", "-"):
            argument = self._bare_operand()
            if argument is None or isinstance(argument, Call) or _is_moment(argument):
                break
            arguments.append(argument)
            if self.take(")"):
                return arguments
            if not self.take(","):
                break
        return []

    def _moved_date(self, name: Token) -> Operand | None:
        date = None if self.next.word == ")" else self._bare_operand()
        if isinstance(date, Column):
            date = named_moment(date)
        if not isinstance(date, Literal) or not self.take(","):
            return None
        start = self.at
        other = self._sum()
        count = self._whole(other, start) if isinstance(other, Literal) else None
        if not isinstance(count, int) or not self.take(")"):
            return None
        move = _DATE_MOVES[name.word]
        by = Interval(move.months * count, move.days * count)
        if isinstance(date.value, Moment) and not date.value.steps:
            date = replace(date, value=replace(date.value, is_date=True))
        moved = added(date, by, negative=False)
        return None if isinstance(moved, int) else moved

    def _column(self) -> Column | None:
        position = self.next.start
        names = self.names()
        key: str | None = None
        if self.take("["):
            if self.next.kind is not TokenKind.STRING:
                return None
            key = self._strings()
            if key is None or not self.take("]"):
                return None
        # A dot or bracket leads into a nested value; a parenthesis makes the name a function.
        return None if self.next.word in (".", "[", "(") else Column(names, key, position)

    def _strings(self) -> str | None:
        # Adjacent strings are concatenated.
        parts: list[str] = []
        while (token := self.next).kind is TokenKind.STRING:
            quote, before = token.text[0], self.tokens[self.at - 1]
            if parts and before.end == token.start and before.text[0] == quote:
                self.met_doubled = True
                parts += quote if self.doubles_quotes else ""
            parts.append(read_string(token.text, token.start))
            self.at += 1
        return "".join(parts)

    def _signed(self) -> Literal | None:
        negative = False
        while (sign := self.next.word) in ("+", "-"):
            negative ^= sign == "-"
            self.at += 1
        operand = self._bare_operand()
        if not isinstance(operand, Literal) or operand.kind not in _NUMERIC:
            return None
        return negate(operand) if negative else operand

    def _cast(self) -> Operand | None:
        start = self.next.start
        self.at += 2
        operand = self._bare_operand()
        if operand is None or not self.take("AS"):
            return None
        cast = self._to_type(operand, start)
        return cast if self.take(")") else None

    def _to_type(self, operand: Operand, start: int) -> Operand | None:
        type_name = self.next.word
        self.at += self.next.kind is not TokenKind.END
        arguments = self._type_arguments()
        if arguments is None:
            return None
        if isinstance(operand, Literal):
            return cast_literal(operand, type_name, arguments, start, self._zone)
        is_date = type_name == "DATE" and not arguments
        return Call(ColumnFunction.DATE, operand) if is_date and isinstance(operand, Column) else None

    def _type_arguments(self) -> tuple[int, ...] | None:
        arguments: list[int] = []
        if self.take("("):
            while _TYPE_ARGUMENT.fullmatch(self.next.text):
                arguments.append(int(self.next.text))
                self.at += 1
                if not self.take(","):
                    break
            if not self.take(")"):
                return None
        return tuple(arguments)


def _is_moment(operand: Column | Literal) -> bool:
    return isinstance(operand, Column) and named_moment(operand) is not None


def named_moment(column: Column | None) -> Literal | None:
    """Read ``CURRENT_DATE`` or another clock without parentheses; None for another name."""
    if column is None or len(column.parts) > 1 or column.key is not None:
        return None
    is_date = _NAMED_MOMENTS.get(column.parts[0].upper())
    return (
        None if is_date is None else Literal(LiteralKind.MOMENT, Moment(is_date, (), column), column.position)
    )


def begins_case(tokens: Sequence[Token], at: int) -> bool:
    """Return True if a CASE expression begins at ``at``; CASE may also be a name."""
    if tokens[at].word != "CASE":
        return False
    behind = tokens[at + 1]
    if behind.word == "NOT":
        behind = tokens[at + 2]
    if behind.kind is TokenKind.SYMBOL:
        return behind.word in ("+", "-", *_PREFIXES)
    return behind.kind is not TokenKind.END and behind.word not in _BEHIND_NAMES
