"""File indexes that the options of a table declare. See :mod:`app.options.file_indexes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import RequestError
from app.file_index.index_kinds import KINDS, IndexKind
from app.options import IndexDeclaration, split_map_key
from app.options.file_indexes import DEFAULT_THRESHOLD_BYTES, PREFIX, given_indexes, in_manifest_threshold
from app.suggestions import hint
from app.types import STRING_ROOTS, DataType, TypeRoot


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """An index to write.

    ``column``: name in the container, a column or ``column[key]``. ``data_type``: type of the indexed
    values, which for ``column[key]`` is that of the map's values.
    """

    column: str
    kind: IndexKind
    data_type: DataType
    options: object

    @classmethod
    def of(cls, declared: IndexDeclaration, types: Mapping[str, DataType]) -> IndexDefinition:
        """Check an index that a table declares. Raises RequestError if its column or an option is invalid."""
        kind, column = KINDS[declared.kind], declared.column
        data_type = _taken_type(kind, column, types)
        try:
            return cls(column, kind, data_type, kind.parse_options(declared.parameters))
        except RequestError as error:
            raise RequestError(f"{kind} of column {column!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class FileIndexOptions:
    """Options of a table that concern file indexes, in the order in which the table lists them."""

    indexes: tuple[IndexDefinition, ...]
    in_manifest_threshold_bytes: int = DEFAULT_THRESHOLD_BYTES

    @classmethod
    def parse(cls, options: Mapping[str, str], types: Mapping[str, DataType]) -> FileIndexOptions:
        """Read a table's options. Raises RequestError if one of them is invalid or without effect."""
        declared = given_indexes(options, {kind: KINDS[kind].option_names for kind in KINDS})
        return cls(
            tuple(IndexDefinition.of(index, types) for index in declared), in_manifest_threshold(options)
        )


def indexed_type(name: str, types: Mapping[str, DataType]) -> DataType:
    """Return the type of the values of a column or of ``column[key]``.

    Raises RequestError if there is no such column or map.
    """
    column, key = split_map_key(name)
    data_type = types.get(column)
    if data_type is None:
        raise RequestError(f"there is no column {column!r}{hint(column, types, plural='columns')}")
    if key is None:
        return data_type
    if data_type.root is not TypeRoot.MAP or data_type.children[0].root not in STRING_ROOTS:
        raise RequestError(f"column {column!r} of type {data_type} is not a map with strings as keys")
    return data_type.children[1]


def _taken_type(kind: IndexKind, name: str, types: Mapping[str, DataType]) -> DataType:
    try:
        data_type = indexed_type(name, types)
    except RequestError as error:
        raise RequestError(f"{PREFIX}{kind}.columns names {name!r}: {error}") from error
    if not kind.takes(data_type):
        raise RequestError(f"{kind} does not take column {name!r} of type {data_type}: {_advice(data_type)}")
    return data_type


def _advice(data_type: DataType) -> str:
    if data_type.root is TypeRoot.MAP:
        return "name one of its keys, as column[key]"
    suited = [kind for kind in KINDS.values() if kind.takes(data_type)]
    return f"use {' or '.join(suited)}" if suited else "no index does"
