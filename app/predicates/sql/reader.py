"""Reads a filter as Spark SQL text: what may stand after WHERE.

This module knows how conditions are joined (AND, OR, NOT, parentheses), without recursion, so that the depth
of a filter is a limit and not an accident. Single tests of a column by literals are read in
:mod:`app.predicates.sql.tests`; any other condition is judged in :mod:`app.predicates.sql.expressions` and
is unknown.

::

    condition  = all { OR all }
    all        = negation { AND negation }
    negation   = { NOT | "!" } ( "(" condition ")" | test )
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from app.errors import FilterError
from app.predicates.limits import DEFAULT_LIMITS, FilterLimits, LiteralCount
from app.predicates.sql.expressions import QUERIES, read_expression
from app.predicates.sql.tests import read_test
from app.predicates.sql.tokens import Token, TokenKind, tokenize, without_lists
from app.predicates.unbound import And, Not, Or, Predicate
from app.types.session_zone import SessionZone

_REMEMBERED_CHARACTERS: Final = 4_096
_REMEMBERED_FILTERS: Final = 1_024

_BRACKETS: Final = {"(": ")", "[": "]"}


def read_sql(text: str, limits: FilterLimits = DEFAULT_LIMITS, zone: SessionZone | None = None) -> Predicate:
    """Reads a condition of Spark SQL; short ones are remembered.

    Args:
        text: the condition.
        limits: how deep it may nest and how many literals there may be.
        zone: the time zone of the caller's session; None if it is not known.

    Raises:
        FilterError: the text is no condition; ``position`` tells where.
        LimitExceededError: it is nested too deeply or has too many literals.
    """
    if len(text) > _REMEMBERED_CHARACTERS:
        return _read(text, limits, zone)
    return _remembered(text, limits, zone)


def _read(text: str, limits: FilterLimits, zone: SessionZone | None) -> Predicate:
    return _Reader(text, tokenize(text, limits), LiteralCount(limits), zone).condition()


_remembered = lru_cache(maxsize=_REMEMBERED_FILTERS)(_read)


@dataclass(slots=True)
class _Group:
    """A condition between parentheses that is being read.

    Attributes:
        alternatives: what is joined by OR, each a list of what is joined by AND.
        negations: NOTs that wait for their condition.
    """

    alternatives: list[list[Predicate]] = field(default_factory=lambda: [[]])
    negations: int = 0

    def add(self, condition: Predicate) -> None:
        self.alternatives[-1].append(Not(condition) if self.negations % 2 else condition)
        self.negations = 0

    def result(self) -> Predicate:
        parts = [each[0] if len(each) == 1 else And(tuple(each)) for each in self.alternatives]
        return parts[0] if len(parts) == 1 else Or(tuple(parts))


class _Reader:
    """Reads the tokens of one filter."""

    def __init__(
        self, text: str, tokens: Sequence[Token], count: LiteralCount, zone: SessionZone | None
    ) -> None:
        self._zone = zone
        self._text = text
        self._tokens = tokens
        self._count = count
        self._partner = self._match_brackets()

    def condition(self) -> Predicate:
        """The whole text as one condition."""
        at, groups = 0, [_Group()]
        while True:
            at = self._operand(at, groups)
            while self._tokens[at].word == ")" and len(groups) > 1:
                closed = groups.pop().result()
                groups[-1].add(closed)
                at += 1
            token = self._tokens[at]
            if token.word == "OR":
                groups[-1].alternatives.append([])
            elif token.kind is TokenKind.END and len(groups) == 1:
                return groups[0].result()
            elif token.word != "AND":
                raise FilterError(
                    f"expected AND, OR or the end, found {token.text!r:.50}", position=token.start
                )
            at += 1

    def _operand(self, at: int, groups: list[_Group]) -> int:
        """Reads NOTs, opening parentheses and one test; tells where the next token stands."""
        while True:
            token = self._tokens[at]
            if token.word in ("NOT", "!"):
                groups[-1].negations += 1
            elif token.word == "(" and self._is_group(at):
                groups.append(_Group())
            else:
                break
            at += 1
        end = self._end_of_test(at)
        if end == at:
            found = repr(token.text[:50]) if token.text else "the end"
            raise FilterError(f"expected a condition, found {found}", position=token.start)
        groups[-1].add(self._test(at, end))
        return end

    def _is_group(self, at: int) -> bool:
        """Whether the parenthesis at ``at`` holds a whole condition, not a part of a test or a query."""
        behind = self._tokens[self._partner[at] + 1]
        joined = behind.word in ("AND", "OR", ")") or behind.kind is TokenKind.END
        return joined and self._tokens[at + 1].word not in QUERIES

    def _end_of_test(self, at: int) -> int:
        """Where the test that starts at ``at`` ends: at AND, OR, a closing parenthesis or the end."""
        cases = betweens = 0
        while self._tokens[at].kind is not TokenKind.END:
            match self._tokens[at].word:
                case "(" | "[":
                    at = self._partner[at]
                case ")":
                    break
                case "CASE":
                    cases += 1
                case "END" if cases:
                    cases -= 1
                case "BETWEEN" if not cases:
                    betweens += 1
                case "AND" if betweens and not cases:
                    betweens -= 1
                case "AND" | "OR" if not cases:
                    break
            at += 1
        return at

    def _test(self, start: int, end: int) -> Predicate:
        tokens = self._tokens[start:end]
        text = self._text[tokens[0].start : tokens[-1].end]
        test = read_test(tokens, text, self._count, self._zone)
        if test is not None:
            return test
        tokens = without_lists(tokens, self._count.limits)
        self._count.add(sum(token.kind in (TokenKind.STRING, TokenKind.NUMBER) for token in tokens))
        return read_expression(tokens, text)

    def _match_brackets(self) -> dict[int, int]:
        """Where the partner of each opening bracket stands."""
        partner: dict[int, int] = {}
        opened: list[int] = []
        for at, token in enumerate(self._tokens):
            if token.word in _BRACKETS:
                opened.append(at)
                self._count.limits.check_depth(len(opened))
            elif token.word in _BRACKETS.values():
                if not opened or _BRACKETS[self._tokens[opened[-1]].word] != token.word:
                    raise FilterError(f"nothing is open that {token.word!r} closes", position=token.start)
                partner[opened.pop()] = at
            elif token.word == ";":
                raise FilterError("a filter is a single condition", position=token.start)
        if opened:
            unclosed = self._tokens[opened[-1]]
            raise FilterError(f"{unclosed.word!r} is never closed", position=unclosed.start)
        return partner
