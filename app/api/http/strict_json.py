"""Strict reading and fast writing of JSON.

The reader requires UTF-8 without half surrogate pairs, and refuses NaN, Infinity and repeated names in an
object: a lenient reading could change the request. Numbers keep every digit, since a DECIMAL literal may have
38 of them.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from decimal import Decimal
from json.decoder import JSONObject  # type: ignore[attr-defined] # not in its stubs
from typing import Any, Final, NoReturn, TypeAlias

import orjson

from app.errors import RequestError

JsonMembers: TypeAlias = dict[str, Any]
"""A JSON object with any values that :func:`write_json` accepts."""

_LONGEST_NUMBER = 4_300
_ASCII_BYTES, _WIDE_BYTES = 3, 10
"""Bytes of memory for each character: the text twice, at one byte or four, and the values made of it."""
_OBJECT_BYTES = {b",": 88, b"[": 40, b"{": 144}
"""Bytes of memory for each value, and in addition for each list and object."""
_EXPECTATIONS = {
    "Expecting value": "a value is missing: a text in double quotes, a number, a list or an object",
    "Expecting property name": "a name in double quotes is missing",
    "Expecting ':'": "a colon behind the name is missing",
    "Expecting ','": "a comma or the closing bracket is missing",
    "Extra data": "more text follows the value",
    "Illegal trailing comma": "no comma may precede the closing bracket",
    "Unterminated string": "a text has no closing quote",
    "Invalid control character": "a text has a line break or another control character: escape it, as in \\n",
    "Invalid \\": "a backslash precedes a character that it cannot escape",
}
"""Explanations by the beginning of the decoder's own message."""
_OPTIONS = orjson.OPT_SERIALIZE_NUMPY
_LARGE = 1 << 20
_PIECE = 1 << 16


def read_json(content: bytes | bytearray, label: str = "the body") -> object:
    """Read JSON, with ``Decimal`` for numbers beyond a double. Raises RequestError if it is not strict."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"{label} is not UTF-8: {error.reason} at byte {error.start}") from error
    try:
        value = _decoded(text)
    except RecursionError as error:
        raise RequestError(f"{label} nests too deeply") from error
    except ArithmeticError as error:
        raise RequestError(f"{label} has a number whose exponent cannot be held") from error
    except json.JSONDecodeError as error:
        place = f"at line {error.lineno}, column {error.colno}"
        raise RequestError(f"{label} is not JSON: {place} {_explanation(error)}") from error
    except ValueError as error:
        raise RequestError(f"{label} is not JSON: {error}") from error
    # Only an escape can produce half a surrogate pair, and an answer that repeats one could not be encoded.
    if "\\" in text and ("\\ud" in text or "\\uD" in text):
        _check_unicode(value, label)
    return value


def memory_of_json(content: bytes | bytearray) -> int:
    """Return an upper bound of the bytes that reading ``content`` takes in addition to it."""
    of_text = _ASCII_BYTES if content.isascii() else _WIDE_BYTES
    return of_text * len(content) + sum(content.count(mark) * size for mark, size in _OBJECT_BYTES.items())


def write_json(value: object) -> bytes:
    """Encode ``value``. NumPy arrays become lists, and ``orjson.Fragment`` is copied verbatim."""
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except orjson.JSONEncodeError:
        # Python turns bytes of file names that are not UTF-8 into half surrogate pairs.
        return orjson.dumps(_mend(value), option=_OPTIONS)


def _decoded(text: str) -> object:
    if len(text) > _LARGE:
        # On an error the text is read again as a whole, so that the message names line and column.
        with suppress(ValueError, RecursionError, ArithmeticError, StopIteration):
            return _Pieces().decode(text)
    return json.loads(text, **_HOOKS)


class _Pieces(json.JSONDecoder):
    def __init__(self) -> None:
        super().__init__(**_HOOKS)
        # Other threads are blocked during each call of the scanner, so long lists are decoded in pieces.
        self._scan: Any = json.JSONDecoder(**_HOOKS).scan_once  # type: ignore[attr-defined] # missing in typeshed
        self.scan_once = self._value

    def _value(self, text: str, at: int) -> tuple[Any, int]:
        begin = text[at : at + 1]
        if begin == "{":
            behind = text, at + 1
            return JSONObject(behind, True, self._value, None, _unique)  # type: ignore[no-any-return] # noqa: FBT003
        first = text[at + 1 : at + _PIECE].lstrip()[:1]
        return self._scan(text, at) if begin != "[" or first in "[{]" else self._list(text, at + 1, first)

    def _list(self, text: str, at: int, first: str) -> tuple[list[Any], int]:
        edge = '",' if first == '"' else ","
        values: list[Any] = []
        while (end := text.find("]", at, at + _PIECE)) < 0:
            comma = text.rindex(edge, at, at + _PIECE) + len(edge) - 1
            values += self._piece(text[at:comma])
            at = comma + 1
        values += self._piece(text[at:end])
        return values, end + 1

    def _piece(self, text: str) -> list[Any]:
        values, end = self._scan(f"[{text}]", 0)
        # A bracket or edge inside a text cuts it: such a piece is not a whole list by itself.
        if end < len(text) + 2 or not values:
            raise ValueError("a text has a bracket, or something is wrong")
        return values  # type: ignore[no-any-return]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"{twice!r:.100} stands twice in one object")
    return members


def _explanation(error: json.JSONDecodeError) -> str:
    if error.doc[error.pos : error.pos + 1] == "'":
        return "names and texts need double quotes"
    beginning = next((text for text in _EXPECTATIONS if error.msg.startswith(text)), None)
    return error.msg.lower() if beginning is None else _EXPECTATIONS[beginning]


def _exact(text: str) -> float | Decimal:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} characters")
    number, exact = float(text), Decimal(text)
    return number if exact == Decimal(repr(number)) else exact


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number; write it as a string")


_HOOKS: Final[Any] = {
    "object_pairs_hook": _unique,
    "parse_float": _exact,
    "parse_constant": _refuse_constant,
}


def _check_unicode(value: object, label: str) -> None:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{label} has an escape for half a surrogate pair") from error


def _mend(value: object) -> object:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_mend(name): _mend(member) for name, member in value.items()}
        case list() | tuple():
            return [_mend(item) for item in value]
        case _:
            return _mend(asdict(value)) if is_dataclass(value) and not isinstance(value, type) else value
