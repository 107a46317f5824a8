"""Cuts Spark SQL text into tokens, walks over them, and says what is out of place.

==========  ==============================================================================================
kind        what Spark's lexer takes for it
==========  ==============================================================================================
WORD        letters, digits and ``_``: a keyword, a type or a column; may start with a digit (``5a``)
QUOTED      a name in backquotes, in which two stand for one
STRING      ``'..'`` or ``".."`` with backslash escapes, ``r'..'`` or ``r".."`` without; two quotes in a row
            are two strings here, since Spark's versions disagree about them
NUMBER      digits with an optional point, exponent and suffix (``L S Y D F BD``)
SYMBOL      an operator of several characters (shifts excepted), or any other single character
LIST        several plain numbers, or several plain strings, with commas between them, behind ``IN (``: long
            lists would be several tokens a value
END         one token behind the last
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

_TOKENS_PER_LITERAL: Final = 12
"""``m['k'] = CAST('1.20' AS DECIMAL(12, 2)) OR`` has about so many; more tokens than that are no filter."""
_TOKENS_BEFORE_LIST: Final = 2
_TOKENS_AT_ONCE: Final = 4_096
"""Between two looks at the deadline, some milliseconds."""


@final
class TokenKind(Enum):
    """What a token is; see the module's table."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    LIST = "list"
    END = "end"


class Token(NamedTuple):
    """A piece of the text.

    ``start``: 0-based character where it starts. ``word``: upper case text of a WORD, to be compared with
    keywords, unless it is a name behind a dot; the text of a SYMBOL; else empty.
    """

    kind: TokenKind
    text: str
    start: int
    word: str

    @property
    def end(self) -> int:
        """Where the token ends, exclusive."""
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
LIST_ITEM: Final = re.compile(_LIST_ITEM)
"""A value in the text of a LIST: a number with its sign, or a string without escapes in its quotes."""
# Of either kind, but what stands behind the last one decides whether it was plain. One match takes no more
# values than other threads may wait for.
_LIST: Final = re.compile(rf"\s*+((?:{_LIST_ITEM}\s*+,\s*+){{7,999}}{_LIST_ITEM})(?=\s*+[,)])")
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_OPENERS: Final = {"'": "string", '"': "string", "`": "quoted name"}


def tokenize(text: str, limits: FilterLimits) -> list[Token]:
    """The tokens of ``text``, END as the last.

    Raises FilterError: a string, a quoted name or a comment does not end. Raises LimitExceededError: there
    are far more tokens than the allowed literals need. Raises DeadlineExceededError: the time is used up.
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
    """Whether values of a list may follow: behind ``IN (``, or behind values and a comma."""
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
            names.append(_unquoted(token.text) if token.kind is TokenKind.QUOTED else token.text)
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


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`")
