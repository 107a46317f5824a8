"""Parses single options in one of two modes.

*Stored* options of an existing table were accepted by its writer, so a value of the right form is used even
if this release would not write it. *Given* options are for writing: every value that makes no sense is
reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from app.errors import CorruptMetadataError, PaimonIndexError, RequestError

INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1

_WHOLE: Final = re.compile(r"[+-]?\d{1,10}", re.ASCII)


class OptionReader:
    """Options of a table by name, given or stored."""

    __slots__ = ("_given", "_values")

    def __init__(self, values: Mapping[str, str], *, given: bool) -> None:
        self._values = values
        self._given = given

    def boolean(self, name: str, *, default: bool) -> bool:
        """Parse ``true`` or ``false``."""
        match self._values.get(name, str(default)).strip().lower():
            case "true":
                return True
            case "false":
                return False
            case written:
                raise self._error(name, "true or false", written)

    def integer(self, name: str, *, most: int, special: int | None = None) -> int | None:
        """Parse a whole number. Return None if the option is not set.

        A given number is at least 1, or ``special``. A stored one may be any number of its type.
        """
        written = self._values.get(name)
        if written is None:
            return None
        alternative = "" if special is None else f"{special} or "
        try:
            number = int(written)
        except ValueError as error:
            raise self._error(name, f"{alternative}a number", written) from error
        least = 1 if self._given else -most - 1
        if not least <= number <= most and not (self._given and number == special):
            raise self._error(name, f"{alternative if self._given else ''}from {least} to {most}", written)
        return number

    def size(self, name: str, default: int) -> int:
        """Parse a size in bytes."""
        return memory_size(name, self._values.get(name, str(default)))

    def _error(self, name: str, expected: str, written: str) -> PaimonIndexError:
        kind = RequestError if self._given else CorruptMetadataError
        return kind(f"{name} must be {expected}, found {written!r:.100}")


def whole_number(name: str, text: str) -> int:
    """Parse a whole number of 32 bits."""
    if not _WHOLE.fullmatch(text) or not -INT32_MAX <= int(text) <= INT32_MAX:
        raise RequestError(f"{name} must be a whole number of 32 bits, found {text!r:.100}")
    return int(text)


def fraction(name: str, text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError as error:
        raise RequestError(f"{name} must be a number, found {text!r:.100}") from error


_SIZE = re.compile(r"(\d{1,18})\s*([a-z]*)", re.ASCII)
_UNITS = {
    unit: 1 << 10 * power
    for power, units in enumerate(
        (
            ("", "b", "bytes"),
            ("k", "kb", "kibibytes"),
            ("m", "mb", "mebibytes"),
            ("g", "gb", "gibibytes"),
            ("t", "tb", "tebibytes"),
        )
    )
    for unit in units
}


def memory_size(name: str, text: str) -> int:
    """Parse a size. Without a unit it counts bytes."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise RequestError(f"{name} must be a size such as 500 b, 16 kb or 1 mb, found {text!r:.100}")
    return int(match[1]) * _UNITS[match[2]]
