"""Splits Spark SQL text into tokens, walks over them, and reports misplaced ones.

==========  ==============================================================================================
kind        text, by the rules of Spark's lexer
==========  ==============================================================================================
WORD        letters, digits and ``_``: a keyword, a type or a column; may start with a digit (``5a``)
QUOTED      a name in backquotes, in which two stand for one
STRING      ``'..'`` or ``".."`` with backslash escapes, ``r'..'`` or ``r".."`` without; two quotes in a row
            are two strings here, since Spark's versions disagree about them
NUMBER      digits with an optional point, exponent and suffix (``L S Y D F BD``)
SYMBOL      an operator of several characters (shifts excepted), or any other single character
LIST        several plain numbers, or several plain strings, with commas between them, after ``IN (``: one
            token, where each value would take several
END         one token after the last
==========  ==============================================================================================

Blanks, ``-- comments`` and nested ``/* comments */`` separate tokens and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from enum import Enum
from typing import Final, NamedTuple, NoReturn, final

from app.errors import FilterError, LimitExceededError
from app.predicates.unbound import DEFAULT_LIMITS, FilterLimits
from app.work import check_deadline

# `m['k'] = CAST('1.20' AS DECIMAL(12, 2)) OR` has about this many; a text with more is no filter.
_TOKENS_PER_LITERAL: Final = 12
_TOKENS_BEFORE_LIST: Final = 2
# Tokens between two checks of the deadline, which take some milliseconds.
_TOKENS_AT_ONCE: Final = 4_096


@final
class TokenKind(Enum):
    """Kind of a token; the module's table describes them."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    LIST = "list"
    END = "end"


class Token(NamedTuple):
    """Piece of the text, from the 0-based character ``start``.

    ``word`` is the upper-case text of a WORD, except a name after a dot; the text of a SYMBOL; else empty.
    """

    kind: TokenKind
    text: str
    start: int
    word: str

    @property
    def end(self) -> int:
        """End of the token, exclusive."""
        return self.start + len(self.text)


