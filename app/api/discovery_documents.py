"""The shapes of answers about what is there; see :mod:`app.api.documents`."""

from __future__ import annotations

from typing import Any

from pydantic import Field, RootModel

from app.api.documents import Document, NextPageToken, Partition, SnapshotId


class Configuration(Document):
    """The service's version, warehouses, limits and capabilities."""

    service: str
    version: str
    warehouses: list[str]
    limits: dict[str, float]
    capabilities: dict[str, list[str]]


class DatabaseList(Document):
    """The databases of a warehouse."""

    databases: list[str]


class TableList(Document):
    """The tables of a database."""

    tables: list[str]


class Column(Document):
    """One field of a schema."""

    id: int
    name: str
    type: Any = Field(description="Type text, or an object for nested types.", examples=["BIGINT NOT NULL"])
    nullable: bool
    description: str | None


class TableDescription(Document):
    """What a table is."""


class SnapshotList(Document):
    """A table's snapshots."""

    snapshots: list[dict[str, Any]]


class TagList(Document):
    """A table's tags."""

    tags: list[dict[str, Any]]


class BranchList(Document):
    """A table's branches."""

    branches: list[dict[str, Any]]


class VectorRange(Document):
    """Where one data file's deletion vector lies in an index file."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None


class IndexFileEntry(Document):
    """One live entry of the index manifest."""

    kind: str
    partition: Partition
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    ranges: list[VectorRange] | None = None


class IndexFileList(Document):
    """One page of the index manifest's live entries."""

    snapshot_id: SnapshotId
    index_files: list[IndexFileEntry]
    next_page_token: NextPageToken


class Inspection(Document):
    """What is in an index file."""


class CacheState(Document):
    """One cache."""

    entries: int
    bytes: int
    capacity: int
    hits: int
    misses: int
    evictions: int


class CacheStatistics(RootModel[dict[str, CacheState]]):
    """The state of each cache by its name."""


class Health(Document):
    """The service's health."""

    status: str = Field(examples=["ready"])
