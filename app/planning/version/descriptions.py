"""Descriptions of a table besides its files: frozen values, serialized to JSON without conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Annotated, Any, Final, Self, TypeAlias, overload

from pydantic import Field

from app.described import DESCRIBED
from app.errors import CorruptMetadataError, NotFoundError, SnapshotExpiredError
from app.planning.version.version import Version
from app.storage import Readers
from app.table import TableSchema, TableSnapshot
from app.types import type_json
from app.types.index_files import GlobalIndex, IndexFileMeta

_READ_AT_ONCE: Final = 64

Refusal: TypeAlias = Callable[[TableSchema, str], str | None]
"""Function that returns why Iceberg's clients cannot read a table of a schema and name, or None."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot."""

    id: int
    schema_id: int
    commit_kind: Annotated[str, Field(examples=["APPEND"])]
    commit_user: str | None
    commit_identifier: int | None
    time_millis: int
    total_record_count: int | None

    @classmethod
    def of(cls, snapshot: TableSnapshot) -> Self:
        """Describe a snapshot, without the names of its manifest lists."""
        return cls(**{member.name: getattr(snapshot, member.name) for member in fields(cls)})


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag and its snapshot."""

    name: str
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch."""

    name: str


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """One column of a schema, with its full type."""

    id: int
    name: str
    type: Annotated[
        str | dict[str, Any],
        Field(
            description="As in Paimon's schema files: text, or an object for ARRAY and MULTISET (`element`), "
            "MAP (`key` and `value`) and ROW (`fields`).",
            examples=[{"type": "ARRAY", "element": "BIGINT NOT NULL"}],
        ),
    ]
    nullable: bool
    description: str | None


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema of a table."""

    __pydantic_config__ = DESCRIBED

    id: int
    fields: Sequence[SchemaColumn]
    partition_keys: Sequence[str]
    primary_keys: Sequence[str]
    options: Mapping[str, str]
    comment: str | None
    time_millis: int
    """Time of its commit; 0 if not recorded."""

    @classmethod
    def of(cls, schema: TableSchema) -> Self:
        """Describe a schema."""
        return cls(
            schema.id,
            [
                SchemaColumn(
                    field.id, field.name, type_json(field.type), field.type.nullable, field.description
                )
                for field in schema.fields
            ],
            schema.partition_keys,
            schema.primary_keys,
            dict(schema.options.values),
            schema.comment,
            schema.time_millis,
        )


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a schema."""

    id: int
    name: str
    type: Annotated[
        str,
        Field(
            description="As text; `schemas` has it as JSON.", examples=["BIGINT NOT NULL", "ARRAY<STRING>"]
        ),
    ]
    nullable: bool
    description: str | None


@dataclass(frozen=True, slots=True)
class DeclaredIndex:
    """An index that the table's options declare for writers."""

    column: str
    """Name of the column, with the key in brackets if the index is on one key of a map column."""
    type: Annotated[str, Field(examples=["bloom-filter"])]
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GlobalIndexFiles:
    """The files of a global index of one type on one column."""

    column: str | None
    """Null if the table no longer has the column."""
    type: Annotated[str, Field(examples=["btree"])]
    files: int
    row_count: int
    """Rows that the files cover; a row that two files cover counts twice."""
    bytes: int

    @classmethod
    def of(cls, version: Version) -> list[Self] | None:
        """List the global indexes of a version. Return None if its index manifest is damaged or missing."""
        # Only tables that number their rows can have global indexes; others are spared the read.
        if not version.schema.options.row_tracking:
            return []
        by_column: dict[tuple[int, str], list[IndexFileMeta]] = {}
        try:
            entries = version.table.metadata.index_entries(version.resolved)
        except (CorruptMetadataError, SnapshotExpiredError):
            # A damaged table can still be described.
            return None
        for entry in entries:
            if entry.file.global_index is not None:
                key = entry.file.global_index.field_id, entry.file.index_type
                by_column.setdefault(key, []).append(entry.file)
        return [
            cls(
                _column_name(version, column_id),
                index_type,
                len(files),
                sum(file.row_count for file in files),
                sum(file.file_size for file in files),
            )
            for (column_id, index_type), files in sorted(by_column.items())
        ]


