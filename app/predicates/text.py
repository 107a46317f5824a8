r"""Filters as people write them: a small part of SQL, whose meaning needs no engine.

::

    condition  = all { OR all }
    all        = negation { AND negation }
    negation   = { NOT | "!" } ( "(" condition ")" | test | TRUE | FALSE | NULL )
    test       = column [ comparison literal | IS [ NOT ] ( NULL | TRUE | FALSE )
                        | [ NOT ] ( IN "(" literal { "," literal } ")" | BETWEEN literal AND literal
                                  | LIKE string ) ]
               | literal comparison column
    comparison = "=" | "==" | "<>" | "!=" | "<" | "<=" | ">" | ">=" | "<=>"
    column     = name { "." name } [ "[" string "]" ]          names as words, or in backquotes
    literal    = [ "+" | "-" ] number | string | TRUE | FALSE | NULL | ( DATE | TIMESTAMP | X ) string

A string stands in single or double quotes. A quote within it is doubled or escaped by a backslash. ``--`` and
``/* */`` are comments. A literal is read in its column's type.

Any other test is unknown up to the next AND, OR, closing bracket or the end: it keeps every row, and the
other tests count. An engine sends its predicate as JSON (:mod:`app.predicates.json_reader`), not as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain, pairwise
from typing import Final, NoReturn, final

from app.errors import FilterError
from app.predicates.model import Operator
from app.predicates.tokens import (
    NAMES,
    FilterToken,
    TokenKind,
    count_literals,
    plain_list,
    read_number,
    read_string,
    tokenize,
)
from app.predicates.unbound import (
    DEFAULT_LIMITS,
    And,
    ColumnName,
    FilterLimits,
    Flag,
    Leaf,
    Literal,
    LiteralCount,
    LiteralKind,
    Not,
    Or,
    Predicate,
    TruthValue,
    Undecidable,
    listed_literals,
    shorten,
)

_CLOSING: Final = {"(": ")", "[": "]", "CASE": "END"}
_BOUNDARIES: Final = frozenset({"AND", "OR", ")"})
_COMPARISONS: Final = {
    "=": Operator.EQUAL,
    "==": Operator.EQUAL,
    "<=>": Operator.EQUAL,
    "<>": Operator.NOT_EQUAL,
    "!=": Operator.NOT_EQUAL,
    "<": Operator.LESS_THAN,
    "<=": Operator.LESS_OR_EQUAL,
    ">": Operator.GREATER_THAN,
    ">=": Operator.GREATER_OR_EQUAL,
}
# CASE before one of these is a column. NOT is missing, since an expression may begin with it.
_AFTER_COLUMNS: Final = frozenset({*_COMPARISONS, ".", "IS", "IN", "BETWEEN", "LIKE", "AND", "OR"})
_MIRRORED: Final = {
    Operator.LESS_THAN: Operator.GREATER_THAN,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER_THAN: Operator.LESS_THAN,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}
_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}
_TYPED: Final = {"DATE": LiteralKind.DATE, "TIMESTAMP": LiteralKind.TIMESTAMP, "X": LiteralKind.JSON}
# After these a condition without a value is incomplete.
_BEFORE_VALUES: Final = frozenset({*_COMPARISONS, "AND", "OR", "NOT", "BETWEEN", "LIKE", "IN", "(", ","})
# After these, too, a word is a name: END closes no CASE there.
_OPERATORS: Final = _BEFORE_VALUES | {
    *("CASE", "WHEN", "THEN", "ELSE", "DIV", "RLIKE", "ILIKE", "REGEXP", "FROM", "INTERVAL"),
}
_NOT_FILTERED: Final = {
    "WHERE": "give what follows WHERE",
    "ORDER": "an order is the request's top_n",
    "LIMIT": "how many rows are wanted is the request's limit",
    "GROUP": "leave GROUP BY away",
    ";": "leave the semicolon away",
}
# Digits of an integer of a list, which is handled as a Python number.
_MAX_DIGITS: Final = 40


def read_text(text: str, limits: FilterLimits = DEFAULT_LIMITS) -> Predicate:
    """Read a filter from text.

    Raises FilterError, with a position, if a string or bracket does not end, or a value or condition is
    missing. Raises LimitExceededError if the text is too long, too deep, or has too many literals. Raises
    DeadlineExceededError if time is used up.
    """
    limits.check_size(text)
    reader = _Reader(text, limits)
    predicate = reader.condition(0)
    reader.expect_end()
    return predicate


def read_names(text: str) -> tuple[str, ...]:
    """Return the names in a text that joins them by dots. Return an empty tuple for any other text.

    Raises FilterError if a name does not end.
    """
    reader = _Reader(text, DEFAULT_LIMITS)
    names = reader.names()
    return names if reader.next.kind is TokenKind.END else ()


@final
class _Reader:
    def __init__(self, text: str, limits: FilterLimits) -> None:
        self._text, self._limits = text, limits
        self._tokens, self._at = tokenize(text, limits), 0
        self._count = LiteralCount(limits)
        self._partner = self._partners()

    @property
    def next(self) -> FilterToken:
        return self._tokens[self._at]

    def condition(self, depth: int) -> Predicate:
        # Both connectives in one frame: nested brackets are as deep as the limits allow.
        alternatives: list[Predicate] = []
        parts: list[Predicate] = []
        while True:
            parts.append(self._negation(depth))
            if self._take("AND"):
                continue
            alternatives.append(parts[0] if len(parts) == 1 else And(tuple(parts)))
            parts = []
            if not self._take("OR"):
                return alternatives[0] if len(alternatives) == 1 else Or(tuple(alternatives))

    def expect_end(self) -> None:
        if self.next.kind is not TokenKind.END:
            self._refuse("AND, OR or the end")

    def names(self) -> tuple[str, ...]:
        names: list[str] = []
        while self.next.kind in NAMES:
            token = self._advance()
            names.append(token.text if token.kind is TokenKind.WORD else token.text[1:-1].replace("``", "`"))
            # A dot is never the last token.
            if self.next.word != "." or self._tokens[self._at + 1].kind not in NAMES:
                break
            self._at += 1
        return tuple(names)

    def _partners(self) -> dict[int, int]:
        """Map the place of each opening bracket, and of CASE, to the place where it closes."""
        partners: dict[int, int] = {}
        opened: list[int] = []
        for at, token in enumerate(self._tokens):
            is_case = token.word == "CASE" and self._tokens[at + 1].word not in _AFTER_COLUMNS
            if token.word in ("(", "[") or is_case:
                opened.append(at)
            elif token.word == "END" and self._expects_value(at):
                pass  # a column
            elif opened and token.word == _CLOSING[self._tokens[opened[-1]].word]:
                partners[opened.pop()] = at
            elif token.word in (")", "]"):
                raise FilterError(f"{token.word!r} closes nothing", position=token.start)
        if opened:
            token = self._tokens[opened[-1]]
            closing = _CLOSING[token.word]
            raise FilterError(f"{token.text!r} is never closed: add {closing!r}", position=token.start)
        return partners

    def _expects_value(self, at: int) -> bool:
        """Return True if an operator precedes ``at``, so that words are names."""
        before = self._tokens[at - 1] if at else None
        if before is None or before.kind is TokenKind.SYMBOL:
            return before is None or before.word not in (")", "]")
        return before.word in _OPERATORS

    def _advance(self) -> FilterToken:
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, *words: str) -> str | None:
        word = self.next.word
        if word not in words:
            return None
        self._at += 1
        return word

    def _refuse(self, expected: str) -> NoReturn:
        token = self.next
        found = repr(token.text[:50]) if token.text else "the end"
        advice = _NOT_FILTERED.get(token.word)
        hint = "" if advice is None else f"; a filter is the condition alone: {advice}"
        raise FilterError(f"expected {expected}, found {found}{hint}", position=token.start)

    def _is_boundary(self) -> bool:
        return self.next.word in _BOUNDARIES or self.next.kind is TokenKind.END

    def _negation(self, depth: int) -> Predicate:
        negations = 0
        while self._take("NOT", "!"):
            negations += 1
        start = self._at
        if self._take("("):
            self._limits.check_depth(depth + 1)
            predicate = self.condition(depth + 1)
            if not self._take(")"):
                self._refuse("AND, OR or ')'")
            if not self._is_boundary():
                predicate = self._unknown(start)
        else:
            predicate = self._test()
        return Not(predicate) if negations % 2 else predicate

    def _test(self) -> Predicate:
        start = self._at
        if self._is_boundary():
            self._refuse("a condition")
        predicate = self._known_test()
        if predicate is not None and self._is_boundary():
            return predicate
        return self._unknown(start)

    def _known_test(self) -> Predicate | None:
        """Read a test of the grammar. Return None for other tokens."""
        start, token = self.next.start, self.next
        literal = self._literal()
        if literal is not None:
            if token.word in _CONSTANTS and self._is_boundary():
                return TruthValue(_CONSTANTS[token.word])
            sign = self._take(*_COMPARISONS)
            column = self._column() if sign is not None and self.next.word not in _CONSTANTS else None
            if sign is None or column is None:
                return None
            operator = _COMPARISONS[sign]
            return self._compared(sign, _MIRRORED.get(operator, operator), column, literal, start)
        column = self._column()
        return None if column is None else self._column_test(column, start)

    def _column_test(self, column: ColumnName, start: int) -> Predicate | None:
        if self._is_boundary():
            return Flag(column)
        if sign := self._take(*_COMPARISONS):
            if (literal := self._value(f"a value after {sign}")) is None:
                return None
            return self._compared(sign, _COMPARISONS[sign], column, literal, start)
        is_null_test = self._take("IS") is not None
        # The text of a negated test is that of the test itself.
        negation = self._advance() if self.next.word == "NOT" else None
        words = _CONSTANTS if is_null_test else ("IN", "BETWEEN", "LIKE")
        leaf = self._operator_test(self._take(*words), column, start)
        if leaf is None or negation is None:
            return leaf
        cut = negation.start - start
        text = leaf.text[:cut] + leaf.text[cut + len(negation.text) :].lstrip()
        return Not(replace(leaf, text=text))

    def _operator_test(self, word: str | None, column: ColumnName, start: int) -> Leaf | None:
        match word:
            case "NULL":
                return self._leaf(Operator.IS_NULL, column, (), start)
            case "TRUE" | "FALSE":
                flag = Literal(LiteralKind.JSON, _CONSTANTS[word])
                return self._leaf(Operator.EQUAL, column, (flag,), start, null_safe=True)
            case "IN":
                literals = self._list()
                return None if literals is None else self._leaf(Operator.IN, column, literals, start)
            case "BETWEEN":
                low = self._value("a value after BETWEEN")
                high = self._value("a value after AND") if low is not None and self._take("AND") else None
                if low is None or high is None:
                    return None
                return self._leaf(Operator.BETWEEN, column, (low, high), start)
            case "LIKE":
                pattern = self._value("a pattern in quotes")
                if pattern is None or pattern.kind is not LiteralKind.STRING:
                    return None
                return self._leaf(Operator.LIKE, column, (pattern,), start)
            case _:
                return None

    def _compared(
        self, sign: str, operator: Operator, column: ColumnName, literal: Literal, start: int
    ) -> Leaf:
        if sign == "<=>" and literal.value is None:
            return self._leaf(Operator.IS_NULL, column, (), start)
        return self._leaf(operator, column, (literal,), start, null_safe=sign == "<=>")

    def _leaf(
        self,
        operator: Operator,
        column: ColumnName,
        literals: Sequence[Literal],
        start: int,
        *,
        null_safe: bool = False,
    ) -> Leaf:
        last = self._tokens[self._at - 1]
        text = shorten(self._text[start : last.start + len(last.text)])
        self._count.add(len(literals))
        return Leaf(operator, column, literals, text, null_safe)

    def _column(self) -> ColumnName | None:
        if self.next.word in _CONSTANTS:
            return None
        position, names, key = self.next.start, self.names(), None
        if names and self._take("["):
            key = read_string(self._advance()) if self.next.kind is TokenKind.STRING else None
            if key is None or not self._take("]"):
                return None
        # A dot or bracket leads into a nested value; a bracket after a name makes it a function.
        return None if not names or self.next.word in (".", "[", "(") else ColumnName(names, key, position)

    def _value(self, expected: str) -> Literal | None:
        if self._is_boundary() or self.next.word in _COMPARISONS:
            self._refuse(expected)
        return self._literal()

    def _list(self) -> Sequence[Literal] | None:
        if not self._take("("):
            self._refuse("a list in brackets after IN")
        if self.next.word == ")":
            self._refuse("a value")
        parts: list[Sequence[Literal]] = []
        while True:
            if self.next.kind is TokenKind.LIST:
                parts.append(plain_list(self._advance()))
            elif (literal := self._value("a value")) is not None:
                parts.append((literal,))
            else:
                return None
            if self._take(")"):
                break
            if not self._take(","):
                return None
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _literal(self) -> Literal | None:
        """Read a literal. Return None, without moving on, if the next tokens are no literal."""
        start, token = self._at, self._advance() if self.next.kind is not TokenKind.END else self.next
        position = token.start
        match token:
            case FilterToken(TokenKind.NUMBER):
                return Literal(LiteralKind.NUMBER, read_number(token.text), position)
            case FilterToken(TokenKind.SYMBOL, "+" | "-" as sign) if self.next.kind is TokenKind.NUMBER:
                return Literal(LiteralKind.NUMBER, read_number(f"{sign}{self._advance().text}"), position)
            case FilterToken(TokenKind.STRING):
                return Literal(LiteralKind.STRING, read_string(token), position)
            case FilterToken(TokenKind.WORD, word=word) if (
                word in _TYPED and self.next.kind is TokenKind.STRING
            ):
                text = read_string(self._advance())
                return Literal(_TYPED[word], {"$hex": text} if word == "X" else text, position)
            case FilterToken(TokenKind.WORD, word=word) if word in _CONSTANTS:
                return Literal(LiteralKind.JSON, _CONSTANTS[word], position)
            case _:
                self._at = start
                return None

    def _is_of_a_query(self) -> bool:
        """Return True if the next word belongs to a query around the condition, and is not a name."""
        after = self._tokens[self._at + 1]
        match self.next.word:
            case "ORDER" | "GROUP":
                return after.word == "BY"
            case "WHERE" | "LIMIT":
                return after.kind in (TokenKind.WORD, TokenKind.NUMBER)
            case _:
                return True

    def _unknown(self, start: int) -> Undecidable:
        """Skip the test at ``start`` up to the next AND or OR, closing bracket or the end."""
        self._at = start
        betweens = 0
        while True:
            word, before = self.next.word, self._tokens[self._at - 1].word if self._at > start else ""
            if self._is_boundary() and not (word == "AND" and betweens):
                if before in _BEFORE_VALUES:
                    self._refuse("a value")
                break
            if word in _NOT_FILTERED and self._is_of_a_query():
                self._refuse("AND, OR or the end" if self._at > start else "a condition")
            betweens += (word == "BETWEEN") - (word == "AND")
            self._at = self._partner.get(self._at, self._at) + 1
        tokens = self._tokens[start : self._at]
        self._count.add(sum(map(count_literals, tokens)))
        text = self._text[tokens[0].start : tokens[-1].start + len(tokens[-1].text)]
        return Undecidable(shorten(text), (), tokens[0].start, _why_unknown(tokens))


def _joined(parts: Sequence[Sequence[Literal]]) -> Sequence[Literal]:
    """Concatenate literals, those of one kind as one column."""
    literals = tuple(chain.from_iterable(parts))
    kind = literals[0].kind
    if kind not in (LiteralKind.NUMBER, LiteralKind.STRING) or any(one.kind is not kind for one in literals):
        return literals
    return listed_literals(kind, [_plain(one.value) for one in literals], lambda: literals)


def _plain(value: object) -> object:
    is_short = isinstance(value, Decimal) and value.adjusted() < _MAX_DIGITS
    return int(value) if is_short and value == value.to_integral_value() else value  # type: ignore[attr-defined, call-overload] # a number


def _why_unknown(tokens: Sequence[FilterToken]) -> str:
    for token, after in pairwise(tokens):
        if after.word == "(" and token.kind is TokenKind.WORD and token.word not in _OPERATORS:
            return f"{token.text:.60} is a function or a query: compare the column itself; {_JSON}"
    for before, token in pairwise(tokens):
        if (before.word in _COMPARISONS or before.word in ("(", ",")) and token.kind in NAMES:
            return f"{token.text:.60} is not a value: write text in quotes; {_JSON}"
    return f"it is not a comparison of a column with values that filters support; {_JSON}"


_JSON: Final = "an engine sends its predicate as JSON"
