"""Steps over the tokens of one condition from the left; what the readers of Spark SQL have in common."""

from __future__ import annotations

from collections.abc import Container, Sequence

from app.predicates.limits import DEFAULT_LIMITS
from app.predicates.sql.literals import read_name
from app.predicates.sql.tokens import Token, TokenKind, tokenize

_NAMES = frozenset({TokenKind.WORD, TokenKind.QUOTED})


class Cursor:
    """A place among tokens.

    Args:
        tokens: one or more tokens, END not among them.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = [*tokens, Token(TokenKind.END, "", tokens[-1].end, "")]
        self._at = 0

    @property
    def finished(self) -> bool:
        """Whether every token is read."""
        return self._tokens[self._at].kind is TokenKind.END

    @property
    def position(self) -> int:
        """Where the next token starts in the filter's text."""
        return self._tokens[self._at].start

    def take(self, word: str) -> bool:
        """Steps over a keyword or symbol if it stands here."""
        if self._tokens[self._at].word != word:
            return False
        self._at += 1
        return True

    def take_any(self, words: Container[str]) -> str | None:
        """Steps over one of several keywords or symbols; tells which."""
        word = self._tokens[self._at].word
        if word not in words:
            return None
        self._at += 1
        return word

    def take_call(self, functions: Container[str]) -> str | None:
        """Steps over the name of one of several functions and its parenthesis; tells which."""
        word = self._tokens[self._at].word
        if word not in functions or self._tokens[self._at + 1].word != "(":
            return None
        self._at += 2
        return word

    def names(self) -> tuple[str, ...]:
        """Steps over a name and those that follow it behind dots: ``db.events.`two words```; may be empty."""
        found: list[str] = []
        while self._tokens[self._at].kind in _NAMES:
            token = self._tokens[self._at]
            found.append(read_name(token.text) if token.kind is TokenKind.QUOTED else token.text)
            self._at += 1
            if self._tokens[self._at].word != "." or self._tokens[self._at + 1].kind not in _NAMES:
                break
            self._at += 1
        return tuple(found)


def read_names(text: str) -> tuple[str, ...]:
    """The names of a text that is nothing but names with dots between them; empty if it is not.

    Raises:
        FilterError: a quoted name does not end.
    """
    tokens = tokenize(text, DEFAULT_LIMITS)[:-1]
    if not tokens:
        return ()
    cursor = Cursor(tokens)
    names = cursor.names()
    return names if cursor.finished else ()
