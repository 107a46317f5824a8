"""The kinds of file index that are known: one line each. What a kind is: :mod:`app.file_index.kind`."""

from __future__ import annotations

from typing import Any, TypeAlias

from app.errors import CorruptIndexError
from app.file_index.bitmap.kind import BITMAP
from app.file_index.bloom_filter.kind import BLOOM_FILTER
from app.file_index.bsi.kind import BSI
from app.file_index.keys.keys import key_space
from app.file_index.kind import Kind
from app.file_index.range_bitmap.kind import RANGE_BITMAP
from app.types import DataType
from app.types.roaring import Buffer

__all__ = ["BITMAP", "BLOOM_FILTER", "BSI", "KINDS", "RANGE_BITMAP", "IndexKind", "cost", "open_index"]

IndexKind: TypeAlias = Kind[Any, Any]

KINDS: dict[str, IndexKind] = {
    "bloom-filter": BLOOM_FILTER,
    "bitmap": BITMAP,
    "range-bitmap": RANGE_BITMAP,
    "bsi": BSI,
}
"""Kinds by the names that files give them; a leaf asks the first ones first, which are the cheapest."""


def cost(kind: str) -> int:
    """Place of a kind in the order of asking, cheapest first; kinds that nobody knows come last."""
    return list(KINDS).index(kind) if kind in KINDS else len(KINDS)


def open_index(kind: IndexKind, payload: Buffer, data_type: DataType) -> Any:  # noqa: ANN401 - each kind's own
    """Reads the heads of an index.

    Raises:
        CorruptIndexError: the payload is broken, or cannot belong to a column of this type.
    """
    space = key_space(data_type)
    if space is None or not kind.takes(data_type):
        raise CorruptIndexError(f"expected no {kind} index on a column of type {data_type}, found one")
    return kind.read(payload, space)
