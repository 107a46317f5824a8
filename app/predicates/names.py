"""Finds the columns that a filter names.

The exact name goes first, then the name without regard to case, as in Spark, if that is unambiguous.
``column['key']`` in SQL and ``column[key]`` in JSON name one key of a map column; in JSON a plain column of
that very name goes before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from app.errors import FilterError
from app.types import DataField, TypeRoot
from app.types.data_types import STRING_ROOTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.predicates.unbound import Column


class Names:
    """The names of a table's columns.

    Args:
        fields: the columns.
    """

    def __init__(self, fields: Sequence[DataField]) -> None:
        self._exact = {field.name: field for field in fields}
        self._folded: dict[str, list[DataField]] = {}
        for field in fields:
            self._folded.setdefault(field.name.lower(), []).append(field)
        self._maps = [field for field in fields if field.type.root is TypeRoot.MAP]

    def column(self, column: Column) -> DataField:
        """The column itself, whatever key of it is meant.

        Raises:
            FilterError: there is no such column, or there are several that differ in case only.
        """
        key = self._key_by_name(column.name) if column.key is None else None
        return self._find(column.name) or key or self._refuse(column)

    def tested(self, column: Column) -> DataField | None:
        """What is tested: a column, or a key of a map; None for a key of what is not a map from strings.

        Raises:
            FilterError: there is no such column, or there are several that differ in case only.
        """
        return self.column(column) if column.key is None else _map_key(self.column(column), column.key)

    def has_one_form(self, tested: DataField) -> bool:
        """Whether a key of a map is stored in one form: keys of CHAR may be padded or not, as values may."""
        for field in self._maps:
            if field.id == tested.id and tested.name != field.name:
                key, key_type = tested.name[len(field.name) + 1 : -1], field.type.children[0]
                is_padded = len(key) == key_type.precision and not key.endswith(" ")
                return is_padded or key_type.root is not TypeRoot.CHAR
        return True

    def _find(self, name: str) -> DataField | None:
        if name in self._exact:
            return self._exact[name]
        folded = self._folded.get(name.lower(), [])
        return folded[0] if len(folded) == 1 else None

    def _key_by_name(self, name: str) -> DataField | None:
        """The map key that ``column[key]`` names; column and key may hold brackets, too."""
        if not name.endswith("]"):
            return None
        alike = [
            field
            for field in self._maps
            if name[len(field.name) :].startswith("[")
            and name[: len(field.name)].lower() == field.name.lower()
        ]
        exact = [field for field in alike if name.startswith(field.name)]
        return next((_map_key(field, name[len(field.name) + 1 : -1]) for field in exact or alike), None)

    def _refuse(self, column: Column) -> NoReturn:
        alike = self._folded.get(column.name.lower())
        names = " or ".join(repr(field.name) for field in alike or ())
        reason = (
            f"{column.name!r:.200} could be {names}" if alike else f"there is no column {column.name!r:.200}"
        )
        raise FilterError(reason, column=column.name, position=column.position)


def _map_key(field: DataField, key: str) -> DataField | None:
    if field.type.root is not TypeRoot.MAP or field.type.children[0].root not in STRING_ROOTS:
        return None
    value_type = field.type.children[1].with_nullable(nullable=True)
    return DataField(field.id, f"{field.name}[{key}]", value_type)
