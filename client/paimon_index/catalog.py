"""What the service answers about what is there: tables, versions, schemas, index files, and itself."""

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
    """The service's health: ``live`` or ``ready``; and how many warehouses cannot be listed, if any."""

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
    """Whose token a request came with; never the secret."""

    name: str
    role: Literal["reader", "admin"]


@dataclass(frozen=True, slots=True)
class Configuration:
    service: str
    version: str
    warehouses: tuple[str, ...]
    warehouse_urls: dict[str, str]
    time_zone: str | None
    limits: dict[str, float]
    memory: MemoryUse
    capabilities: dict[str, list[str]]
    watch: tuple[WatchedTable, ...]
    token: TokenIdentity | None


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """One field of a schema, its type as Paimon's schema files have it: text, or an object if nested."""

    id: int
    name: str
    type: str | dict[str, Any]
    nullable: bool
    description: str | None


@dataclass(frozen=True, slots=True)
class Column(SchemaColumn):
    """One field of a table, its type as text."""

    type: str


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema of a table; ``time_millis`` is 0 where its commit time is not recorded."""

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
    """An index that the table's options ask writers for."""

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
    global_indexes: tuple[GlobalIndexFiles, ...] = ()


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
    """Where one data file's deletion vector lies in an index file, in bytes."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """The rows that a file of a global index covers, the last one included."""

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
    """One cache of all processes together; members that a cache does not have are 0."""

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
