"""Tokens of the text of a filter.

A token is a word, a name in backquotes, a string in single or double quotes, a number, or a sign. Blanks,
``-- comments`` and ``/* comments */`` separate tokens and are skipped. Many plain numbers, or many plain
strings, of a list are one token, since each value would take two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from enum import Enum
from typing import Final, NamedTuple, final

from app.errors import FilterError, LimitExceededError
from app.predicates.unbound import FilterLimits, Literal, LiteralKind, listed_literals
from app.work import check_deadline

_TOKEN: Final = re.compile(
    r"""
    (?P<blank>   (?: \s | --(?:\\\n|[^\r\n])*+ | /\*(?:(?!/\*).)*?\*/ )++ )
  | (?P<STRING>  '(?:[^'\\]++|\\.|'')*+' | "(?:[^"\\]++|\\.|"")*+" )
  | (?P<QUOTED>  `(?:[^`]++|``)++` )
  | (?P<NUMBER>  (?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++) (?:[eE][+-]?[0-9]{1,9})?+ (?!\w) )
  | (?P<WORD>    \w+ )
  | (?P<SYMBOL>  <=> | === | [<>!=]= | <> | => | && | /\* | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_LIST: Final = re.compile(
    r"\s*+((?:-?[0-9]{1,38}+\s*+,\s*+){7,999}-?[0-9]{1,38}+|(?:'[^'\\]*+'\s*+,\s*+){7,999}'[^'\\]*+')(?=\s*+[,)])"
)
_LIST_ITEM: Final = re.compile(r"-?[0-9]++|'[^']*+'")
_ESCAPE: Final = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_OPENERS: Final = {"'": "string", '"': "string", "`": "quoted name", "/*": "comment"}
_ENDS: Final = {"/*": "*/"}
_MISTYPED: Final = {"===": "=", "=>": ">=", "&&": "AND"}
# `m['k'] = 5 OR` has about this many; a text with more is not a filter.
_TOKENS_PER_LITERAL: Final = 12
# Tokens between two checks of the deadline, which take some milliseconds.
_TOKENS_AT_ONCE: Final = 4_096


@final
class TokenKind(Enum):
    """Kind of a token."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    # Many plain numbers, or many plain strings, of a list: one token, where each value would take two.
    LIST = "list"
    END = "end"


NAMES: Final = frozenset({TokenKind.WORD, TokenKind.QUOTED})
"""Kinds of tokens that name a column, or a part of its name."""


class FilterToken(NamedTuple):
    """Piece of the text, from the 0-based character ``start``."""

    kind: TokenKind
    text: str
    start: int
    # Upper-case text of a WORD, except a name after a dot; text of a SYMBOL; else empty.
    word: str


def tokenize(text: str, limits: FilterLimits) -> list[FilterToken]:
    """Split ``text`` into tokens, END as the last.

    Raises FilterError if a string, a quoted name or a comment does not end, or a sign is not one of a filter.
    Raises LimitExceededError if there are far more tokens than the allowed literals need. Raises
    DeadlineExceededError if time is used up.
    """
    tokens: list[FilterToken] = []
    most = _TOKENS_PER_LITERAL * (limits.literals + 100)
    at = 0
    while at < len(text):
        if _begins_list(tokens) and (listed := _LIST.match(text, at)):
            tokens.append(FilterToken(TokenKind.LIST, listed[1], listed.start(1), ""))
            at = listed.end()
            continue
        match = _TOKEN.match(text, at)
        assert match is not None  # noqa: S101 - the last alternative is any character
        group, piece = str(match.lastgroup), match.group()
        if piece in _OPENERS:
            raise FilterError(
                f"this {_OPENERS[piece]} does not end: add {_ENDS.get(piece, piece)}", position=at
            )
        if piece in _MISTYPED:
            raise FilterError(
                f"{piece} is not an operator of filters: did you mean {_MISTYPED[piece]}?", position=at
            )
        if group != "blank":
            # A name after a dot is not a keyword.
            is_word = group == "SYMBOL" or (group == "WORD" and not (tokens and tokens[-1].word == "."))
            tokens.append(FilterToken(TokenKind[group], piece, at, piece.upper() if is_word else ""))
        if len(tokens) > most:
            raise LimitExceededError(f"the filter has more than {most} words and signs", limit=most)
        if not len(tokens) % _TOKENS_AT_ONCE:
            check_deadline()
        at = match.end()
    tokens.append(FilterToken(TokenKind.END, "", len(text.rstrip()), ""))
    return tokens


def _begins_list(tokens: list[FilterToken]) -> bool:
    """Return True after ``IN (``, or after values of a list and a comma."""
    if len(tokens) < 2:  # noqa: PLR2004 - `IN` and its bracket
        return False
    before, last = tokens[-2:]
    return (last.word == "(" and before.word == "IN") or (last.word == "," and before.kind is TokenKind.LIST)


def read_number(text: str) -> Decimal | float:
    """Read digits exactly. With an exponent they are a DOUBLE, as in SQL."""
    return float(text) if "e" in text.lower() else Decimal(text)


def read_string(token: FilterToken) -> str:
    """Return the text in the quotes of a STRING. Raises FilterError if it has an escape without a meaning."""
    quote = token.text[0]

    def unescaped(match: re.Match[str]) -> str:
        character = match[1]
        if character is None:
            return quote if match[0][0] == quote else match[0]
        if character.isalnum() and character not in _CONTROLS:
            position = token.start + 1 + match.start()
            raise FilterError(f"{match[0]} is not an escape here: write the character", position=position)
        # LIKE reads these two escapes itself.
        return match[0] if character in "%_" else _CONTROLS.get(character, character)

    return _ESCAPE.sub(unescaped, token.text[1:-1])


def plain_list(token: FilterToken) -> Sequence[Literal]:
    """Return the literals of a LIST."""
    is_text = token.text.startswith("'")
    kind = LiteralKind.STRING if is_text else LiteralKind.NUMBER

    def value(item: str) -> object:
        return item[1:-1] if is_text else int(item)

    def literals() -> Iterator[Literal]:
        items = _LIST_ITEM.finditer(token.text)
        return (Literal(kind, value(item[0]), token.start + item.start()) for item in items)

    return listed_literals(kind, [value(item) for item in _LIST_ITEM.findall(token.text)], literals)


def count_literals(token: FilterToken) -> int:
    """Count the literals that a token stands for."""
    if token.kind is TokenKind.LIST:
        return len(_LIST_ITEM.findall(token.text))
    return token.kind in (TokenKind.STRING, TokenKind.NUMBER)
