"""Answers about the catalog and the service: tables, versions, schemas, index files, health."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class About:
    service: str
    version: str
    description: str
    explorer: str
    docs: str
    openapi: str


@dataclass(frozen=True, slots=True)
class Health:
    """The service's health, ``live`` or ``ready``, and the number of warehouses that cannot be listed."""

    status: str
    warehouses_failing: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryUse:
    limit_bytes: int
    source: str
    process_bytes: int
    caches: dict[str, int]
    caches_sharing: tuple[str, ...]
    bodies_bytes: int
    read_bytes: int
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """A table whose latest snapshot is kept decoded."""

    warehouse: str
    database: str
    table: str
    snapshot_id: int | None
    failures: int


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """Name and role of the request's token."""

    name: str
    role: Literal["reader", "admin"]


@dataclass(frozen=True, slots=True)
class Configuration:
    service: str
    version: str
    warehouses: tuple[str, ...]
    warehouse_urls: dict[str, str]
    limits: dict[str, float]
    memory: MemoryUse
    capabilities: dict[str, list[str]]
    watch: tuple[WatchedTable, ...]
    token: TokenIdentity | None


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """One field of a schema. ``type`` is text, or an object for nested types, as in schema files."""

    id: int
    name: str
    type: str | dict[str, Any]
    nullable: bool
    description: str | None


@dataclass(frozen=True, slots=True)
class Column(SchemaColumn):
    """One field of a table, with its type as text."""

    type: str


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema of a table. ``time_millis`` is 0 if its commit time is not recorded."""

    id: int
    fields: tuple[SchemaColumn, ...]
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: dict[str, str]
    comment: str | None
    time_millis: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    id: int
    schema_id: int
    commit_kind: str
    commit_user: str | None
    commit_identifier: int | None
    time_millis: int
    total_record_count: int | None


@dataclass(frozen=True, slots=True)
class DeclaredIndex:
    """An index that the table's options declare."""

    column: str
    type: str
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class GlobalIndexFiles:
    """The files of a global index of one type on one column, which is None where it was dropped."""

    column: str | None
    type: str
    files: int
    row_count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TableDescription:
    database: str
    table: str
    schema_id: int
    fields: tuple[Column, ...]
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: dict[str, str]
    comment: str | None
    snapshot: Snapshot | None
    latest_snapshot: Snapshot | None
    merge_engine: str | None
    bucket_mode: str
    deletion_vectors: bool
    indexes: tuple[DeclaredIndex, ...]
    iceberg_refusal: str | None = None
    global_indexes: tuple[GlobalIndexFiles, ...] | None = ()


@dataclass(frozen=True, slots=True)
class Tag:
    name: str
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch besides the main one."""

    name: str


@dataclass(frozen=True, slots=True)
class VectorRange:
    """Byte range of one data file's deletion vector in an index file."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """Rows that a file of a global index covers. Both ends are inclusive."""

    column: str | None
    first_row_id: int
    last_row_id: int


@dataclass(frozen=True, slots=True)
class IndexFileEntry:
    """One live entry of the index manifest."""

    kind: str
    partition: dict[str, Any]
    bucket: int
    index_type: str
    file_name: str
    path: str
    file_size: int
    row_count: int
    ranges: tuple[VectorRange, ...] | None = None
    global_index: IndexedRows | None = None


@dataclass(frozen=True, slots=True)
class IndexFileList:
    """The live entries of one snapshot's index manifest, all pages joined."""

    snapshot_id: int | None
    index_files: tuple[IndexFileEntry, ...]


@dataclass(frozen=True, slots=True)
class CacheState:
    """One cache, summed over all processes. Members that a cache lacks are 0."""

    entries: int
    bytes: int
    capacity: int
    hits: int
    misses: int
    evictions: int
    in_flight: int = 0
    rejected: int = 0
    waits: int = 0
    corrupt: int = 0
