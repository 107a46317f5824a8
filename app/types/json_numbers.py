"""Numbers in JSON, exactly: integers and decimals, as numbers or as their text."""

from __future__ import annotations

import decimal
import re
from typing import Final

MAX_NUMBER_TEXT: Final = 400
"""No more characters of a number are read."""

_MAX_INTEGER_DIGITS: Final = 40
_INTEGER: Final = re.compile(rf"[+-]?\d{{1,{_MAX_INTEGER_DIGITS}}}", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:\d++\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)


def is_integer(value: object) -> bool:
    """Whether a JSON value is an integer; Python counts booleans among them."""
    return isinstance(value, int) and not isinstance(value, bool)


def any_integer(value: object) -> int:
    """An integer of any size, written as one or as its text.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, decimal.Decimal) and any_decimal(value) == value.to_integral_value():
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    raise ValueError("not an integer")


def any_decimal(value: object) -> decimal.Decimal:
    """A finite decimal with up to 400 digits on either side, written as a number or as its text.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | decimal.Decimal):
        raise ValueError("not a number")  # noqa: TRY004 - turned into one error for all
    if isinstance(value, int) and abs(value) >= 10**MAX_NUMBER_TEXT:
        raise ValueError("too many digits")
    # A JSON float stands for the digits that were written; repr gives the shortest such text.
    text = repr(value) if isinstance(value, float) else str(value).strip()
    if not _DECIMAL.fullmatch(text):
        raise ValueError("not a number")
    number = decimal.Decimal(text)
    if len(text) > MAX_NUMBER_TEXT or abs(number.adjusted()) > MAX_NUMBER_TEXT:
        raise ValueError("too many digits")
    return number
