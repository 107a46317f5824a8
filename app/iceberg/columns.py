"""The columns that names of a request mean, in every schema that its client may read by.

A request names columns, and does not say of which schema. Whoever reads a snapshot by its number takes the
snapshot's schema, or the one that the table had when he loaded it: PyIceberg 0.12 takes either, for one scan.
A name means a column only where it is the same column, of the same type, in every schema that has the name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.errors import FilterError
from app.iceberg.schema import names_by_id, same_type
from app.suggestions import hint
from app.table.schema.schema import TableSchema
from app.types import DataField
from app.types.data_types import NESTED_ROOTS
from app.work import check_deadline

_METADATA_COLUMNS: Final = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one schema by full name, folded unless case matters, and id; None: lies within one."""

    by_name: Mapping[str, DataField | None]
    by_id: Mapping[int, DataField | None]
    alike: frozenset[str]
    case_sensitive: bool

    @classmethod
    def of(cls, schema: TableSchema, *, case_sensitive: bool) -> Columns:
        """Those of a schema."""
        fold: Callable[[str], str] = str if case_sensitive else str.lower
        within = dict(names_by_id(schema.fields))
        names: dict[str, DataField | None] = {fold(name): None for name in within.values()}
        # A column goes before what is within another one and has the same name.
        names |= {fold(field.name): field for field in schema.fields}
        counts = Counter(fold(field.name) for field in schema.fields)
        alike = frozenset(name for name, count in counts.items() if count > 1)
        return cls(names, {**dict.fromkeys(within), **schema.by_id}, alike, case_sensitive)

    def fold(self, name: str) -> str:
        """A name in the form in which names are compared."""
        return name if self.case_sensitive else name.lower()

    def named(self, name: str) -> DataField | None:
        """The column of a name; None for what lies within one, and for what is no column of the table.

        Raises FilterError: there is none, or more than one.
        """
        folded = self.fold(name)
        if folded in self.alike:
            raise FilterError(f"several columns are called {name!r:.200}: name one with case", column=name)
        if folded in self.by_name:
            return self.by_name[folded]
        if name in _METADATA_COLUMNS or self._is_within(folded):
            return None
        meant = hint(name, self.by_name, what="columns")
        raise FilterError(f"there is no column {name!r:.200}{meant}", column=name)

    def of_id(self, number: int) -> DataField | None:
        """The column of an id; None for what lies within one. FilterError: there is none."""
        if number not in self.by_id:
            raise FilterError(f"there is no field with the id {number}")
        return self.by_id[number]

    def _is_within(self, name: str) -> bool:
        """Whether a name leads into a nested column; Java leaves out ``element`` and ``value``."""
        whole = [field for field in self.by_name.values() if field is not None]
        return any(
            field.type.root in NESTED_ROOTS and name.startswith(f"{self.fold(field.name)}.")
            for field in whole
        )


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """The columns of all schemas that a client may read by; ``planned`` is the first of ``every``."""

    planned: TableSchema
    every: Sequence[Columns]

    @classmethod
    def of(cls, schemas: Sequence[TableSchema], *, case_sensitive: bool) -> ReadColumns:
        """Those of some schemas; the first is the one that is planned in."""
        planned, *others = schemas
        every = [Columns.of(planned, case_sensitive=case_sensitive)]
        for schema in others:
            check_deadline()
            # Most schemas differ in options alone.
            if schema.fields != planned.fields:
                every.append(Columns.of(schema, case_sensitive=case_sensitive))
        return cls(planned, every)

    def named(self, name: str) -> DataField | None:
        """The column of a name; None where that is not one column to all, or what only lies within one.

        Raises FilterError: no schema has it.
        """
        return self._one_of(lambda columns: columns.named(name))

    def of_id(self, number: int) -> DataField | None:
        """The column of an id; None where that is not one column to all. FilterError: no schema has it."""
        return self._one_of(lambda columns: columns.of_id(number))

    def listed(self, names: Sequence[str]) -> list[DataField]:
        """The planned columns that some names mean to anybody; what lies within one, or is none, is left out.

        The loops are over columns: names may be many, come twice, or be of nothing.
        """
        wanted = set(map(self.every[0].fold, names))
        ids = {
            field.id
            for columns in self.every
            for name, field in columns.by_name.items()
            if field is not None and name in wanted
        }
        return [field for field in self.planned.fields if field.id in ids and self.of_id(field.id)]

    def _one_of(self, look_up: Callable[[Columns], DataField | None]) -> DataField | None:
        candidates: list[DataField | None] = []
        refusals: list[FilterError] = []
        for columns in self.every:
            try:
                candidates.append(look_up(columns))
            except FilterError as error:
                # Nobody who reads by this schema can have asked.
                refusals.append(error)
        if not candidates:
            raise refusals[0]
        first = candidates[0]
        present = None if first is None else self.planned.by_id.get(first.id)
        if present is None or not all(
            field is not None and field.id == present.id and same_type(field, present) for field in candidates
        ):
            return None
        return present
