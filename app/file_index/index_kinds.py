"""The kinds of file index, which types each takes, and how to open one."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, assert_never

from app.errors import CorruptIndexError
from app.file_index.bitmap import BitmapIndex
from app.file_index.bloom_filter import BloomFilter
from app.file_index.bsi import BitSlicedIntegers
from app.file_index.keys import key_space
from app.file_index.range_bitmap import RangeBitmap
from app.types import TypeRoot
from app.types.data_types import BINARY_ROOTS, FLOATING_ROOTS, INTEGER_BITS, STRING_ROOTS, TIMESTAMP_ROOTS

if TYPE_CHECKING:
    from app.types import DataType
    from app.types.roaring import Buffer

AnyIndex: TypeAlias = BloomFilter | BitmapIndex | RangeBitmap | BitSlicedIntegers


class IndexKind(StrEnum):
    """Kinds by the names that files give them, cheapest first."""

    BLOOM_FILTER = "bloom-filter"
    BITMAP = "bitmap"
    RANGE_BITMAP = "range-bitmap"
    BSI = "bsi"


_WHOLE = frozenset({TypeRoot.DATE, TypeRoot.TIME, *INTEGER_BITS})
_ROOTS = {
    IndexKind.BLOOM_FILTER: _WHOLE | FLOATING_ROOTS | STRING_ROOTS | BINARY_ROOTS | TIMESTAMP_ROOTS,
    IndexKind.BITMAP: _WHOLE | {TypeRoot.BOOLEAN} | FLOATING_ROOTS | STRING_ROOTS | TIMESTAMP_ROOTS,
    IndexKind.RANGE_BITMAP: _WHOLE
    | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL}
    | FLOATING_ROOTS
    | STRING_ROOTS
    | TIMESTAMP_ROOTS,
    IndexKind.BSI: _WHOLE | {TypeRoot.DECIMAL} | TIMESTAMP_ROOTS,
}


def takes(kind: IndexKind, data_type: DataType) -> bool:
    """Whether the engine can have written an index of this kind on a column of this type."""
    if data_type.root not in _ROOTS[kind]:
        return False
    if kind is not IndexKind.RANGE_BITMAP:
        return True
    space = key_space(data_type)
    is_wide_decimal = data_type.root is TypeRoot.DECIMAL and not data_type.is_compact_decimal
    return space is not None and not space.lossy and not is_wide_decimal


def open_index(kind: IndexKind, payload: Buffer, data_type: DataType) -> AnyIndex:
    """Reads the heads of an index.

    Raises:
        CorruptIndexError: the payload is broken, or cannot belong to a column of this type.
    """
    space = key_space(data_type)
    if space is None or not takes(kind, data_type):
        raise CorruptIndexError(f"expected no {kind} index on a column of type {data_type}, found one")
    match kind:
        case IndexKind.BLOOM_FILTER:
            return BloomFilter.read(payload, space)
        case IndexKind.BITMAP:
            return BitmapIndex.read(payload, space)
        case IndexKind.RANGE_BITMAP:
            return RangeBitmap.read(payload, space)
        case IndexKind.BSI:
            return BitSlicedIntegers.read(payload)
        case _:
            assert_never(kind)
