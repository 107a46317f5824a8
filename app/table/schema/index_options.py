"""Which columns have which file indexes, as a table's options declare it.

``file-index.<type>.columns`` lists columns, separated by commas; ``column[key]`` stands for the values that
a map column has under one key. ``file-index.<type>.<column>.<option>`` sets a parameter of a column's
index. Files keep the indexes they were written with, so this says what new files have, not what a given one
has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from app.table.schema.schema import TableSchema

_PREFIX = "file-index."
_COLUMNS = ".columns"


@dataclass(frozen=True, slots=True)
class DeclaredIndex:
    """One index of one column.

    Attributes:
        column: a column's name, or ``column[key]``.
        index_type: ``bloom-filter``, ``bitmap``, ``range-bitmap``, ``bsi`` or another.
        parameters: its own options, by their last name (``fpp``, ``items``, ``version`` ...).
    """

    column: str
    index_type: str
    parameters: Mapping[str, str]


def declared_indexes(schema: TableSchema) -> tuple[DeclaredIndex, ...]:
    """Every index that the schema's options declare, by column, then type."""
    found = [
        DeclaredIndex(column, index_type, _parameters(schema, index_type, column))
        for index_type, columns in _column_lists(schema.options.values)
        for column in columns
    ]
    return tuple(sorted(found, key=lambda index: (index.column, index.index_type)))


def _column_lists(options: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Each index type with its columns."""
    for name, value in options.items():
        if name.startswith(_PREFIX) and name.endswith(_COLUMNS):
            columns = (part.strip() for part in value.split(","))
            yield name[len(_PREFIX) : -len(_COLUMNS)], [column for column in columns if column]


def _parameters(schema: TableSchema, index_type: str, column: str) -> dict[str, str]:
    # A parameter of a map column is meant for the indexes of all its keys.
    bases = [f"{_PREFIX}{index_type}.{name}." for name in (column.partition("[")[0], column)]
    return {
        option.removeprefix(base): value
        for base in bases
        for option, value in schema.options.values.items()
        if option.startswith(base)
    }
