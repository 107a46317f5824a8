"""Resolves the columns that a filter names.

Names are compared without regard to case, as Spark does by default. If ambiguous, the exact name counts.
``a.b`` is column ``b`` of the table called ``a`` (``db.a.b`` names its database, too), else field ``b`` of
the struct ``a``, or key ``b`` of the map ``a``. ``column['key']`` in text and ``column[key]`` in JSON name a
key of a map column. In JSON a column with exactly that name takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from app.errors import FilterError
from app.options.file_indexes import map_key_name
from app.predicates.text import read_names
from app.predicates.unbound import ColumnName
from app.suggestions import hint
from app.types import NESTED_ROOTS, STRING_ROOTS, DataField, TypeRoot, parse_type

# Row ids of a table that tracks rows, with the engine's field id.
ROW_ID: Final = DataField(0x7FFFFFFA, "_ROW_ID", parse_type("BIGINT"))

# Columns that Spark's connector adds to every table, in lower case, since Spark ignores the case of names.
# Their values are unknown, except for `_ROW_ID`: rows of a file are numbered from its first row id.
HIDDEN_COLUMNS: Final = frozenset(
    {
        "_row_id",
        "_sequence_number",
        "__paimon_bucket",
        "__paimon_file_path",
        "__paimon_partition",
        "__paimon_row_index",
        "__paimon_search_score",
    }
)

_PREFIX: Final = "fields."
_SUFFIX: Final = ".default-value"


def shown_defaults(options: Iterable[str]) -> frozenset[str]:
    """List, in lower case, columns whose NULLs some readers show as another value."""
    # Engine releases up to 1.2 show NULL as `fields.<column>.default-value` when they read, while statistics,
    # indexes and buckets describe stored values. The engine respects case, and removes prefix and suffix
    # wherever they occur; a column too many here only keeps files.
    names = (option.lower() for option in options)
    defaults = [name for name in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
    return frozenset(
        column
        for name in defaults
        for column in (name[len(_PREFIX) : -len(_SUFFIX)], name.replace(_PREFIX, "").replace(_SUFFIX, ""))
    )


@dataclass(frozen=True, slots=True)
class Relation:
    """Name of the filtered table, which may precede its columns, and its hidden columns.

    ``shown_defaults`` are the lower-case names of :func:`shown_defaults`.
    """

    name: str | None = None
    database: str | None = None
    tracks_rows: bool = False
    shown_defaults: frozenset[str] = frozenset()

    @property
    def qualifiers(self) -> list[str]:
        """Prefixes allowed before a column's name."""
        if self.name is None:
            return []
        return [self.name] if self.database is None else [self.name, f"{self.database}.{self.name}"]

    def length(self, parts: Sequence[str]) -> int:
        """Return how many leading names are qualifiers."""
        lowered = [part.lower() for part in parts[:-1]]
        whole = [qualifier.lower().split(".") for qualifier in reversed(self.qualifiers)]
        return next((len(names) for names in whole if lowered[: len(names)] == names), 0)


# Relation of columns that belong to no table.
NAMELESS: Final = Relation()


