"""A partition as a caller names it: typed JSON by partition column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from app.errors import FilterError
from app.planning.request.requests import WITHOUT_TIME_ZONE
from app.table.schema.schema import TableSchema
from app.types import DataField, Json, TypeRoot, Value, parse_json
from app.types.json_values import parse_instants
from app.types.session_zone import Instants, SessionZone
from app.types.values import same_in_sql


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """The values that a caller gave for each partition column.

    Attributes:
        fields: the partition columns of the table.
        values: their values; :class:`Instants` where a wall clock was given that may be several of them.
    """

    fields: tuple[DataField, ...]
    values: tuple[Value | Instants | None, ...]

    @classmethod
    def read(cls, schema: TableSchema, written: Mapping[str, Json] | None, zone: SessionZone | None) -> Self:
        """The partition that a caller named, of a table with this schema.

        Raises:
            FilterError: columns are missing, or too many, or a value does not fit.
        """
        fields = schema.partition_fields
        given = dict(written or {})
        if set(given) != {field.name for field in fields}:
            names = ", ".join(field.name for field in fields) or "no columns"
            raise FilterError(f"the partition of this table has {names}; found {', '.join(given) or 'none'}")
        return cls(tuple(fields), tuple(_read(given[field.name], field, zone) for field in fields))

    @property
    def exact(self) -> tuple[Value | None, ...]:
        """The values, where all of them are known.

        Raises:
            FilterError: the time zone of one is not.
        """
        found: list[Value | None] = []
        for field, value in zip(self.fields, self.values, strict=True):
            if isinstance(value, Instants):
                raise FilterError(
                    f"{field.name} is an instant, and its value may be several of them: write it with an "
                    f"offset, such as 2025-08-01T12:30:00Z, or give time_zone, with the release of its rules",
                    column=field.name,
                )
            found.append(value)
        return tuple(found)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warning that a time zone would narrow the answer, if it would."""
        return (WITHOUT_TIME_ZONE,) if any(isinstance(value, Instants) for value in self.values) else ()

    def could_be(self, row: tuple[Value | None, ...]) -> bool:
        """Whether a table's partition holds these values, in SQL's sense; nulls are alike."""
        return all(
            _could_be(mine, named, field)
            for mine, named, field in zip(row, self.values, self.fields, strict=True)
        )


def _read(written: Json, field: DataField, zone: SessionZone | None) -> Value | Instants | None:
    try:
        if field.type.root is not TypeRoot.TIMESTAMP_LTZ or written is None:
            return parse_json(written, field.type)
        instants = parse_instants(written, field.type, zone)
    except FilterError as error:
        raise FilterError(str(error), column=field.name) from error
    return instants.low if instants.low == instants.high else instants


def _could_be(mine: Value | None, named: Value | Instants | None, field: DataField) -> bool:
    if mine is None or named is None:
        return mine is named
    if isinstance(named, Instants):
        return named.low <= int(mine) <= named.high
    return same_in_sql(field.type, mine, named)
