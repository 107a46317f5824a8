"""Names of columns, for data files without field ids: Iceberg's ``schema.name-mapping.default``.

The engine writes field ids into Parquet files from release 1.0 on, pypaimon does not. Clients look up the
columns of such files by this mapping, and PyIceberg fails where one of them is missing. A name belongs to the
column that had it last; a file in whose schema it was another column's needs ids of its own
(:mod:`app.iceberg.field_ids`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from app.iceberg.schema import inner_fields
from app.table.schema.schema import TableSchema
from app.types import DataField, Json


@dataclass(slots=True)
class NameMapping:
    """The fields of a table, of a struct, or the parts of a list or map, by id; names are newest first."""

    ids: dict[str, int] = field(default_factory=dict)
    names: dict[int, list[str]] = field(default_factory=dict)
    inner: dict[int, NameMapping] = field(default_factory=dict)

    @classmethod
    def of(cls, schemas: Iterable[TableSchema]) -> Self:
        """The mapping of a table with these schemas, the newest first."""
        mapping = cls()
        for schema in schemas:
            mapping.add((*schema.system_columns, *schema.fields))
        return mapping

    def add(self, fields: Iterable[DataField]) -> None:
        """Adds fields of an older schema, whose names may be those of others by now."""
        for each in fields:
            names = self.names.setdefault(each.id, [])
            if self.ids.setdefault(each.name, each.id) == each.id and each.name not in names:
                names.append(each.name)
            self.inner.setdefault(each.id, NameMapping()).add(inner_fields(each))

    def fits(self, fields: Iterable[DataField]) -> bool:
        """Whether the names of fields are those that they have in the mapping."""
        return all(
            self.ids.get(each.name) == each.id and self.inner[each.id].fits(inner_fields(each))
            for each in fields
        )

    def json(self) -> list[Json]:
        """The mapping as Iceberg writes it."""
        return [
            {"field-id": number, "names": names, **({"fields": inner} if inner else {})}
            for number, names in self.names.items()
            for inner in [self.inner[number].json()]
        ]
