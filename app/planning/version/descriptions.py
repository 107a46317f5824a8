"""What there is to know of a table besides its files, as JSON objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, overload

from app.errors import NotFoundError, SnapshotExpiredError
from app.planning.version.version import Version
from app.storage import Readers
from app.table.schema.schema import TableSchema
from app.table.snapshot import Snapshot
from app.types import Json, type_json


def describe_table(version: Version, latest: Snapshot | None) -> Mapping[str, Json]:
    """The schema of a version and what follows from it.

    Args:
        version: what is described.
        latest: the newest snapshot of its branch.
    """
    schema, snapshot = version.schema, version.resolved.snapshot
    return {
        "database": version.table.database,
        "table": version.table.name,
        "schema_id": schema.id,
        "fields": [
            {
                "id": field.id,
                "name": field.name,
                "type": str(field.type),
                "nullable": field.type.nullable,
                "description": field.description,
            }
            for field in schema.fields
        ],
        "partition_keys": list(schema.partition_keys),
        "primary_keys": list(schema.primary_keys),
        "options": dict(schema.options.values),
        "comment": schema.comment,
        "snapshot": None if snapshot is None else describe_snapshot(snapshot),
        "latest_snapshot": None if latest is None else describe_snapshot(latest),
        "merge_engine": None if schema.merge_engine is None else schema.merge_engine.value,
        "bucket_mode": schema.bucket_mode.value.lower(),
        "deletion_vectors": schema.options.deletion_vectors,
        "indexes": _indexes(schema),
    }


def describe_snapshot(snapshot: Snapshot) -> Mapping[str, Json]:
    """A snapshot without the names of its manifests."""
    return {
        "id": snapshot.id,
        "schema_id": snapshot.schema_id,
        "commit_kind": snapshot.commit_kind,
        "commit_user": snapshot.commit_user,
        "commit_identifier": snapshot.commit_identifier,
        "time_millis": snapshot.time_millis,
        "total_record_count": snapshot.total_record_count,
    }


def describe_index_files(version: Version, index_type: str | None) -> list[Json]:
    """The live entries of the index manifest, of one type or of all."""
    entries = version.table.metadata.index_entries(version.resolved)
    return [
        {
            "kind": entry.kind.name,
            "partition": version.partitions.json(entry.partition),
            "bucket": entry.bucket,
            "index_type": entry.file.index_type,
            "file_name": entry.file.file_name,
            "path": version.source.paths.index_file(entry),
            "file_size": entry.file.file_size,
            "row_count": entry.file.row_count,
            "ranges": [
                {
                    "data_file": place.data_file,
                    "offset": place.offset,
                    "length": place.length,
                    "cardinality": place.cardinality,
                }
                for place in entry.file.ranges
            ]
            or None,
        }
        for entry in entries
        if index_type is None or entry.file.index_type == index_type
    ]


def _indexes(schema: TableSchema) -> list[Json]:
    return [
        {"column": each.column, "type": each.kind, "options": dict(each.parameters)}
        for each in schema.options.file_indexes
    ]


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
