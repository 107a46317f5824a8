"""Judges conditions of Spark SQL that no index can use: functions, arithmetic, CASE, fields of structs.

They need not be understood, only be conditions that Spark would parse; the columns that they read are noted.
The grammar is Spark's own (``SqlBaseParser.g4``), in which every keyword can also be a name. What stands in
the parentheses of a query is taken unread.

::

    expression    = operand { operator operand }
    operand       = { NOT | "!" } { "+" | "-" | "~" } primary { postfix } [ test ]
    primary       = literal | interval | name { "." name } | call | CASE .. END
                  | "(" expression { "," expression } ")" | [ EXISTS ] "(" query ")"
    postfix       = "." name | "[" expression "]" | "::" type | COLLATE name
    test          = [ NOT | "!" ] ( BETWEEN expression AND expression | RLIKE expression
                  | IN "(" ( expression { "," expression } | query ) ")"
                  | ( LIKE | ILIKE ) ( expression [ ESCAPE string ] | ( ANY | SOME | ALL ) "(" .. ")" ) )
                  | IS [ NOT | "!" ] ( NULL | TRUE | FALSE | UNKNOWN | DISTINCT FROM expression )

Types and intervals are read in :mod:`app.predicates.sql.data_types`, calls in
:mod:`app.predicates.sql.calls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.errors import FilterError, LimitExceededError
from app.predicates.sql.calls import COMPARISON, LOOSEST, CallReader
from app.predicates.sql.literals import read_number, read_string, typed_literal
from app.predicates.sql.tokens import Token, TokenKind
from app.predicates.unbound import Unknown, shorten

QUERIES: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})
"""Words that a query starts with."""

_NESTING: Final = 100
"""At least so many levels of an expression fit the stack that it is read on."""

_NOT: Final = 3
_TEST: Final = 4
_SHIFT: Final = 9
_UNARY: Final = 12
_PRIMARY: Final = 13
_CONSTANT: Final = 14
_LEVELS: Final = {
    "OR": LOOSEST,
    "AND": 2,
    **dict.fromkeys(("=", "==", "<=>", "<>", "!=", "<", "<=", "!>", ">", ">=", "!<"), COMPARISON),
    "|": 6,
    "^": 7,
    "&": 8,
    **dict.fromkeys(("+", "-", "||"), 10),
    **dict.fromkeys(("*", "/", "%", "DIV"), 11),
}
"""How tightly each operator binds; tests stand between AND and comparisons, shifts between & and +."""
_MAX_SHIFT: Final = {"<": 2, ">": 3}
_SIGNS: Final = frozenset({"+", "-", "~"})
_NEGATIONS: Final = frozenset({"NOT", "!"})
_TESTS: Final = frozenset({"BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP"})
_TRUTHS: Final = frozenset({"NULL", "TRUE", "FALSE", "UNKNOWN"})
_TYPED: Final = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "X"})


def read_expression(tokens: Sequence[Token], text: str) -> Unknown:
    """Reads one condition as an unknown part.

    Args:
        tokens: one or more tokens, END not among them.
        text: what they were cut from.

    Raises:
        FilterError: it is no condition of Spark SQL; ``position`` tells where.
        LimitExceededError: it is nested too deeply.
    """
    reader = _ExpressionReader(tokens)
    try:
        level = reader.expression()
    except RecursionError as error:
        raise LimitExceededError("an expression is nested too deeply", limit=_NESTING) from error
    if not reader.finished:
        reader.expected("AND, OR or the end")
    if COMPARISON < level < _PRIMARY or level == _CONSTANT:
        raise FilterError(f"{shorten(text)} is not a condition", position=tokens[0].start)
    return Unknown(shorten(text), tuple(reader.columns))


class _ExpressionReader(CallReader):
    """Reads by precedence climbing, with few Python frames for each level of nesting."""

    def expression(self, loosest: int = LOOSEST) -> int:
        level = self._operand(loosest)
        while True:
            if loosest <= _TEST < level and self._test():
                level = _TEST
            operator, tokens = self._operator()
            # What binds tighter than the outermost operator so far cannot follow it: (x IS NULL) = y.
            if not loosest <= operator <= level:
                return level
            self._at += tokens
            self.expression(operator + 1)
            level = operator

    def _operator(self) -> tuple[int, int]:
        """The level of the operator that stands here, 0 for none, and how many tokens it has."""
        token = self._tokens[self._at]
        length, longest = 1, _MAX_SHIFT.get(token.word, 1)
        while length < longest and self._touches(self._at + length, token.word):
            length += 1
        return (_SHIFT, length) if length > 1 else (_LEVELS.get(token.word, 0), 1)

    def _touches(self, at: int, word: str) -> bool:
        return self._tokens[at].word == word and self._tokens[at - 1].end == self._tokens[at].start

    def _operand(self, loosest: int) -> int:
        negated = False
        while loosest <= _NOT and self._tokens[self._at].word in _NEGATIONS and self.starts_expression(1):
            self._at += 1
            negated = True
        if negated:
            self.expression(_TEST)
            return _NOT
        signed = False
        while self.take_any(_SIGNS):
            signed = True
        level = self._primary()
        while self._postfix():
            level = _PRIMARY
        return _UNARY if signed else level

    def _primary(self) -> int:
        token, behind = self._tokens[self._at], self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        match token.kind:
            case TokenKind.NUMBER:
                read_number(token.text, token.start)
                self._at += 1
                return _CONSTANT
            case TokenKind.STRING:
                self._strings()
                return _CONSTANT
            case TokenKind.QUOTED:
                self.named()
            case TokenKind.WORD:
                return self._word(token, behind)
            case TokenKind.SYMBOL if token.word == "(":
                self._parentheses()
            case TokenKind.SYMBOL if token.word in ("?", ":"):
                raise FilterError("a parameter has no value here", position=token.start)
            case _:
                self.expected("an expression")
        return _PRIMARY

    def _word(self, token: Token, behind: Token) -> int:
        """Steps over what starts with a word; every word that starts nothing else is a name."""
        if self.starts_interval():
            self.interval()
            return _CONSTANT
        if token.word == "CASE" and (self.starts_expression(1) or behind.word == "WHEN"):
            self._case()
        elif behind.kind is TokenKind.STRING:
            if token.word not in _TYPED:
                self.expected("an operator or a type that has literals")
            self._at += 1
            typed_literal(token.word, read_string(behind.text, behind.start), token.start, None)
            self._at += 1
            return _CONSTANT
        elif token.word == "EXISTS" and behind.word == "(" and self._is_query(1):
            self._at += 1
            self.skip_brackets()
        elif token.word in _TRUTHS - {"UNKNOWN"}:
            self._at += 1
        else:
            self.named()
        return _PRIMARY

    def _postfix(self) -> bool:
        if self.take("."):
            if not self.names():
                self.expected("a name")
        elif self.take("["):
            self.expression(COMPARISON)
            self.need("]")
        elif self.take("::"):
            self.type()
        elif self.take("COLLATE"):
            if not self.names():
                self.expected("a collation")
        else:
            return False
        return True

    def _test(self) -> bool:
        """Steps over a test of what stands in front of it, if there is one."""
        negated = self._tokens[self._at].word in _NEGATIONS
        word = self._tokens[self._at + negated].word if not self.finished else ""
        if word in _TESTS:
            self._at += 1 + negated
            match word:
                case "BETWEEN":
                    self.expression(COMPARISON)
                    self.need("AND")
                    self.expression(COMPARISON)
                case "IN":
                    self._listed()
                case "LIKE" | "ILIKE":
                    self._like()
                case _:
                    self.expression(COMPARISON)
            return True
        if word != "IS" or negated:
            return False
        self._at += 1
        self.take_any(_NEGATIONS)
        if self.take("DISTINCT"):
            self.need("FROM")
            self.expression(COMPARISON)
        elif not self.take_any(_TRUTHS):
            self.expected("NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")
        return True

    def _like(self) -> None:
        if self.take_call(("ANY", "SOME", "ALL")):
            self._at -= 1
            self._listed()
            return
        self.expression(COMPARISON)
        if self.take("ESCAPE"):
            start = self.position
            if self._tokens[self._at].kind is not TokenKind.STRING or len(self._strings()) != 1:
                raise FilterError("ESCAPE takes a string of one character", position=start)

    def _listed(self) -> None:
        if self._tokens[self._at].word != "(":
            self.expected("(")
        if self._is_query(0):
            self.skip_brackets()
            return
        self._at += 1
        self.expression()
        while self.take(","):
            self.expression()
        self.need(")")

    def _parentheses(self) -> None:
        if self._is_query(0):
            self.skip_brackets()
            return
        start = self.position
        self._at += 1
        self.expression()
        named, several = self.alias(), False
        while self.take(","):
            several = True
            self.expression()
            self.alias()
        self.need(")")
        if named and not several:
            raise FilterError("only the values of a struct have names", position=start)

    def _is_query(self, ahead: int) -> bool:
        """Whether the parenthesis so far ahead, or one right within it, holds a query."""
        at = self._at + ahead
        while self._tokens[at].word == "(":
            at += 1
        if self._tokens[at].word not in QUERIES:
            return False
        behind = self._tokens[at + 1]
        return behind.kind is not TokenKind.SYMBOL or behind.word in ("(", "*", *_SIGNS)

    def _case(self) -> None:
        self._at += 1
        if self._tokens[self._at].word != "WHEN":
            self.expression()
        self.need("WHEN")
        while True:
            self.expression()
            self.need("THEN")
            self.expression()
            if not self.take("WHEN"):
                break
        if self.take("ELSE"):
            self.expression()
        self.need("END")

    def _strings(self) -> str:
        """Steps over strings in a row, which are one."""
        parts: list[str] = []
        while (token := self._tokens[self._at]).kind is TokenKind.STRING:
            parts.append(read_string(token.text, token.start))
            self._at += 1
        return "".join(parts)
