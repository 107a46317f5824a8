"""Walks over the tokens of a filter, and says what is out of place."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final, NoReturn

from app.errors import FilterError
from app.predicates.sql.literals import read_name
from app.predicates.sql.tokens import Token, TokenKind, tokenize
from app.predicates.unbound import DEFAULT_LIMITS

_NAMES: Final = frozenset({TokenKind.WORD, TokenKind.QUOTED})
_BOUNDARIES: Final = frozenset({"AND", "OR", ")", ","})
OPERATORS: Final = frozenset(
    {"IS", "IN", "NOT", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "DIV", "COLLATE"}
)
"""Words that go on with an expression."""
_NOT_FILTERED: Final = "; a filter is the condition alone: "
_ADVICE: Final = {
    "ORDER": f"{_NOT_FILTERED}an order is the request's top_n",
    "LIMIT": f"{_NOT_FILTERED}how many rows are wanted is the request's limit",
    "GROUP": f"{_NOT_FILTERED}leave GROUP BY away",
    "HAVING": f"{_NOT_FILTERED}leave HAVING away",
    "WHERE": f"{_NOT_FILTERED}what stands behind WHERE",
    "=>": ": did you mean >=?",
    "=<": ": did you mean <=?",
    ">=": ": did you mean >=?",
    "===": ": did you mean =?",
    "!==": ": did you mean <>?",
    "&&": ": did you mean AND?",
}
"""What to do, by the word that is out of place, or by it and the sign before it."""


class TokenReader:
    """A place among the tokens of a filter, END as the last; ``at`` is the next one."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def next(self) -> Token:
        """The next token."""
        return self.tokens[self.at]

    @property
    def last(self) -> Token:
        """The token before the next one."""
        return self.tokens[self.at - 1]

    def take(self, word: str) -> bool:
        """Steps over a keyword or symbol if it is the next token."""
        if self.tokens[self.at].word != word:
            return False
        self.at += 1
        return True

    def take_any(self, words: Container[str]) -> str | None:
        """Steps over one of several keywords or symbols; tells which."""
        word = self.tokens[self.at].word
        if word not in words:
            return None
        self.at += 1
        return word

    def take_call(self, functions: Container[str]) -> str | None:
        """Steps over the name of one of several functions and its parenthesis; tells which."""
        word = self.tokens[self.at].word
        if word not in functions or self.tokens[self.at + 1].word != "(":
            return None
        self.at += 2
        return word

    def refuse(self, expected: str) -> NoReturn:
        """Raises FilterError, which says what should be the next token."""
        actual = repr(self.next.text[:50]) if self.next.text else "the end"
        joined = self.tokens[max(self.at - 1, 0)].word + self.next.word
        advice = _ADVICE.get(joined) or _ADVICE.get(self.next.word, "")
        raise FilterError(f"expected {expected}, found {actual}{advice}", position=self.next.start)

    def ends_test(self) -> bool:
        """Whether a test ends here: in front of AND, OR, a comma, a parenthesis or the end."""
        return self.next.word in _BOUNDARIES or self.next.kind is TokenKind.END

    def refuse_values(self, expected: str) -> None:
        """Refuses what cannot stand behind a whole operand or test, such as a misspelled AND.

        Raises FilterError: a name or a literal is the next token.
        """
        goes_on = self.next.kind is TokenKind.SYMBOL or self.next.word in OPERATORS or self.ends_test()
        if not goes_on:
            self.refuse(expected)

    def names(self) -> tuple[str, ...]:
        """Steps over a name and those that follow it behind dots: ``db.events.`two words```; may be empty."""
        names: list[str] = []
        while self.tokens[self.at].kind in _NAMES:
            token = self.tokens[self.at]
            names.append(read_name(token.text) if token.kind is TokenKind.QUOTED else token.text)
            self.at += 1
            if self.tokens[self.at].word != "." or self.tokens[self.at + 1].kind not in _NAMES:
                break
            self.at += 1
        return tuple(names)


def read_names(text: str) -> tuple[str, ...]:
    """The names of a text that is nothing but names with dots between them; empty if it is not.

    Raises FilterError: a quoted name does not end.
    """
    reader = TokenReader(tokenize(text, DEFAULT_LIMITS))
    names = reader.names()
    return names if reader.next.kind is TokenKind.END else ()