class Names:
    """Resolves names of a table's columns."""

    def __init__(self, fields: Sequence[DataField], relation: Relation = NAMELESS) -> None:
        self._relation = relation
        self._exact = {field.name: field for field in fields}
        self._folded: dict[str, list[DataField]] = {}
        for field in fields:
            self._folded.setdefault(field.name.lower(), []).append(field)
        self._maps = [field for field in fields if field.type.root is TypeRoot.MAP]

    def column(self, column: ColumnName) -> DataField:
        """Resolve a whole column, or a key of a map.

        Raises FilterError if no column or several have the name, or it leads into a column.
        """
        readings = self._readings(column)
        if len(readings) != 1 or readings[0][1]:
            self._refuse(column)
        return readings[0][0]

    def sort_column(self, text: str) -> DataField:
        """Resolve a column of ORDER BY: by its exact name, or as text writes it (``events.`event id```).

        Raises FilterError if no column or several have the name, or it leads into a column.
        """
        whole = ColumnName((text,), position=0)
        parts = () if self._readings(whole) else read_names(text)
        return self.column(ColumnName(parts, position=0) if parts else whole)

    def tested(self, column: ColumnName) -> DataField | None:
        """Resolve the column, or map key, that is tested. Return None if its values are unknown.

        Fields of structs, keys of maps that are not strings, and what :meth:`doubt` reports are unknown.
        Raises FilterError if there is no such column, or several differ in case only.
        """
        readings = self._known_readings(column)
        if not readings:
            return ROW_ID if self._is_row_id(column) else None
        field, nested = readings[0]
        if self.doubt_of(field) is not None:
            return None
        keys = nested if column.key is None else (*nested, column.key)
        match keys:
            case ():
                return field
            case (key,):
                return _map_key(field, key)
            case _:
                return None

    def doubt(self, column: ColumnName) -> str | None:
        """Explain why values of a tested column decide nothing. Return None if they may."""
        readings = self._readings(column)
        shown = next((why for field, _ in readings if (why := self.doubt_of(field)) is not None), None)
        if shown is not None:
            return shown
        if not readings:
            if self._is_row_id(column):
                return None
            return f"{self._hidden(column)} is a hidden column of Spark, whose values are not indexed"
        field, nested = readings[0]
        keys = nested if column.key is None else (*nested, column.key)
        if not keys or (len(keys) == 1 and _map_key(field, keys[0]) is not None):
            return None
        return f"it is a part of {field.name}, and indexes hold at most the text keys of maps"

    def doubt_of(self, field: DataField) -> str | None:
        """Explain why values of a column decide nothing. Return None if they may."""
        # A map key belongs to the column before the bracket.
        name = field.name.lower()
        shows = any(
            name == column or name.startswith(f"{column}[") for column in self._relation.shown_defaults
        )
        if not shows:
            return None
        name = field.name
        return (
            f"engine releases up to 1.2 show NULL in column {name} as its fields.{name}.default-value; where "
            f"none of them reads the table, unset that option, which later releases ignore"
        )

    def _hidden(self, column: ColumnName) -> str | None:
        name = column.parts[self._relation.length(column.parts)]
        return name if name.lower() in HIDDEN_COLUMNS else None

    def _is_row_id(self, column: ColumnName) -> bool:
        is_whole = column.key is None and column.parts[-1] == self._hidden(column)
        return self._relation.tracks_rows and is_whole and column.parts[-1].upper() == ROW_ID.name

    def _known_readings(self, column: ColumnName) -> list[tuple[DataField, tuple[str, ...]]]:
        readings = self._readings(column)
        if not readings and self._hidden(column) is None:
            self._refuse(column)
        for field, nested in readings:
            if nested and field.type.root not in NESTED_ROOTS:
                raise FilterError(
                    f"{field.name} is {field.type} and has no field {nested[0]!r:.200}; "
                    f"{self._valid_qualifiers()}",
                    column=column.name,
                    position=column.position,
                )
        return readings

    def _readings(self, column: ColumnName) -> list[tuple[DataField, tuple[str, ...]]]:
        """List the column that is meant, with the names that lead into it. List nothing if there is none."""
        parts = column.parts
        for length in {self._relation.length(parts): None, 0: None}:
            field = self._find(parts[length])
            if field is not None:
                return [(field, parts[length + 1 :])]
        if column.key is None and len(parts) == 1:
            key = self._key_by_name(parts[0])
            return [] if key is None else [(key, ())]
        return []

    def has_one_form(self, tested: DataField) -> bool:
        """Return True if a map key has a single stored form. CHAR keys may be padded or not."""
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
        if not name.endswith("]"):
            return None
        # Both the column and the key may contain brackets.
        alike = [
            field
            for field in self._maps
            if name[len(field.name) :].startswith("[")
            and name[: len(field.name)].lower() == field.name.lower()
        ]
        exact = [field for field in alike if name.startswith(field.name)]
        return next((_map_key(field, name[len(field.name) + 1 : -1]) for field in exact or alike), None)

    def _refuse(self, column: ColumnName) -> NoReturn:
        length = self._relation.length(column.parts)
        alike = self._folded.get(column.parts[length].lower(), [])
        names, named = " or ".join(repr(field.name) for field in alike), column.name
        if len(alike) > 1:
            reason = f"{column.name!r:.200} could be {names}"
        elif alike:
            reason = f"{column.name!r:.200} is not a column, but a part of {names}"
        elif len(column.parts) > 1 and not length:
            named = column.parts[0]
            reason = f"there is neither a column nor a table {named!r:.200} here; {self._valid_qualifiers()}"
        else:
            reason = f"there is no column {column.name!r:.200}"
            reason += hint(column.parts[length], self._exact, plural="columns")
        raise FilterError(reason, column=named, position=column.position)

    def _valid_qualifiers(self) -> str:
        qualifiers = " or ".join(self._relation.qualifiers)
        return (
            f"a column may be qualified by {qualifiers}"
            if qualifiers
            else "no table name precedes columns here"
        )


def _map_key(field: DataField, key: str) -> DataField | None:
    if field.type.root is not TypeRoot.MAP or field.type.children[0].root not in STRING_ROOTS:
        return None
    value_type = replace(field.type.children[1], nullable=True)
    return DataField(field.id, map_key_name(field.name, key), value_type)
