"""What is in a file index, for people who look at one."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from app.errors import CorruptIndexError
from app.file_index import bsi, range_bitmap
from app.file_index.bitmap import BitmapHead, BitmapIndex
from app.file_index.bloom_filter import BloomFilter
from app.file_index.bsi import BitSlicedIntegers
from app.file_index.container import VERSION, blame
from app.file_index.cursor import Cursor
from app.file_index.index_kinds import IndexKind
from app.file_index.keys import ByteKeys, key_space
from app.file_index.range_bitmap import RangeBitmap, RangeBitmapHead
from app.types import TypeRoot, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.file_index.container import Entry, FileIndex
    from app.file_index.index_kinds import AnyIndex
    from app.file_index.keys import Key
    from app.types import DataType, Json
    from app.types.roaring import Buffer


def inspect(index: FileIndex, types: Mapping[str, DataType]) -> dict[str, Json]:
    """A description of every index of a container.

    A damaged index is described by its ``error``; the others are not affected.

    Args:
        index: the container.
        types: types of columns by name, as far as they are known; a map column stands for its keys. Of
            columns without a type only that is told which needs none.
    """
    return {
        "version": VERSION,
        "size": index.size,
        "columns": [
            {
                "name": column,
                "indexes": [_describe(index, entry, _type_of(column, types)) for entry in entries],
            }
            for column, entries in index.entries.items()
        ],
    }


def _type_of(column: str, types: Mapping[str, DataType]) -> DataType | None:
    """The type of a column, or of the values of the map that ``column[key]`` belongs to."""
    if column in types:
        return types[column]
    holder = types.get(column[: column.find("[")]) if column.endswith("]") else None
    return holder.children[1] if holder is not None and holder.root is TypeRoot.MAP else None


def _describe(index: FileIndex, entry: Entry, data_type: DataType | None) -> dict[str, Json]:
    described: dict[str, Json] = {"type": entry.kind, "offset": entry.start, "length": entry.length}
    if entry.is_empty:
        return described | {"empty": True}
    try:
        with blame(entry):
            return described | _content(index, entry, data_type)
    except CorruptIndexError as error:
        return described | {"error": {"detail": error.expectation, "offset": error.offset}}


def _content(index: FileIndex, entry: Entry, data_type: DataType | None) -> dict[str, Json]:
    if entry.kind not in set(IndexKind):
        return {"error": {"detail": f"{entry.kind!r} is no kind of index that is known here", "offset": None}}
    kind = IndexKind(entry.kind)
    if data_type is None:
        return _untyped(kind, index.payload(entry))
    return _typed(index.open(entry, kind, data_type), data_type)


def _untyped(kind: IndexKind, payload: Buffer) -> dict[str, Json]:
    """What can be told without knowing what a key looks like."""
    match kind:
        case IndexKind.BLOOM_FILTER:
            return _bloom_filter(BloomFilter.read(payload, ByteKeys()))
        case IndexKind.BITMAP:
            bitmap = BitmapHead.read(Cursor(payload))
            return {
                "version": bitmap.version,
                "row_count": bitmap.row_count,
                "cardinality": bitmap.cardinality,
                "has_nulls": bitmap.nulls is not None,
            }
        case IndexKind.RANGE_BITMAP:
            ranges = RangeBitmapHead.read(Cursor(payload))
            return {
                "version": range_bitmap.VERSION,
                "row_count": ranges.row_count,
                "cardinality": ranges.cardinality,
            }
        case IndexKind.BSI:
            integers = BitSlicedIntegers.read(payload)
            return {
                "version": bsi.VERSION,
                "row_count": integers.row_count,
                "null_count": len(integers.null_rows()),
            }
        case _:
            assert_never(kind)


def _typed(opened: AnyIndex, data_type: DataType) -> dict[str, Json]:
    match opened:
        case BloomFilter():
            return _bloom_filter(opened)
        case BitmapIndex(head=head):
            return {
                "version": head.version,
                "row_count": head.row_count,
                "cardinality": head.cardinality,
                "null_count": len(opened.null_rows()),
                **_bounds(opened.entries.bounds(), data_type),
            }
        case RangeBitmap():
            return {
                "version": range_bitmap.VERSION,
                "row_count": opened.row_count,
                "cardinality": opened.cardinality,
                "null_count": len(opened.null_rows()),
                **_bounds(opened.bounds, data_type),
            }
        case BitSlicedIntegers():
            return {
                "version": bsi.VERSION,
                "row_count": opened.row_count,
                "null_count": len(opened.null_rows()),
                **_bounds(opened.bounds(), data_type),
            }
        case _:
            assert_never(opened)


def _bloom_filter(bloom: BloomFilter) -> dict[str, Json]:
    return {"bits": 8 * len(bloom.bits), "hash_functions": bloom.hash_functions}


def _bounds(keys: tuple[Key, Key] | None, data_type: DataType) -> dict[str, Json]:
    space = key_space(data_type)
    if keys is None or space is None:
        return {"min": None, "max": None}
    low, high = (to_json(space.value(key), data_type) for key in keys)
    return {"min": low, "max": high}
