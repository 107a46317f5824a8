"""Objects of arrays, taken apart to be kept in a file of arrays, and put together again.

What is taken apart: arrays, byte strings, columns of records, bounds of columns, and JSON. What tells how to
put it together again is JSON too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.predicates.column_bounds import ColumnBounds
from app.storage.array_file import Block, DamagedArraysError
from app.storage.kept_arrays import KeptArrays
from app.table.manifests.row_statistics import StatisticsColumns
from app.table.records.columns import NameLists, OptionalIntegers
from app.types import Json
from app.types.bytes_column import BytesColumn

Made = TypeVar("Made")

_WHOLE: Final = "whole"
_OF_ARRAYS: Final = {
    each.__name__: each for each in (BytesColumn, StatisticsColumns, OptionalIntegers, ColumnBounds)
}


def made_once(place: KeptArrays | None, make: Callable[[], Made]) -> Made:
    """What was kept in a place, or else what ``make`` makes, which is kept there then.

    Args:
        place: where; None if nothing is kept.
        make: makes it anew, always the same.
    """
    if place is None:
        return make()
    found = kept_value(place)
    if found is not None:
        return cast("Made", found)
    made = make()
    keep_value(place, made)
    return made


def kept_value(place: KeptArrays) -> Any:  # noqa: ANN401 - any value
    """What was kept in a place; None if nothing was, or if it is damaged, and then it is gone."""
    file = place.get()
    if file is None:
        return None
    try:
        return put_together(file.block(_WHOLE))
    except DamagedArraysError:
        place.drop()
        return None


def keep_value(place: KeptArrays, value: object) -> None:
    """Keeps a value in a place, unless it has arrays of objects."""
    block = take_apart(value)
    if not any(array.dtype.hasobject for array in block.arrays.values()):
        place.put({_WHOLE: block})


def take_apart(value: object) -> Block:
    """A value as arrays, and as JSON that tells how to put it together again."""
    arrays: dict[str, NDArray[Any]] = {}
    return Block(arrays, _take_apart("", value, arrays))


def put_together(block: Block) -> Any:  # noqa: ANN401 - any value
    """The value that :func:`take_apart` took apart."""
    return _put_together("", block.facts, block.arrays)


def _take_apart(name: str, value: object, arrays: dict[str, NDArray[Any]]) -> Json:
    """Adds the arrays of a value, whose names begin with ``name``, and tells how to put it together."""
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


def _put_together(name: str, form: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:  # noqa: ANN401 - as above
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
