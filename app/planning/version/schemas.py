"""The schemas of a table: what each says of columns, keys and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, overload

from app.errors import NotFoundError, SnapshotExpiredError
from app.planning.version.version import Version
from app.storage import Readers
from app.table.schema.schema import TableSchema
from app.types import Json, type_json

_READ_AT_ONCE: Final = 64


def describe_schema(schema: TableSchema) -> Mapping[str, Json]:
    """A schema with the full types of its columns."""
    return {
        "id": schema.id,
        "fields": [
            {
                "id": column.id,
                "name": column.name,
                "type": type_json(column.type),
                "nullable": column.type.nullable,
                "description": column.description,
            }
            for column in schema.fields
        ],
        "partition_keys": list(schema.partition_keys),
        "primary_keys": list(schema.primary_keys),
        "options": dict(schema.options.values),
        "comment": schema.comment,
        "time_millis": schema.time_millis,
    }


@dataclass(frozen=True, slots=True, eq=False)
class DescribedSchemas(Sequence["Mapping[str, Json]"]):
    """Schemas up to that of a version, read some at a time when somebody asks for one of them.

    Attributes:
        version: tells the table and the last schema.
        readers: read side by side.
        ids: ascending.
    """

    version: Version
    readers: Readers
    ids: Sequence[int]
    _read: dict[int, TableSchema] = field(default_factory=dict)

    @classmethod
    def of(cls, version: Version, readers: Readers) -> DescribedSchemas:
        """The schemas that a version's branch has up to the version's."""
        ids = version.table.schema_ids(version.resolved.branch)
        return cls(version, readers, [each for each in ids if each <= version.schema_id])

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, Json]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Mapping[str, Json]]: ...
    def __getitem__(self, at: int | slice) -> Mapping[str, Json] | Sequence[Mapping[str, Json]]:
        """A schema, or several.

        Raises:
            SnapshotExpiredError: it was removed since it was listed.
            CorruptMetadataError: it is damaged.
        """
        if isinstance(at, slice):
            return [self[position] for position in range(*at.indices(len(self)))]
        schema_id = self.ids[at]
        if schema_id not in self._read:
            some = self.ids[at : at + _READ_AT_ONCE]
            self._read.clear()
            self._read.update(zip(some, self.readers.map(self._load, some), strict=True))
        return describe_schema(self._read[schema_id])

    def _load(self, schema_id: int) -> TableSchema:
        try:
            return self.version.table.schema_of(schema_id, self.version.resolved.branch)
        except NotFoundError as error:
            raise SnapshotExpiredError(f"schema {schema_id} went away while schemas were listed") from error
