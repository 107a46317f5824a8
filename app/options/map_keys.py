"""``column[key]``: the values that a map column has under one key, as options and containers name them."""

from __future__ import annotations


def split_map_key(column: str) -> tuple[str, str | None]:
    """Name of a map column and the key, of ``column[key]``; other names have no key."""
    start = column.find("[")
    return (column[:start], column[start + 1 : -1]) if start >= 0 and column.endswith("]") else (column, None)


def map_key_name(column: str, key: str) -> str:
    """What options and containers call the values that a map column has under a key."""
    return f"{column}[{key}]"
