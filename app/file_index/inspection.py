"""Descriptions of the indexes of a container, as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from app.errors import CorruptIndexError
from app.file_index.container import VERSION, ContainerEntry, blame
from app.file_index.index_kinds import KINDS
from app.file_index.stacked_index import FileIndex
from app.options import split_map_key
from app.types import DataType, Json, TypeRoot
from app.work import check_deadline


def inspect(index: FileIndex, types: Mapping[str, DataType]) -> dict[str, Json]:
    """Describe every index of a container. A damaged one has an ``error``.

    ``types``: known types of columns by name. The type of a map column serves the indexes on its keys. An
    index on a column that ``types`` lacks is described as far as its payload alone allows.
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
    if column in types:
        return types[column]
    name, key = split_map_key(column)
    holder = None if key is None else types.get(name)
    return holder.children[1] if holder is not None and holder.root is TypeRoot.MAP else None


def _describe(index: FileIndex, entry: ContainerEntry, data_type: DataType | None) -> dict[str, Json]:
    # A head can list one large payload very many times.
    check_deadline()
    described: dict[str, Json] = {"type": entry.kind, "offset": entry.start, "length": entry.length}
    if entry.is_empty:
        return described | {"empty": True}
    try:
        with blame(entry):
            return described | _content(index, entry, data_type)
    except CorruptIndexError as error:
        return described | {"error": {"detail": error.expectation, "offset": error.offset}}


def _content(index: FileIndex, entry: ContainerEntry, data_type: DataType | None) -> dict[str, Json]:
    kind = KINDS.get(entry.kind)
    if kind is None:
        return {"error": {"detail": f"{entry.kind!r} is not a known kind of index", "offset": None}}
    if data_type is None:
        return kind.describe_untyped(index.payload(entry))
    return kind.describe(index.open(entry, kind, data_type), data_type)
