"""Manifests, and values made of them, as files of arrays on a disk: mapped, not decoded again.

A value is taken apart into arrays, and JSON that tells how to put it together again. A mapped manifest takes
its columns from the file when somebody asks for them: what nobody asks for, such as the statistics of columns
without a filter, takes no memory. A column that turns out to be damaged is taken from the original, which is
read and decoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.predicates.verdicts import ColumnBounds
from app.storage.array_file import ArrayFile, Block, DamagedArraysError
from app.storage.disk_tier import KeptArrays
from app.table.manifests.manifest import Derived, Manifest
from app.table.manifests.row_statistics import StatisticsColumns
from app.table.records.columns import NameLists, OptionalIntegers
from app.types import Json
from app.types.bytes_column import BytesColumn

Made = TypeVar("Made")

_WHOLE: Final = "whole"
_OF_ARRAYS: Final = {
    each.__name__: each for each in (BytesColumn, StatisticsColumns, OptionalIntegers, ColumnBounds)
}


def cached_on_disk(place: KeptArrays | None, make: Callable[[], Made]) -> Made:
    """What was kept in a place, or else what ``make`` makes, which is kept there then."""
    if place is None:
        return make()
    found = load_value(place)
    if found is None:
        made = make()
        store_value(place, made)
        # What is mapped takes less memory than what was made.
        found = load_value(place)
        return made if found is None else cast("Made", found)
    return cast("Made", found)


def load_value(place: KeptArrays) -> Any:
    """What was kept in a place; None if nothing was, or if it is damaged, and then it is gone."""
    file = place.get()
    if file is None:
        return None
    try:
        return put_together(file.block(_WHOLE))
    except DamagedArraysError:
        place.drop()
        return None


def store_value(place: KeptArrays, value: object) -> None:
    """Keeps a value in a place, unless it has arrays of objects."""
    block = take_apart(value)
    if not any(array.dtype.hasobject for array in block.arrays.values()):
        place.put({_WHOLE: block})


def take_apart(value: object) -> Block:
    """A value as arrays, and as JSON that tells how to put it together again."""
    arrays: dict[str, NDArray[Any]] = {}
    return Block(arrays, _take_apart("", value, arrays))


def put_together(block: Block) -> Any:
    """The value that :func:`take_apart` took apart."""
    return _put_together("", block.facts, block.arrays)


def _take_apart(name: str, value: object, arrays: dict[str, NDArray[Any]]) -> Json:
    match value:
        case np.ndarray():
            arrays[name] = value
            return "array"
        case NameLists():
            arrays[name] = value.codes
            return ["names", [list(names) for names in value.lists]]
        case BytesColumn() | StatisticsColumns() | OptionalIntegers() | ColumnBounds():
            parts = {
                each.name: _take_apart(f"{name}.{each.name}", getattr(value, each.name), arrays)
                for each in fields(value)
            }
            return [type(value).__name__, parts]
        case pa.LargeBinaryArray():
            return ["arrow", _take_apart(name, BytesColumn.from_arrow(value), arrays)]
        case tuple():
            return ["strings", _take_apart(name, BytesColumn.of(value), arrays)]
        case dict():
            return ["dict", {key: _take_apart(f"{name}.{key}", each, arrays) for key, each in value.items()}]
        case _:
            return ["value", cast("Json", value)]


def _put_together(name: str, form: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if form == "array":
        return arrays[name]
    kind, parts = form
    match kind:
        case "names":
            return NameLists(arrays[name], tuple(map(tuple, parts)))
        case "arrow":
            return _put_together(name, parts, arrays).to_arrow()
        case "strings":
            return tuple(_put_together(name, parts, arrays))
        case "value":
            return parts
        case _:
            found = {part: _put_together(f"{name}.{part}", each, arrays) for part, each in parts.items()}
            return found if kind == "dict" else _OF_ARRAYS[kind](**found)


_COLUMNS: Final = tuple(
    each.name for each in fields(Manifest) if each.name not in ("decoded_bytes", "derived")
)
_TOGETHER: Final = "of every plan"
_OF_EVERY_PLAN: Final = (
    "kinds",
    "partitions",
    "partition_codes",
    "buckets",
    "total_buckets",
    "file_sizes",
    "row_counts",
    "schema_ids",
    "levels",
    "delete_row_counts",
)
"""What is asked for of every file whatever the filter, and lies in one block."""
_MEMORY: Final = 6_000
"""Of the objects of a manifest that was asked for its columns, without the columns; measured."""


def store_manifest(place: KeptArrays, manifest: Manifest) -> None:
    """Puts a manifest that was decoded on the disk."""
    columns = {name: getattr(manifest, name) for name in _COLUMNS}
    together = {name: columns.pop(name) for name in _OF_EVERY_PLAN}
    blocks = {name: take_apart(column) for name, column in columns.items()}
    place.put({_TOGETHER: take_apart(together), **blocks})


def open_manifest(place: KeptArrays, read: Callable[[], Manifest]) -> Manifest | None:
    """A manifest that was kept, if it is there; ``read`` decodes the original, where a column is damaged."""
    found = place.get()
    return None if found is None else _MappedManifest.of(found, place, read)


class _MappedManifest(Manifest):
    __slots__ = ("_file", "_place", "_read")

    _file: ArrayFile
    _place: KeptArrays
    _read: Callable[[], Manifest]

    @classmethod
    def of(cls, file: ArrayFile, place: KeptArrays, read: Callable[[], Manifest]) -> Manifest:
        made = object.__new__(cls)
        own = {"_file": file, "_place": place, "_read": read, "decoded_bytes": 0, "derived": Derived()}
        for name, value in own.items():
            object.__setattr__(made, name, value)
        return made

    def __len__(self) -> int:
        return self._file.length(_TOGETHER, ".kinds")

    def __getattr__(self, name: str) -> Any:
        """A column that nobody has asked for before."""
        if name not in _COLUMNS:
            raise AttributeError(name)
        names = _OF_EVERY_PLAN if name in _OF_EVERY_PLAN else (name,)
        try:
            if name in _OF_EVERY_PLAN:
                found = put_together(self._file.block(_TOGETHER))
            else:
                found = {name: put_together(self._file.block(name))}
        except DamagedArraysError:
            self._place.drop()
            original = self._read()
            found = {each: getattr(original, each) for each in names}
        for each, column in found.items():
            object.__setattr__(self, each, column)
        return found[name]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that is not mapped."""
        return _MEMORY + self.derived.nbytes
