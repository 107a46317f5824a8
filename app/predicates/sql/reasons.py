"""Why a condition of Spark SQL is none that is decided, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from app.predicates.sql.spark_functions import SPARK_FUNCTIONS
from app.predicates.sql.tokens import Token, TokenKind

TWO_COLUMNS: Final = "it compares two columns, and indexes know each column alone"

_TESTS_WITHOUT_FUNCTION: Final = {
    "CASE": "CASE is not read: write its branches with AND and OR",
    "EXISTS": "a query within a filter is not run",
    "SELECT": "a query within a filter is not run",
    "ILIKE": "of patterns, LIKE alone is decided",
    "RLIKE": "of patterns, LIKE alone is decided",
    "REGEXP": "of patterns, LIKE alone is decided",
    "LIKE": "LIKE is decided of a column and a single pattern in quotes",
    "INTERVAL": "intervals are added to a date or to now() alone: write the value that it comes to",
}
_COMPUTING: Final = frozenset({"+", "-", "*", "/", "%", "&", "|", "^", "||", "<<", ">>", ">>>", "DIV", "~"})
_KEYWORDS: Final = frozenset(
    {"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "AS", "WHEN", "THEN", "ELSE", "ANY", "ALL", "SOME"}
)
"""Words that a parenthesis may follow without being functions."""

_SHORTEST_MISSPELLED: Final = 4
"""Shorter names are like too many others."""
_LONGEST_MISSPELLED: Final = 40


def why_unread(tokens: Sequence[Token]) -> str:
    """Why the tokens of a condition are not read as a test of a column by literals."""
    function = next(filter(None, map(_called, tokens, tokens[1:])), None)
    if function is not None:
        return _why_called(function)
    words = [token.word for token in tokens]
    for word, reason in _TESTS_WITHOUT_FUNCTION.items():
        if word in words:
            return reason
    if "||" in words:
        return "|| joins texts: compare the column itself (of two conditions, either is OR)"
    if not _COMPUTING.isdisjoint(words):
        return "it computes a value: let the column stand alone on one side, and a literal on the other"
    if "::" in words:
        return "it casts: compare the column itself with a literal of its type"
    return "it is no comparison of a column with literals"


def _called(token: Token, behind: Token) -> str | None:
    """The name of the function that a token calls."""
    is_call = behind.word == "(" and token.kind is TokenKind.WORD and token.word not in _KEYWORDS
    return token.text if is_call and token.word not in _TESTS_WITHOUT_FUNCTION else None


def _why_called(name: str) -> str:
    lower = name.lower()
    if lower in ("cast", "try_cast"):
        return "Spark casts the column: compare the column itself with a literal of its type"
    if lower in SPARK_FUNCTIONS:
        return f"{name} is a function, and indexes hold the values of columns: compare the column itself"
    meant = _meant(lower)
    question = "" if meant is None else f": did you mean {meant}?"
    return f"{name:.60} is no function of Spark's own, and indexes know no other{question}"


def _meant(name: str) -> str | None:
    """The function that a name is a letter away from; a filter may have very many names."""
    if not _SHORTEST_MISSPELLED <= len(name) <= _LONGEST_MISSPELLED:
        return None
    shorter = list(_shortened(name))
    known = _by_shortened()
    found = (each if each in SPARK_FUNCTIONS else known.get(each) for each in (name, *shorter))
    return next(filter(None, found), None)


@lru_cache(maxsize=1)
def _by_shortened() -> dict[str, str]:
    names = (each for each in sorted(SPARK_FUNCTIONS) if len(each) >= _SHORTEST_MISSPELLED)
    return {shorter: name for name in names for shorter in _shortened(name)}


def _shortened(name: str) -> Iterator[str]:
    """The name without one of its letters."""
    return (name[:at] + name[at + 1 :] for at in range(len(name)))
