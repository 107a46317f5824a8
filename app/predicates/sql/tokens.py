"""Cuts Spark SQL text into tokens.

==========  ==============================================================================================
kind        what Spark's lexer takes for it
==========  ==============================================================================================
WORD        letters, digits and ``_``: a keyword, a type or a column; may start with a digit (``5a``)
QUOTED      a name in backquotes, in which two stand for one
STRING      ``'..'`` or ``".."`` with backslash escapes, ``r'..'`` or ``r".."`` without; two quotes in a row
            are two strings here, since Spark's versions disagree about them
NUMBER      digits with an optional point, exponent and suffix (``L S Y D F BD``)
SYMBOL      an operator of several characters (shifts excepted), or any other single character
END         one token behind the last
==========  ==============================================================================================

Blanks, ``-- comments`` and nested ``/* comments */`` separate tokens and are left out.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, final

from app.errors import FilterError, LimitExceededError

if TYPE_CHECKING:
    from app.predicates.limits import FilterLimits

_TOKENS_PER_LITERAL: Final = 12
"""``m['k'] = CAST('1.20' AS DECIMAL(12, 2)) OR`` has about so many; more tokens than that are no filter."""


@final
class TokenKind(Enum):
    """What a token is; see the module's table."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


FUNCTIONS_WITHOUT_PARENTHESES: Final = frozenset(
    {"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "LOCALTIMESTAMP", "SESSION_USER"}
)
"""Words that look like columns."""


class Token(NamedTuple):
    """A piece of the text.

    Attributes:
        kind: what it is.
        text: the piece as written.
        start: 0-based character where it starts.
        word: upper case text of a WORD, to be compared with keywords; the text of a SYMBOL; else empty.
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
  | (?P<SYMBOL>  <=> | [<>!=]= | <> | ![<>] | :: | -> | => | \|\| | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_OPENERS: Final = {"'": "string", '"': "string", "`": "quoted name"}


def tokenize(text: str, limits: FilterLimits) -> list[Token]:
    """The tokens of ``text``, END as the last.

    Raises:
        FilterError: a string, a quoted name or a comment does not end.
        LimitExceededError: there are far more tokens than the allowed literals need.
    """
    tokens: list[Token] = []
    most = _TOKENS_PER_LITERAL * (limits.literals + 100)
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        group = found.lastgroup if found else None
        if found is None or group == "comment":
            at = _comment_end(text, at)
            continue
        if group != "blank" and group is not None:
            piece = found.group()
            if piece in _OPENERS:
                raise FilterError(f"this {_OPENERS[piece]} does not end", position=at)
            kind = TokenKind[group]
            word = piece.upper() if kind is TokenKind.WORD else piece if kind is TokenKind.SYMBOL else ""
            tokens.append(Token(kind, piece, at, word))
            if len(tokens) > most:
                raise LimitExceededError(f"the filter has more than {most} words and signs", limit=most)
        at = found.end()
    tokens.append(Token(TokenKind.END, "", len(text), ""))
    return tokens


def _comment_end(text: str, start: int) -> int:
    """Where the comment ends that starts at ``start``; comments nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise FilterError("this comment does not end", position=start)
