"""Sizes as table options write them: ``500 b``, ``16 kb``, ``2 MB``."""

from __future__ import annotations

import re

from app.errors import RequestError

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
    """Bytes of a size; without a unit it counts bytes."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS:
        raise RequestError(f"{name} must be a size such as 500 b, 16 kb or 1 mb, found {text!r:.100}")
    return int(found[1]) * _UNITS[found[2]]
