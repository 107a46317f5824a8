"""Steps over the types and intervals of Spark SQL; what they mean is nobody's matter here.

::

    type     = plain | sized [ "(" number { "," number } ")" ] | TIMESTAMP [ WITHOUT TIME ZONE ]
             | STRING [ COLLATE name ] | INTERVAL [ unit [ TO unit ] ] | ARRAY "<" type ">"
             | MAP "<" type "," type ">" | STRUCT ( "<>" | "<" [ member { "," member } ] ">" )
    member   = name [ ":" ] type [ NOT NULL ] [ COMMENT string ]
    interval = INTERVAL ( string | { amount unit } | amount unit TO unit )
    amount   = [ "+" | "-" ] ( number | string )
"""

from __future__ import annotations

import re
from typing import Final

from app.errors import FilterError
from app.predicates.sql.cursor import Cursor
from app.predicates.sql.tokens import TokenKind

_PLAIN: Final = frozenset(
    {
        *("BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG"),
        *("FLOAT", "REAL", "DOUBLE", "DATE", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "BINARY", "VOID", "VARIANT"),
    }
)
_SIZED: Final = {
    "DECIMAL": (0, 1, 2),
    "DEC": (0, 1, 2),
    "NUMERIC": (0, 1, 2),
    "CHAR": (1,),
    "CHARACTER": (1,),
    "VARCHAR": (1,),
    "TIME": (0, 1),
}
"""How many numbers may stand behind a type."""
_OTHERS: Final = frozenset({"STRING", "TIMESTAMP", "INTERVAL", "ARRAY", "MAP", "STRUCT"})
_SIZE: Final = re.compile(r"[0-9]+")
_UNITS: Final = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_SMALL_UNITS: Final = ("MILLISECOND", "MICROSECOND", "NANOSECOND")
_AMOUNT_UNITS: Final = frozenset({*_UNITS, *_SMALL_UNITS, *(f"{each}S" for each in _UNITS + _SMALL_UNITS)})
_RANGE_UNITS: Final = frozenset(_UNITS) - {"WEEK"}


class TypeReader(Cursor):
    """Reads tokens from the left."""

    def type(self) -> None:
        """Steps over a type.

        Raises:
            FilterError: there is none.
        """
        if self.take_any(_PLAIN):
            return
        sized = self.take_any(_SIZED)
        if sized is not None:
            self._sizes(_SIZED[sized])
        else:
            self._other_type()

    def _other_type(self) -> None:
        match self.take_any(_OTHERS):
            case "STRING":
                if self.take("COLLATE") and not self.names():
                    self.expected("a collation")
            case "TIMESTAMP":
                if self.take("WITHOUT"):
                    self.need("TIME")
                    self.need("ZONE")
            case "INTERVAL":
                if self.take_any(_RANGE_UNITS) and self.take("TO") and not self.take_any(_RANGE_UNITS):
                    self.expected("a unit of time")
            case "ARRAY" | "MAP" as root:
                self._within(1 if root == "ARRAY" else 2)
            case "STRUCT":
                self._struct()
            case _:
                self.expected("a type of Spark SQL")

    def interval(self) -> None:
        """Steps over an interval, INTERVAL being the next token.

        Raises:
            FilterError: there is none.
        """
        self._at += 1
        end = self._amount_end(self._at)
        if not end:
            self._at += 1
            return
        self._at = end
        if self._tokens[end - 1].word in _RANGE_UNITS and self.take("TO"):
            if not self.take_any(_RANGE_UNITS):
                self.expected("a unit of time")
            return
        while end := self._amount_end(self._at):
            self._at = end

    def need(self, word: str) -> None:
        """Steps over a keyword or symbol that must stand here.

        Raises:
            FilterError: it does not.
        """
        if not self.take(word):
            self.expected(word)

    def expected(self, what: str) -> None:
        """Says what should stand here.

        Raises:
            FilterError: always.
        """
        token = self._tokens[self._at]
        found = repr(token.text[:50]) if token.text else "the end"
        raise FilterError(f"expected {what}, found {found}", position=token.start)

    def starts_interval(self) -> bool:
        """Whether INTERVAL stands here and is no name."""
        if self._tokens[self._at].word != "INTERVAL":
            return False
        is_text = self._tokens[self._at + 1].kind is TokenKind.STRING
        return is_text or self._amount_end(self._at + 1) > 0

    def _amount_end(self, at: int) -> int:
        """Where the amount with a unit ends that starts at ``at``; 0 if none does."""
        if self._tokens[at].word in ("+", "-"):
            at += 1
        start = at
        if self._tokens[at].kind is TokenKind.NUMBER:
            at += 1
        else:
            while self._tokens[at].kind is TokenKind.STRING:
                at += 1
        return at + 1 if at > start and self._tokens[at].word in _AMOUNT_UNITS else 0

    def _sizes(self, allowed: tuple[int, ...]) -> None:
        given = 0
        if self.take("("):
            allowed = tuple(each for each in allowed if each)
            while _SIZE.fullmatch(self._tokens[self._at].text):
                given += 1
                self._at += 1
                if not self.take(","):
                    break
            self.need(")")
        if given not in allowed:
            self.expected("a length" if given < min(allowed) else "another number of sizes")

    def _within(self, types: int) -> None:
        self.need("<")
        for number in range(types):
            if number:
                self.need(",")
            self.type()
        self.need(">")

    def _struct(self) -> None:
        if self.take("<>"):
            return
        self.need("<")
        if self.take(">"):
            return
        while True:
            if len(self.names()) != 1:
                self.expected("the name of a field")
            self.take(":")
            self.type()
            if self.take("NOT"):
                self.need("NULL")
            if self.take("COMMENT"):
                if self._tokens[self._at].kind is not TokenKind.STRING:
                    self.expected("a string")
                self._at += 1
            if not self.take(","):
                break
        self.need(">")