_TOKEN: Final = re.compile(
    r"""
    (?P<blank>   (?: \s | --(?:\\\n|[^\r\n])*+ )++ )
  | (?P<comment> /\* )
  | (?P<STRING>  [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]++|\\.)*+' | "(?:[^"\\]++|\\.)*+" )
  | (?P<QUOTED>  `(?:[^`]++|``)*+` )
  | (?P<NUMBER>  (?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++) (?:[eE][+-]?[0-9]++)?+
                 (?:[bB][dD]|[lLsSyYdDfF])? (?!\w) )
  | (?P<WORD>    \w+ )
  | (?P<SYMBOL>  <=> | [<>!=]= | <> | ![<>] | << | >>>? | :: | -> | => | \|\| | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_LIST_ITEM: Final = r"(?:-?[0-9]{1,38}+(?:\.[0-9]{1,18}+)?+|'[^'\\]*+')"
# A value in a LIST: a number with its sign, or a quoted string without escapes.
LIST_ITEM: Final = re.compile(_LIST_ITEM)
# A value is plain only if a comma or parenthesis follows. One match takes no more values than other threads
# may wait for.
_LIST: Final = re.compile(rf"\s*+((?:{_LIST_ITEM}\s*+,\s*+){{7,999}}{_LIST_ITEM})(?=\s*+[,)])")
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_OPENERS: Final = {"'": "string", '"': "string", "`": "quoted name"}


def tokenize(text: str, limits: FilterLimits) -> list[Token]:
    """Split ``text`` into tokens, END as the last.

    FilterError: a string, a quoted name or a comment does not end. LimitExceededError: there are far more
    tokens than the allowed literals need. DeadlineExceededError: time is used up.
    """
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if _begins_list(tokens) and (listed := _LIST.match(text, at)):
            tokens.append(Token(TokenKind.LIST, listed[1], listed.start(1), ""))
            at = listed.end()
        at = _add_token(tokens, text, at, limits)
        if not len(tokens) % _TOKENS_AT_ONCE:
            check_deadline()
    tokens.append(Token(TokenKind.END, "", tokens[-1].end if tokens else len(text), ""))
    return tokens


def _begins_list(tokens: list[Token]) -> bool:
    """Return True if list values may follow: after ``IN (``, or after values and a comma."""
    if len(tokens) < _TOKENS_BEFORE_LIST:
        return False
    before, last = tokens[-2:]
    return (last.word == "(" and before.word == "IN") or (last.word == "," and before.kind is TokenKind.LIST)


def _add_token(tokens: list[Token], text: str, at: int, limits: FilterLimits) -> int:
    match = _TOKEN.match(text, at)
    group = match.lastgroup if match else None
    if match is None or group == "comment":
        return _comment_end(text, at)
    if group != "blank" and group is not None:
        piece = match.group()
        if piece in _OPENERS:
            raise FilterError(f"this {_OPENERS[piece]} does not end: add {piece}", position=at)
        kind = TokenKind[group]
        word = piece if kind is TokenKind.SYMBOL else ""
        if kind is TokenKind.WORD and not (tokens and tokens[-1].word == "."):
            word = piece.upper()
        tokens.append(Token(kind, piece, at, word))
        most = _TOKENS_PER_LITERAL * (limits.literals + 100)
        if len(tokens) > most:
            raise LimitExceededError(f"the filter has more than {most} words and signs", limit=most)
    return match.end()


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise FilterError("this comment does not end: add */", position=start)


_NAMES: Final = frozenset({TokenKind.WORD, TokenKind.QUOTED})
_BOUNDARIES: Final = frozenset({"AND", "OR", ")", ","})
# Words that continue an expression.
OPERATORS: Final = frozenset(
    {"IS", "IN", "NOT", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "DIV", "COLLATE"}
)
_NOT_FILTERED: Final = "; a filter is the condition alone: "
# Way out, by the misplaced word, or by it and the sign before it.
_ADVICE: Final = {
    "ORDER": f"{_NOT_FILTERED}an order is the request's top_n",
    "LIMIT": f"{_NOT_FILTERED}how many rows are wanted is the request's limit",
    "GROUP": f"{_NOT_FILTERED}leave GROUP BY away",
    "HAVING": f"{_NOT_FILTERED}leave HAVING away",
    "WHERE": f"{_NOT_FILTERED}what follows WHERE",
    "=>": ": did you mean >=?",
    "=<": ": did you mean <=?",
    ">=": ": did you mean >=?",
    "===": ": did you mean =?",
    "!==": ": did you mean <>?",
    "&&": ": did you mean AND?",
}


class TokenReader:
    """Cursor over the tokens of a filter, END as the last; ``at`` is the next one."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def next(self) -> Token:
        """Next token."""
        return self.tokens[self.at]

    @property
    def last(self) -> Token:
        """Token before the next one."""
        return self.tokens[self.at - 1]

    def take(self, word: str) -> bool:
        """Skip a keyword or symbol if it is next."""
        if self.tokens[self.at].word != word:
            return False
        self.at += 1
        return True

    def take_any(self, words: Container[str]) -> str | None:
        """Skip one of several keywords or symbols, and return it."""
        word = self.tokens[self.at].word
        if word not in words:
            return None
        self.at += 1
        return word

    def take_call(self, functions: Container[str]) -> str | None:
        """Skip the name of one of several functions and its parenthesis, and return the name."""
        word = self.tokens[self.at].word
        if word not in functions or self.tokens[self.at + 1].word != "(":
            return None
        self.at += 2
        return word

    def refuse(self, expected: str) -> NoReturn:
        """Raise FilterError that says which token is expected."""
        actual = repr(self.next.text[:50]) if self.next.text else "the end"
        joined = self.tokens[max(self.at - 1, 0)].word + self.next.word
        advice = _ADVICE.get(joined) or _ADVICE.get(self.next.word, "")
        raise FilterError(f"expected {expected}, found {actual}{advice}", position=self.next.start)

    def ends_test(self) -> bool:
        """Return True if a test ends here: before AND, OR, a comma, a parenthesis or the end."""
        return self.next.word in _BOUNDARIES or self.next.kind is TokenKind.END

    def refuse_values(self, expected: str) -> None:
        """Raise FilterError if a name or literal is next, such as a misspelled AND."""
        goes_on = self.next.kind is TokenKind.SYMBOL or self.next.word in OPERATORS or self.ends_test()
        if not goes_on:
            self.refuse(expected)

    def names(self) -> tuple[str, ...]:
        """Read names joined by dots, such as ``db.events.`two words```; may be empty."""
        names: list[str] = []
        while self.tokens[self.at].kind in _NAMES:
            token = self.tokens[self.at]
            names.append(_unquoted(token.text) if token.kind is TokenKind.QUOTED else token.text)
            self.at += 1
            if self.tokens[self.at].word != "." or self.tokens[self.at + 1].kind not in _NAMES:
                break
            self.at += 1
        return tuple(names)


def read_names(text: str) -> tuple[str, ...]:
    """Read a text of names joined by dots; empty if it is anything else.

    FilterError: a quoted name does not end.
    """
    reader = TokenReader(tokenize(text, DEFAULT_LIMITS))
    names = reader.names()
    return names if reader.next.kind is TokenKind.END else ()


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`")
