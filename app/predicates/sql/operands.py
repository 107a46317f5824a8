"""Reads the sides of a comparison in Spark SQL: a column, a key of a map, a literal.

::

    operand  = "(" operand ")" | column [ "[" string "]" ] | literal
    column   = name { "." name }
    literal  = { "+" | "-" } number | string { string } | type string | TRUE | FALSE | NULL
             | ( CAST | TRY_CAST ) "(" literal AS type [ "(" number [ "," number ] ")" ] ")"
             | repeated | CONCAT "(" piece { "," piece } ")"
    piece    = string { string } | repeated
    repeated = REPEAT "(" string { string } "," number ")"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from app.predicates.sql.cursor import Cursor
from app.predicates.sql.literals import (
    cast_literal,
    negate,
    read_list,
    read_number,
    read_string,
    typed_literal,
)
from app.predicates.sql.tokens import Token, TokenKind
from app.predicates.unbound import Column, Literal, LiteralKind
from app.types.session_zone import SessionZone

Operand: TypeAlias = Column | Literal

_WORD_LITERALS: Final = {"TRUE": True, "FALSE": False, "NULL": None}
_NUMERIC: Final = frozenset({LiteralKind.NUMBER, LiteralKind.FLOAT, LiteralKind.DOUBLE, LiteralKind.NULL})
_REPETITIONS: Final = re.compile(r"[0-9]{1,9}")
_MAX_REPEATED_CHARACTERS: Final = 1 << 20
"""Longer text is left undecided, so that a short filter cannot take much memory."""
_TYPE_ARGUMENT: Final = re.compile(r"[0-9]{1,3}")


class OperandReader(Cursor):
    """Reads tokens from the left.

    Args:
        tokens: one or more tokens, END not among them.
        zone: the time zone of the caller's session; None if it is not known.

    Attributes:
        literals: how many literals were read.
    """

    def __init__(self, tokens: Sequence[Token], zone: SessionZone | None) -> None:
        super().__init__(tokens)
        self._zone = zone
        self._casting = False
        self.literals = 0

    def operand(self) -> Operand | None:
        """Reads a column or a literal, however many parentheses it stands in; None if it is neither."""
        opened = 0
        while self.take("("):
            opened += 1
        found = self._bare_operand()
        closed = all(self.take(")") for _ in range(opened))
        if isinstance(found, Literal):
            self.literals += 1
        return found if closed else None

    def listed(self) -> Sequence[Literal] | None:
        """Reads the values of a LIST token; None if none stands here."""
        token = self._tokens[self._at]
        if token.kind is not TokenKind.LIST:
            return None
        self._at += 1
        found = read_list(token.text, token.start)
        self.literals += len(found)
        return found

    def _bare_operand(self) -> Operand | None:
        token, behind = self._tokens[self._at], self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        match token.kind:
            case TokenKind.NUMBER:
                self._at += 1
                return read_number(token.text, token.start)
            case TokenKind.STRING:
                text = self._strings()
                return None if text is None else Literal(LiteralKind.STRING, text, token.start)
            case TokenKind.SYMBOL if token.word in ("+", "-"):
                return self._signed()
            case TokenKind.QUOTED:
                return self._column()
            case TokenKind.WORD if behind.kind is TokenKind.STRING:
                self._at += 1
                text = self._strings()
                return None if text is None else typed_literal(token.word, text, token.start, self._zone)
            case TokenKind.WORD if behind.word == "(" and token.word in ("CAST", "TRY_CAST"):
                return self._cast()
            case TokenKind.WORD if behind.word == "(":
                text = self._concat()
                return None if text is None else Literal(LiteralKind.STRING, text, token.start)
            case TokenKind.WORD if token.word in _WORD_LITERALS:
                self._at += 1
                value = _WORD_LITERALS[token.word]
                return Literal(LiteralKind.NULL if value is None else LiteralKind.BOOLEAN, value, token.start)
            case TokenKind.WORD:
                return self._column()
            case _:
                return None

    def _column(self) -> Column | None:
        position = self.position
        names = self.names()
        key: str | None = None
        if self.take("["):
            if self._tokens[self._at].kind is not TokenKind.STRING:
                return None
            key = self._strings()
            if key is None or not self.take("]"):
                return None
        # What follows leads further into a nested value, or names a function.
        return None if self._tokens[self._at].word in (".", "[", "(") else Column(names, key, position)

    def _strings(self) -> str | None:
        """Strings in a row are one; where they touch, Spark's versions disagree on what the quotes mean."""
        parts: list[str] = []
        while (token := self._tokens[self._at]).kind is TokenKind.STRING:
            if parts and self._tokens[self._at - 1].end == token.start:
                return None
            parts.append(read_string(token.text, token.start))
            self._at += 1
        return "".join(parts)

    def _concat(self) -> str | None:
        """Text written as a constant call of CONCAT or REPEAT, as generated filters write long text."""
        if self.take_call(("CONCAT",)) is None:
            return self._repeat()
        parts: list[str] = []
        while True:
            part = self._strings() if self._tokens[self._at].kind is TokenKind.STRING else self._repeat()
            if part is None:
                return None
            parts.append(part)
            if not self.take(","):
                return "".join(parts) if self.take(")") else None

    def _repeat(self) -> str | None:
        if self.take_call(("REPEAT",)) is None:
            return None
        text = self._strings()
        if text is None or not self.take(","):
            return None
        times = self._tokens[self._at].text
        if not _REPETITIONS.fullmatch(times) or len(text) * int(times) > _MAX_REPEATED_CHARACTERS:
            return None
        self._at += 1
        return text * int(times) if self.take(")") else None

    def _signed(self) -> Literal | None:
        negative = False
        while (sign := self._tokens[self._at].word) in ("+", "-"):
            negative ^= sign == "-"
            self._at += 1
        found = self._bare_operand()
        if not isinstance(found, Literal) or found.kind not in _NUMERIC:
            return None
        return negate(found) if negative else found

    def _cast(self) -> Literal | None:
        start = self._tokens[self._at].start
        if self._casting:
            return None
        self._casting = True
        self._at += 2
        found = self._bare_operand()
        self._casting = False
        if not isinstance(found, Literal) or not self.take("AS"):
            return None
        type_name = self._tokens[self._at].word
        self._at += 1
        arguments = self._type_arguments()
        if arguments is None or not self.take(")"):
            return None
        return cast_literal(found, type_name, arguments, start, self._zone)

    def _type_arguments(self) -> tuple[int, ...] | None:
        arguments: list[int] = []
        if self.take("("):
            while _TYPE_ARGUMENT.fullmatch(self._tokens[self._at].text):
                arguments.append(int(self._tokens[self._at].text))
                self._at += 1
                if not self.take(","):
                    break
            if not self.take(")"):
                return None
        return tuple(arguments)
