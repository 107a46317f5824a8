"""Reads a filter as Spark SQL text: the condition that follows WHERE.

::

    condition  = all { OR all }
    all        = negation { AND negation }
    negation   = { NOT | "!" } ( "(" condition ")" | test | unknown )

:mod:`app.predicates.sql.tests` reads tests of a column by literals. Any other condition is *unknown*: the
reader skips to the next AND, OR or closing parenthesis, keeps every row, and records the position for a
warning.

That is safe as long as no AND or OR of Spark's grammar is missed or invented. Those of BETWEEN .. AND, of
CASE .. END and in brackets belong to the unknown part. In Spark these words may also be names; but names
stand where a value is expected, so AND and OR are refused there, and END ends no CASE. Nothing recurses, so
that the depth of a filter is limited by a setting, not by the stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from app.errors import FilterError
from app.predicates.sql.operands import OperandReader, begins_case
from app.predicates.sql.reasons import why_unread
from app.predicates.sql.tests import read_test
from app.predicates.sql.tokens import LIST_ITEM, OPERATORS, Token, TokenKind, tokenize
from app.predicates.unbound import (
    DEFAULT_LIMITS,
    And,
    Either,
    FilterLimits,
    LiteralCount,
    Not,
    Or,
    Predicate,
    Unknown,
    shorten,
)
from app.types.session_zone import SessionZone
from app.work import check_deadline

_REMEMBERED_CHARACTERS: Final = 4_096
_REMEMBERED_FILTERS: Final = 1_024

_CLOSING: Final = {"(": ")", "[": "]", "CASE": "END"}
_STRUCTURE: Final = frozenset({*_CLOSING, *_CLOSING.values(), ";"})
# Words that start a query.
_QUERIES: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})
# Words that begin a clause, and the text to leave out.
_CLAUSES: Final = {"WHERE": "WHERE itself", "SELECT": "SELECT and all else of the query"}
# Words that continue a test or a condition.
_BEHIND_OPERANDS: Final = frozenset({*OPERATORS, "AND", "OR"}) - {"NOT"}
# Words that a value must follow.
_BEFORE_VALUES: Final = frozenset({*OPERATORS, "AND", "OR", "FROM"})
# Operators that cannot begin a value.
_BETWEEN_VALUES: Final = frozenset(
    {
        "=",
        "==",
        "<=>",
        "<>",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "!<",
        "!>",
        "&",
        "|",
        "^",
        "/",
        "%",
        "||",
        "<<",
        ">>",
    }
)
# Operators that a value must follow.
_BEFORE_MORE: Final = _BETWEEN_VALUES | {"+", "-", "~"}
# Words that a value must follow in CASE; as names they may end a condition.
_OF_CASE: Final = frozenset({"CASE", "WHEN", "THEN", "ELSE"})


def read_sql(text: str, limits: FilterLimits = DEFAULT_LIMITS, zone: SessionZone | None = None) -> Predicate:
    """Read a condition of Spark SQL; short ones are cached.

    FilterError: the text is no condition; ``position`` locates the fault. LimitExceededError: it is too long,
    nested too deeply, or has too many literals.
    """
    if len(text) > _REMEMBERED_CHARACTERS:
        limits.check_size(text)
        return _read(text, limits, zone)
    return _remembered(text, limits, zone)


def _read(text: str, limits: FilterLimits, zone: SessionZone | None) -> Predicate:
    return _Reader(text, LiteralCount(limits), zone).condition()


_remembered = lru_cache(maxsize=_REMEMBERED_FILTERS)(_read)


@dataclass(slots=True)
class _Group:
    # Lists joined by AND, which are joined by OR.
    alternatives: list[list[Predicate]] = field(default_factory=lambda: [[]])
    negations: int = 0

    def add(self, condition: Predicate) -> None:
        self.alternatives[-1].append(Not(condition) if self.negations % 2 else condition)
        self.negations = 0

    def result(self) -> Predicate:
        parts = [tests[0] if len(tests) == 1 else And(tuple(tests)) for tests in self.alternatives]
        return parts[0] if len(parts) == 1 else Or(tuple(parts))


class _Reader:
    def __init__(self, text: str, count: LiteralCount, zone: SessionZone | None) -> None:
        self._text = text
        self._count = count
        self._tokens = tokenize(text, count.limits)
        self._partner = self._match_brackets()
        self._operands = OperandReader(self._tokens, zone)

    def condition(self) -> Predicate:
        self._refuse_query()
        groups = [_Group()]
        while True:
            check_deadline()
            self._open(groups)
            groups[-1].add(self._test())
            while len(groups) > 1 and self._operands.take(")"):
                closed = groups.pop().result()
                groups[-1].add(closed)
            if self._operands.take("OR"):
                groups[-1].alternatives.append([])
            elif self._operands.next.kind is TokenKind.END:
                return groups[0].result()
            elif not self._operands.take("AND"):
                self._operands.refuse("AND, OR or the end")

    def _refuse_query(self) -> None:
        """Refuse a whole query; WHERE and SELECT may be names before operators."""
        first, second, third = (*self._tokens, *self._tokens[-1:] * 2)[:3]
        behind = third if second.word == "NOT" else second
        is_operator = behind.kind is TokenKind.SYMBOL and behind.word not in ("(", "*")
        is_name = is_operator or behind.kind is TokenKind.END or behind.word in _BEHIND_OPERANDS
        if first.word in _CLAUSES and not is_name:
            raise FilterError(
                f"a filter is the condition alone, what follows WHERE: leave {_CLAUSES[first.word]} "
                f"away (a column called {first.text} stands in backquotes)",
                position=first.start,
            )

    def _open(self, groups: list[_Group]) -> None:
        while True:
            if self._operands.take_any(("NOT", "!")):
                groups[-1].negations += 1
            elif self._operands.next.word == "(" and self._is_group(self._operands.at):
                self._operands.at += 1
                groups.append(_Group())
            else:
                return

    def _is_group(self, at: int) -> bool:
        """Return True if the parenthesis at ``at`` holds a whole condition, not part of a test or a query."""
        behind = self._tokens[self._partner[at] + 1]
        joined = behind.word in ("AND", "OR", ")") or behind.kind is TokenKind.END
        return joined and self._tokens[at + 1].word not in _QUERIES

    def _match_brackets(self) -> dict[int, int]:
        partner: dict[int, int] = {}
        opened: list[int] = []
        for at, token in enumerate(self._tokens):
            word = token.word
            if word not in _STRUCTURE:
                continue
            closing = _CLOSING[self._tokens[opened[-1]].word] if opened else ""
            if word in ("(", "[") or begins_case(self._tokens, at):
                opened.append(at)
                self._count.limits.check_depth(len(opened))
            elif word == closing:
                if word != "END" or not (self._expects_value(at) or self._tokens[at - 1].word in _OF_CASE):
                    partner[opened.pop()] = at
            elif word == ";":
                raise FilterError("a filter is a single condition: leave the ';' away", position=token.start)
            elif word in (")", "]"):
                if closing == "END":
                    break
                raise FilterError(f"{word!r} closes nothing", position=token.start)
        if opened:
            unclosed = self._tokens[opened[-1]]
            raise FilterError(
                f"{unclosed.text!r} is never closed: add {_CLOSING[unclosed.word]!r}", position=unclosed.start
            )
        return partner

    def _expects_value(self, at: int) -> bool:
        """Return True if an operator precedes ``at``, so that words are names."""
        before = self._tokens[at - 1]
        if before.kind is TokenKind.SYMBOL:
            return before.word not in (")", "]")
        return before.word in _BEFORE_VALUES

    def _test(self) -> Predicate:
        start, literals = self._operands.at, self._operands.literals
        if self._operands.ends_test():
            self._operands.refuse("a condition")
        test = self._either_reading(start)
        if test is not None and self._operands.ends_test():
            self._count.add(self._operands.literals - literals)
            return test
        if test is not None:
            self._operands.refuse_values("AND, OR or the end")
        return self._unknown(start)

    def _either_reading(self, start: int) -> Predicate | None:
        """Read the test at ``start`` by both meanings of two adjacent quotes."""
        self._operands.met_doubled = False
        test = read_test(self._operands, self._text)
        if test is None or not self._operands.met_doubled:
            return test
        self._operands.at, self._operands.doubles_quotes = start, True
        other = read_test(self._operands, self._text)
        self._operands.doubles_quotes = False
        if other is None:
            return None
        return Either((test, other), shorten(self._text[self._tokens[start].start : self._operands.last.end]))

    def _unknown(self, start: int) -> Unknown:
        self._operands.at = start
        if self._operands.next.word == "(":
            self._operands.at = self._partner[start] + 1
            self._operands.refuse_values("a test such as = or IN, AND or OR")
        betweens, is_typed = 0, False
        while True:
            token = self._operands.next
            if self._operands.ends_test():
                if self._expects_value(self._operands.at):
                    name = " (as a name in backquotes)" if self._operands.last.word.isalpha() else ""
                    self._operands.refuse(f"a value behind {self._operands.last.text!r}{name}")
                if token.word != "AND" or not betweens:
                    break
                betweens -= 1
            elif token.word == "BETWEEN":
                betweens += 1
            is_typed |= token.word == "::"
            self._refuse_misspelled(start, is_typed=is_typed)
            self._operands.at = self._partner.get(self._operands.at, self._operands.at) + 1
        self._count.add(sum(map(_literals, self._tokens[start : self._operands.at])))
        first = self._tokens[start].start
        text = shorten(self._text[first : self._operands.last.end])
        return Unknown(text, (), first, why_unread(self._tokens[start : self._operands.at]))

    def _refuse_misspelled(self, start: int, *, is_typed: bool) -> None:
        at, operands = self._operands.at, self._operands
        word, before = operands.next.word, operands.last.word
        if word == "EXISTS" and self._lacks_query(at):
            operands.at += 2
            operands.refuse("a query, or an array and a function, in EXISTS")
        if at == start:
            return
        if word == "=>" or (word == "~" and not self._expects_value(at)):
            operands.refuse("an operator of Spark, AND, OR or the end")
        # Types after :: have signs of their own: ARRAY<INT>.
        if word in _BETWEEN_VALUES and before in _BEFORE_MORE and not is_typed:
            operands.refuse(f"a value behind {before!r}")
        tested = at - 1 if before == "NOT" else at
        is_list = word == "IN" and tested > start and not self._expects_value(tested)
        if is_list and self._tokens[at + 1].word != "(":
            operands.at += 1
            operands.refuse("a list in parentheses behind IN")

    def _lacks_query(self, at: int) -> bool:
        """Return True if EXISTS at ``at`` has a single value in its parentheses."""
        first, last = at + 2, self._partner.get(at + 1)
        if last is None or self._tokens[at + 1].word != "(" or self._tokens[first].word in (*_QUERIES, "("):
            return False
        inner = first
        while inner < last:
            if self._tokens[inner].word == ",":
                return False
            inner = self._partner.get(inner, inner) + 1
        return True


def _literals(token: Token) -> int:
    if token.kind is TokenKind.LIST:
        return sum(1 for _ in LIST_ITEM.finditer(token.text))
    return token.kind in (TokenKind.STRING, TokenKind.NUMBER)