@dataclass(frozen=True, slots=True)
class TableDescription:
    """The schema of a version of a table, with its consequences for reads."""

    __pydantic_config__ = DESCRIBED

    database: str
    table: str
    schema_id: int
    fields: Sequence[Column]
    partition_keys: Sequence[str]
    primary_keys: Sequence[str]
    options: Mapping[str, str]
    comment: str | None
    snapshot: Annotated[
        Snapshot | None, Field(description="The version that is described; null: the table is empty.")
    ]
    latest_snapshot: Snapshot | None
    merge_engine: Annotated[str | None, Field(examples=["deduplicate"])]
    bucket_mode: Annotated[str, Field(examples=["hash_dynamic"])]
    deletion_vectors: bool
    indexes: Sequence[DeclaredIndex]
    global_indexes: Sequence[GlobalIndexFiles] | None
    """Null if the index manifest is damaged or missing."""
    iceberg_refusal: Annotated[
        str | None,
        Field(description="Why Iceberg's clients cannot read the table, or not every file that it may have."),
    ]

    @classmethod
    def of(cls, version: Version, latest: TableSnapshot | None, refusal: Refusal) -> Self:
        """Describe a version. ``latest`` is the newest snapshot of its branch."""
        schema, snapshot = version.schema, version.resolved.snapshot
        return cls(
            database=version.table.database,
            table=version.table.name,
            schema_id=schema.id,
            fields=[
                Column(field.id, field.name, str(field.type), field.type.nullable, field.description)
                for field in schema.fields
            ],
            partition_keys=schema.partition_keys,
            primary_keys=schema.primary_keys,
            options=dict(schema.options.values),
            comment=schema.comment,
            snapshot=None if snapshot is None else Snapshot.of(snapshot),
            latest_snapshot=None if latest is None else Snapshot.of(latest),
            merge_engine=None if schema.merge_engine is None else schema.merge_engine.value,
            bucket_mode=schema.bucket_mode.value.lower(),
            deletion_vectors=schema.options.deletion_vectors,
            indexes=[
                DeclaredIndex(index.column, index.kind, dict(index.parameters))
                for index in schema.options.file_indexes
            ],
            global_indexes=GlobalIndexFiles.of(version),
            iceberg_refusal=refusal(schema, version.table.name),
        )


@dataclass(frozen=True, slots=True)
class VectorRange:
    """Place of one data file's deletion vector in an index file."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """Rows that a file of a global index covers."""

    column: str | None
    """Null if the table no longer has the column."""
    first_row_id: int
    last_row_id: int
    """Id of the last row covered."""


@dataclass(frozen=True, slots=True)
class IndexFileEntry:
    """One live entry of the index manifest."""

    kind: str
    partition: Mapping[str, Any]
    """Typed values by partition column."""
    bucket: int
    index_type: str
    file_name: str
    path: str
    file_size: int
    row_count: int
    ranges: Sequence[VectorRange] | None = None
    global_index: IndexedRows | None = None


def describe_index_files(version: Version, index_type: str | None) -> list[IndexFileEntry]:
    """List the live entries of the index manifest, of one type or of all."""
    return [
        IndexFileEntry(
            entry.kind.name,
            version.partitions.json(entry.partition),
            entry.bucket,
            entry.file.index_type,
            entry.file.file_name,
            version.source.paths.any_index_file(entry),
            entry.file.file_size,
            entry.file.row_count,
            [VectorRange(*astuple(place)) for place in entry.file.ranges] or None,
            _indexed_rows(version, entry.file.global_index),
        )
        for entry in version.table.metadata.index_entries(version.resolved)
        if index_type is None or entry.file.index_type == index_type
    ]


def _indexed_rows(version: Version, covered: GlobalIndex | None) -> IndexedRows | None:
    if covered is None:
        return None
    return IndexedRows(_column_name(version, covered.field_id), covered.first_row, covered.last_row)


def _column_name(version: Version, column_id: int) -> str | None:
    column = version.schema.by_id.get(column_id)
    return None if column is None else column.name


@dataclass(frozen=True, slots=True, eq=False)
class DescribedSchemas(Sequence[Schema]):
    """Schemas up to a version's, read in batches on access."""

    version: Version
    readers: Readers
    ids: Sequence[int]
    _read: dict[int, TableSchema] = field(default_factory=dict)

    @classmethod
    def of(cls, version: Version, readers: Readers) -> DescribedSchemas:
        """List the schemas of a version's branch, up to the version's own."""
        ids = version.table.schema_ids(version.resolved.branch)
        return cls(version, readers, [schema_id for schema_id in ids if schema_id <= version.schema_id])

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Schema: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Schema]: ...
    def __getitem__(self, at: int | slice) -> Schema | Sequence[Schema]:
        if isinstance(at, slice):
            return [self[position] for position in range(*at.indices(len(self)))]
        schema_id = self.ids[at]
        if schema_id not in self._read:
            batch = self.ids[at : at + _READ_AT_ONCE]
            self._read.clear()
            self._read.update(zip(batch, self.readers.map(self._load, batch), strict=True))
        return Schema.of(self._read[schema_id])

    def _load(self, schema_id: int) -> TableSchema:
        try:
            return self.version.table.schema_of(schema_id, self.version.resolved.branch)
        except NotFoundError as error:
            raise SnapshotExpiredError(f"schema {schema_id} was removed while schemas were listed") from error
