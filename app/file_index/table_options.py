"""Which indexes the files of a table get, as its options say.

==========================================  ==============================================================
option                                      meaning
==========================================  ==============================================================
``file-index.<kind>.columns``               columns, separated by commas
``file-index.<kind>.<column>.<option>``     an option of :mod:`app.file_index.index_options` for one index
``file-index.in-manifest-threshold``        a container of at most so many bytes (500 b unless it is set)
                                            goes into the manifest instead of a file
==========================================  ==============================================================

``column[key]`` stands for the values that a map column has under one key. An option of the map column holds
for all its keys that have none of their own.

The engine cuts an option's name at every dot and silently ignores what does not fall into three parts, so a
column or key with a dot has no options. Here such an option is an error, as is every other one that would
have no effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.errors import RequestError
from app.file_index.index_kinds import IndexKind, takes
from app.file_index.index_options import PARAMETERS, parse_options
from app.options.map_keys import split_map_key
from app.types import TypeRoot
from app.types.data_types import STRING_ROOTS
from app.types.memory_size import memory_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from app.file_index.index_options import IndexOptions
    from app.types import DataType

DEFAULT_THRESHOLD_BYTES: Final = 500

_PREFIX = "file-index."
_COLUMNS = ".columns"
_THRESHOLD = "file-index.in-manifest-threshold"
_NAME_PARTS = 3


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """An index to write.

    Attributes:
        column: a column's name, or ``column[key]``; what the container calls it.
        kind: the kind of index.
        data_type: of the indexed values: the column's, or that of the map's values.
        options: of the kind.
    """

    column: str
    kind: IndexKind
    data_type: DataType
    options: IndexOptions


@dataclass(frozen=True, slots=True)
class FileIndexOptions:
    """What a table's options say about file indexes.

    Attributes:
        indexes: in the order in which the options list them.
        in_manifest_threshold_bytes: largest container that goes into the manifest.
    """

    indexes: tuple[IndexDefinition, ...]
    in_manifest_threshold_bytes: int = DEFAULT_THRESHOLD_BYTES

    @classmethod
    def parse(cls, options: Mapping[str, str], types: Mapping[str, DataType]) -> FileIndexOptions:
        """Reads the options of a table.

        Args:
            options: all options by name; those that are not about file indexes are passed over.
            types: of the table's columns, by name.

        Raises:
            RequestError: an option is wrong, or would have no effect; the message names it.
        """
        listed = tuple(_listed_columns(options))
        _refuse_without_effect(options, set(listed))
        indexes = tuple(
            IndexDefinition(
                column, kind, _taken_type(kind, column, types), _parameters(kind, column, options)
            )
            for kind, column in listed
        )
        threshold = options.get(_THRESHOLD, f"{DEFAULT_THRESHOLD_BYTES} b")
        return cls(indexes, memory_size(_THRESHOLD, threshold))


def indexed_type(name: str, types: Mapping[str, DataType]) -> DataType:
    """The type of a column's values, or of the values of ``column[key]``.

    Args:
        name: as options and containers write it.
        types: of the columns, by name.

    Raises:
        RequestError: there is no such column, or it is no map with strings as keys.
    """
    column, key = split_map_key(name)
    data_type = types.get(column)
    if data_type is None:
        raise RequestError(f"there is no column {column!r}")
    if key is None:
        return data_type
    if data_type.root is not TypeRoot.MAP or data_type.children[0].root not in STRING_ROOTS:
        raise RequestError(f"column {column!r} of type {data_type} is no map with strings as keys")
    return data_type.children[1]


def _listed_columns(options: Mapping[str, str]) -> Iterator[tuple[IndexKind, str]]:
    """Each kind with each of its columns."""
    for name, value in options.items():
        if not (name.startswith(_PREFIX) and name.endswith(_COLUMNS)):
            continue
        kind = _kind(name, name[len(_PREFIX) : -len(_COLUMNS)])
        # Java's split drops empty parts at the end.
        columns = [column.strip() for column in value.rstrip(",").split(",")]
        for at, column in enumerate(columns):
            if not column:
                raise RequestError(f"{name} must be names separated by commas, found {value!r:.100}")
            if column in columns[:at]:
                raise RequestError(f"{name} lists column {column!r} twice")
            yield kind, column


def _kind(option: str, written: str) -> IndexKind:
    try:
        return IndexKind(written)
    except ValueError as error:
        known = ", ".join(IndexKind)
        raise RequestError(f"{option}: there is no index type {written!r:.100}, only {known}") from error


def _refuse_without_effect(options: Mapping[str, str], listed: set[tuple[IndexKind, str]]) -> None:
    kinds = set(IndexKind)
    indexed = {(kind, split_map_key(column)[0]) for kind, column in listed} | listed
    for name in options:
        if not name.startswith(_PREFIX) or name.endswith(_COLUMNS):
            continue
        written, *rest = name.removeprefix(_PREFIX).split(".")
        if written not in kinds and len(rest) + 1 < _NAME_PARTS:
            continue
        kind = _kind(name, written)
        if len(rest) + 1 != _NAME_PARTS:
            raise RequestError(
                f"{name} has no effect: the engine takes {_PREFIX}{kind}.<column>.<option> only, so that a "
                "column or key with a dot has no options"
            )
        column, parameter = rest
        if (kind, column) not in indexed:
            raise RequestError(f"{name} has no effect: {_PREFIX}{kind}.columns does not list {column!r}")
        if parameter not in PARAMETERS[kind]:
            known = ", ".join(PARAMETERS[kind]) or "none"
            raise RequestError(f"{name} has no effect: the options of {kind} are: {known}")


def _taken_type(kind: IndexKind, name: str, types: Mapping[str, DataType]) -> DataType:
    """The type of what is to be indexed, which this kind must take."""
    try:
        data_type = indexed_type(name, types)
    except RequestError as error:
        raise RequestError(f"{_PREFIX}{kind}.columns names {name!r}: {error}") from error
    if not takes(kind, data_type):
        raise RequestError(f"{kind} does not take column {name!r} of type {data_type}: {_advice(data_type)}")
    return data_type


def _advice(data_type: DataType) -> str:
    """What to index a type with instead."""
    if data_type.root is TypeRoot.MAP:
        return "name one of its keys, as column[key]"
    suited = [kind.value for kind in IndexKind if takes(kind, data_type)]
    return f"use {' or '.join(suited)}" if suited else "no index does"


def _parameters(kind: IndexKind, column: str, options: Mapping[str, str]) -> IndexOptions:
    written = {
        parameter: options[name]
        for holder in (split_map_key(column)[0], column)
        for parameter in PARAMETERS[kind]
        if (name := f"{_PREFIX}{kind}.{holder}.{parameter}") in options
    }
    try:
        return parse_options(kind, written)
    except RequestError as error:
        raise RequestError(f"{kind} of column {column!r}: {error}") from error
