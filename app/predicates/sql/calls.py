"""Steps over calls of functions in Spark SQL.

::

    call      = name { "." name } "(" [ [ DISTINCT | ALL ] argument { separator argument } ] ")" { behind }
    argument  = expression | name "=>" expression | lambda | "*" | expression [ AS ] name
    lambda    = name "->" expression | "(" name "," name { "," name } ")" "->" expression
    separator = "," | FROM | FOR | IN | PLACING
    behind    = WITHIN GROUP "(" .. ")" | FILTER "(" .. ")" | ( IGNORE | RESPECT ) NULLS | OVER ..

Words separate the arguments of some functions only (``_FORMS``), and only STRUCT names its arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from app.predicates.sql.data_types import TypeReader
from app.predicates.sql.tokens import Token, TokenKind
from app.predicates.unbound import Column

LOOSEST: Final = 1
"""The level of OR; see :meth:`CallReader.expression`."""
COMPARISON: Final = 5
"""The level of ``=`` and its kin."""

_NAMES: Final = frozenset({TokenKind.WORD, TokenKind.QUOTED})
_CASTS: Final = frozenset({"CAST", "TRY_CAST"})
_FORMS: Final[dict[str, set[tuple[str, ...]]]] = {
    "EXTRACT": {("FROM",)},
    "OVERLAY": {("PLACING", "FROM"), ("PLACING", "FROM", "FOR")},
    "POSITION": {("IN",)},
    "SUBSTR": {("FROM",), ("FROM", "FOR"), ("FROM", ","), (",", "FOR")},
    "SUBSTRING": {("FROM",), ("FROM", "FOR"), ("FROM", ","), (",", "FOR")},
    "TRIM": {("FROM",)},
}
"""What may separate the arguments of a function besides commas alone."""
_SEPARATORS: Final = frozenset({",", "FROM", "FOR", "IN", "PLACING"})
_OF_UNITS: Final = frozenset(
    {"TIMESTAMPADD", "DATEADD", "DATE_ADD", "TIMESTAMPDIFF", "DATEDIFF", "DATE_DIFF", "TIMEDIFF"}
)
_UNITS: Final = frozenset(
    {
        *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFYEAR"),
        *("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"),
    }
)
_STARTS: Final = frozenset({"(", "+", "-", "~", "!", "*"})
_SIDES: Final = frozenset({"BOTH", "LEADING", "TRAILING"})
_WITH_NULLS: Final = frozenset({"ANY_VALUE", "FIRST", "LAST"})
_INFIX: Final = frozenset(
    {
        *("AND", "OR", "IS", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "DIV"),
        *("THEN", "WHEN", "ELSE", "END"),
    }
)
"""Words that end an expression wherever they do not have to be names."""


class CallReader(TypeReader, ABC):
    """Reads tokens from the left.

    Attributes:
        columns: the columns that were met.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self.columns: list[Column] = []
        self._variables: list[str] = []

    @abstractmethod
    def expression(self, loosest: int = LOOSEST) -> int:
        """Steps over an expression; tells the level of its outermost operator.

        Args:
            loosest: operators that bind looser than this level end the expression.
        """

    def named(self) -> None:
        """Steps over a column or a call, the next token being a name."""
        start = self.position
        is_word = self._tokens[self._at].kind is TokenKind.WORD
        names = self.names()
        if self._tokens[self._at].word != "(":
            if names[0].lower() not in self._variables:
                self.columns.append(Column(names, position=start))
            return
        function = names[0].upper() if len(names) == 1 and is_word else ""
        self._at += 1
        if self._tokens[self._at].word != ")":
            self._arguments(function)
        self.need(")")
        if function == "IDENTIFIER" and self._tokens[self._at].word == "(":
            self._at += 1
            if self._tokens[self._at].word != ")":
                self._arguments("")
            self.need(")")
        self._behind()

    def skip_brackets(self) -> None:
        """Steps over an opening parenthesis and all up to its partner, unread."""
        depth = 0
        while True:
            word = self._tokens[self._at].word
            self._at += 1
            depth += (word == "(") - (word == ")")
            if depth == 0:
                return

    def starts_expression(self, ahead: int = 0) -> bool:
        """Whether an expression may start with the token so far ahead."""
        token = self._tokens[min(self._at + ahead, len(self._tokens) - 1)]
        if token.kind is TokenKind.SYMBOL:
            return token.word in _STARTS
        return token.kind is not TokenKind.END and token.word not in _INFIX

    def _arguments(self, function: str) -> None:
        if self._tokens[self._at].word in ("DISTINCT", "ALL") and self.starts_expression(1):
            self._at += 1
        behind = self._tokens[self._at + 1].word
        word = self._tokens[self._at].word
        is_unit = function in _OF_UNITS and behind == "," and word in _UNITS
        taken: list[str] = []
        if function == "EXTRACT" and self._tokens[self._at].kind is TokenKind.STRING:
            self.expected("a field such as YEAR")
        if is_unit or (function == "EXTRACT" and behind == "FROM" and self._tokens[self._at].kind in _NAMES):
            self._at += 1
        elif function == "TRIM" and self.starts_expression(1) and (self.take_any(_SIDES) or word == "FROM"):
            if self._tokens[self._at].word != "FROM":
                self._argument(function)
            if self._tokens[self._at].word != "FROM":
                self.expected("FROM")
        else:
            self._argument(function)
        while separator := self.take_any(_SEPARATORS if function in _FORMS else (",",)):
            taken.append(separator)
            self._argument(function)
        if set(taken) - {","} and tuple(taken) not in _FORMS.get(function, ()):
            self.expected("other separators of arguments")

    def _argument(self, function: str) -> None:
        token, behind = self._tokens[self._at], self._tokens[self._at + 1]
        if token.kind in _NAMES and behind.word == "->":
            self._at += 2
            self._lambda([token.text.strip("`").lower()])
        elif token.word == "(" and (variables := self._variables_ahead()):
            self._lambda(variables)
        elif self._take_star():
            pass
        else:
            if token.kind in _NAMES and behind.word == "=>":
                self._at += 2
            self.expression(COMPARISON if function == "POSITION" else LOOSEST)
            if function == "STRUCT":
                self.alias()
            if function in _CASTS and self.take("AS"):
                self.type()
            if function in _WITH_NULLS and self.take("IGNORE"):
                self.need("NULLS")

    def alias(self) -> bool:
        """Steps over the name that an expression gets, if it gets one."""
        if self.take("AS") or self._tokens[self._at].kind in _NAMES:
            if len(self.names()) != 1:
                self.expected("a name")
            return True
        return False

    def _take_star(self) -> bool:
        at = self._at
        self.names()
        if at != self._at and not self.take("."):
            self._at = at
            return False
        if not self.take("*"):
            self._at = at
            return False
        if self.take("EXCEPT") and self._tokens[self._at].word == "(":
            self.skip_brackets()
        return True

    def _variables_ahead(self) -> list[str]:
        """Steps over ``(a, b) ->`` if it stands here; the variables."""
        at = self._at
        self._at += 1
        found: list[str] = []
        while self._tokens[self._at].kind in _NAMES:
            found.append(self._tokens[self._at].text.strip("`").lower())
            self._at += 1
            if not self.take(","):
                break
        if len(found) > 1 and self.take(")") and self.take("->"):
            return found
        self._at = at
        return []

    def _lambda(self, variables: list[str]) -> None:
        self._variables += variables
        self.expression()
        del self._variables[-len(variables) :]

    def _behind(self) -> None:
        """Steps over what makes a call one of an aggregate or a window."""
        if self.take("WITHIN"):
            self.need("GROUP")
            if self._tokens[self._at].word != "(":
                self.expected("(")
            self.skip_brackets()
        if self.take_call(("FILTER",)):
            self._at -= 1
            self.skip_brackets()
        if self.take_any(("IGNORE", "RESPECT")):
            self.need("NULLS")
        if self.take("OVER"):
            if self._tokens[self._at].word == "(":
                self.skip_brackets()
            elif len(self.names()) != 1:
                self.expected("a window")
