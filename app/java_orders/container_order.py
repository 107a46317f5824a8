"""The order in which the engine's writer of data files puts columns and indexes into a container.

It means nothing to readers, and comes of the hash maps through which the indexes pass:

1. the table's options, and out of these kinds by column, a map's key being a column of its own;
2. writers by kind and column; those of a map column by key;
3. payloads by column, or ``column[key]``, and kind.

The maps of 1 and 2 decide only among columns that share a slot of the map of 3; there this order differs from
the engine's where the table has more options than a map of 16 slots takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.java_orders.hash_map import iteration_order, put_order
from app.options.map_keys import split_map_key

_MASK: Final = (1 << 32) - 1
_TRUE, _FALSE = 1231, 1237


def container_order(columns: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The columns of a data file and the kinds of their indexes in the engine's order.

    Args:
        columns: kinds by column, or ``column[key]``.
    """
    listed = {column: list(kinds) for column, kinds in columns.items()}
    options = {f"file-index.{kind}.columns": kind for kinds in listed.values() for kind in kinds}
    named = [
        (column, options[option])
        for option in _put(options)
        for column in listed
        if options[option] in listed[column]
    ]
    writers: dict[str, dict[str, list[str]]] = {}
    for column in _computed((column for column, _ in named), _option_hash):
        for kind in _computed(kind for other, kind in named if other == column):
            writers.setdefault(kind, {}).setdefault(split_map_key(column)[0], []).append(column)
    met: list[tuple[str, str]] = []
    for kind in _computed(writers):
        for name in _put(writers[kind]):
            met += [(column, kind) for column in _put(_put(writers[kind][name], _key_hash))]
    ordered = _computed((column for column, _ in met))
    return {column: _put(kind for other, kind in met if other == column) for column in ordered}


def _computed(names: Iterable[str], hash_of: Callable[[str], int] | None = None) -> list[str]:
    """Names in the order of a map that gets them with ``computeIfAbsent``, some of them repeatedly."""
    calls = list(names)
    distinct = list(dict.fromkeys(calls))
    if not distinct:
        return []
    order = iteration_order(
        _hash_codes(distinct, hash_of or _string_hash),
        np.argsort(np.argsort([name.encode("utf-16-be") for name in distinct])),
        looked_up_last=calls[-1] in calls[:-1],
    )
    return [distinct[at] for at in order]


def _put(names: Iterable[str], hash_of: Callable[[str], int] | None = None) -> list[str]:
    """Names in the order of a map that gets them with ``put``."""
    distinct = list(names)
    return [distinct[at] for at in put_order(_hash_codes(distinct, hash_of or _string_hash))]


def _hash_codes(names: Sequence[str], hash_of: Callable[[str], int]) -> NDArray[np.int32]:
    return np.array([hash_of(name) for name in names], np.uint32).view(np.int32)


def _string_hash(text: str) -> int:
    """``String.hashCode``."""
    units = np.frombuffer(text.encode("utf-16-le"), np.uint16)
    found = 0
    for unit in units.tolist():
        found = found * 31 + unit & _MASK
    return found


def _key_hash(column: str) -> int:
    """The hash of a map's key."""
    return _string_hash(split_map_key(column)[1] or "")


def _option_hash(column: str) -> int:
    """The hash of a column among the options, which is that of an array of its parts."""
    name, key = split_map_key(column)
    parts = (_string_hash(name), 0 if key is None else _string_hash(key), _FALSE if key is None else _TRUE)
    found = 1
    for part in parts:
        found = found * 31 + part & _MASK
    return found
