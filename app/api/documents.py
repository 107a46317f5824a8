"""The shapes of answers that HTTP alone has; the OpenAPI document is made of them and of planning's answers.

Answers themselves are written by :mod:`app.api.encoding` and its neighbours. Tests hold real answers against
these shapes, which allow no member that is not described.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from app.planning.keys.answers import SnapshotId
from app.planning.plan.answers import Summary
from app.planning.plan.file_plan import ExplainStep, FileFacts, Int64, Text

Selection = Annotated[
    str | list[list[int]] | list[int] | None,
    pa.binary(),
    Field(
        description="Row positions in the form asked for: base64 of a portable RoaringBitmap, ranges "
        "with exclusive ends, or positions. Null: every row of the file."
    ),
]
SelectionFormat = Annotated[
    Literal["roaring32", "roaring64"] | None,
    pa.string(),
    Field(description="Which roaring form a bitmap has."),
]
NextPageToken = Annotated[str | None, Field(description="Asks for the next page; null on the last one.")]
Partition = Annotated[dict[str, Any], Field(description="Typed values by partition column.")]


DeletedRows = Annotated[
    str | list[list[int]] | list[int] | None,
    pa.binary(),
    Field(description="With `deletions` only: positions of deleted rows in that form. Null: no row."),
]


class Document(BaseModel):
    """A JSON object whose members are all described."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ProblemDetails(Document):
    """RFC 9457 problem details."""

    type: str = Field(examples=["urn:paimon-index:error:filter"])
    title: str
    status: int
    detail: str
    instance: str = Field(description="The request id, as in X-Request-Id.")
    column: str | None = None
    position: int | None = Field(None, description="0-based character in the filter's text.")
    path: str | None = None
    offset: int | None = Field(None, description="Byte in the file named by path.")
    limit: int | None = None


class FileDeletions(Document):
    """Deleted rows of one data file."""

    file_name: str
    partition: Partition
    bucket: int
    cardinality: int
    encoding: Literal["positions", "ranges", "bitmap", "count"]
    positions: list[int] | None = None
    ranges: list[list[int]] | None = None
    bitmap: str | None = None
    bitmap_format: SelectionFormat = None


class DeletionsPage(Document):
    """One page of deletions."""

    snapshot_id: SnapshotId
    deletions: list[FileDeletions]
    unknown_files: list[str]
    warnings: list[str]
    next_page_token: NextPageToken


class EvaluatedFile(Document):
    """What the indexes of one file say."""

    name: str
    decision: Literal["skip", "keep"]
    selected_rows: int | None
    selection: Selection
    selection_format: SelectionFormat
    explain: list[ExplainStep] | None = None
    error: ProblemDetails | None = None


class Evaluation(Document):
    """One result per index file, in request order."""

    results: list[EvaluatedFile]
    warnings: list[str]


class WatchedTable(Document):
    """A table whose latest snapshot is kept decoded."""

    warehouse: str
    database: str
    table: str
    snapshot_id: int | None = Field(description="The last one that was decoded; null before the first.")
    failures: int = Field(description="Attempts to read the table that failed since the last that did not.")


class Token(Document):
    """The token that a request came with."""

    name: str
    role: Literal["reader", "admin"]


class MemoryUse(Document):
    """How this process may use its memory, in bytes."""

    limit_bytes: int = Field(description="What the process may take.")
    source: str = Field(description="Where the bound of all processes together comes from.")
    process_bytes: int = Field(description="What is left for the process beside the parts below.")
    caches: dict[str, int] = Field(description="Capacity of each cache, or its share of shared room.")
    caches_sharing: list[str] = Field(description="Caches that may hold what others of them leave empty.")
    bodies_bytes: int = Field(description="For bodies that are being received, all together.")
    read_bytes: int = Field(description="For reads under way, all together.")
    decoding_bytes: int = Field(description="For files that are being decoded, all together.")
    resident_bytes: int = Field(description="What the process takes now.")


class Configuration(Document):
    """The service's version, limits and capabilities, and what the caller may use of it."""

    service: str
    version: str
    warehouses: list[str]
    warehouse_urls: dict[str, str] = Field(
        description="What those who read a warehouse's files call it: its public URL."
    )
    time_zone: str | None = Field(
        description="The session time zone of requests that name none; null: it is not known."
    )
    limits: dict[str, float]
    memory: MemoryUse
    capabilities: dict[str, list[str]]
    watch: list[WatchedTable] = Field(description="Of this process; others follow the tables on their own.")
    token: Token | None = Field(description="Null where the service asks for none.")


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
    type: str = Field(
        description="As text; `schemas` tells it as JSON.", examples=["BIGINT NOT NULL", "ARRAY<STRING>"]
    )
    nullable: bool
    description: str | None


class SchemaColumn(Document):
    """One column of a schema, with its full type."""

    id: int
    name: str
    type: str | dict[str, Any] = Field(
        description="As in Paimon's schema files: text, or an object for ARRAY and MULTISET (`element`), MAP "
        "(`key` and `value`) and ROW (`fields`).",
        examples=[{"type": "ARRAY", "element": "BIGINT NOT NULL"}],
    )
    nullable: bool
    description: str | None


class Schema(Document):
    """One schema of a table."""

    id: int
    fields: list[SchemaColumn]
    partition_keys: list[str]
    primary_keys: list[str]
    options: dict[str, str]
    comment: str | None
    time_millis: int = Field(description="When it was committed; 0 where that is not recorded.")


class SchemaList(Document):
    """One page of a table's schemas, oldest first."""

    schemas: list[Schema]
    next_page_token: NextPageToken


class Snapshot(Document):
    """One snapshot."""

    id: int
    schema_id: int
    commit_kind: str = Field(examples=["APPEND"])
    commit_user: str | None
    commit_identifier: int | None
    time_millis: int
    total_record_count: int | None


class DeclaredIndex(Document):
    """An index that the table's options ask writers for."""

    column: str = Field(description="With the key in brackets for one key of a map column.")
    type: str = Field(examples=["bloom-filter"])
    options: dict[str, str]


class TableDescription(Document):
    """The schema of a version of a table and what follows from it."""

    database: str
    table: str
    schema_id: int
    fields: list[Column]
    partition_keys: list[str]
    primary_keys: list[str]
    options: dict[str, str]
    comment: str | None
    snapshot: Snapshot | None = Field(description="The version that is described; null: the table is empty.")
    latest_snapshot: Snapshot | None
    merge_engine: str | None = Field(examples=["deduplicate"])
    bucket_mode: str = Field(examples=["hash_dynamic"])
    deletion_vectors: bool
    indexes: list[DeclaredIndex]


class SnapshotList(Document):
    """One page of a table's snapshots, oldest first."""

    snapshots: list[Snapshot]
    next_page_token: NextPageToken


class Tag(Document):
    """A tag and its snapshot."""

    name: str
    snapshot: Snapshot


class TagList(Document):
    """One page of a table's tags, by name."""

    tags: list[Tag]
    next_page_token: NextPageToken


class Branch(Document):
    """A branch."""

    name: str


class BranchList(Document):
    """A table's branches besides the main one."""

    branches: list[Branch]


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
    path: str
    file_size: int
    row_count: int
    ranges: list[VectorRange] | None = None


class IndexFileList(Document):
    """One page of the index manifest's live entries."""

    snapshot_id: SnapshotId
    index_files: list[IndexFileEntry]
    next_page_token: NextPageToken


class InspectedIndex(Document):
    """One index of one column; which members there are depends on its type and on what types were given."""

    type: str = Field(examples=["range-bitmap"])
    offset: int
    length: int
    empty: bool | None = None
    version: int | None = None
    row_count: int | None = None
    cardinality: int | None = Field(None, description="Distinct values.")
    has_nulls: bool | None = None
    null_count: int | None = None
    min: Any = None
    max: Any = None
    bits: int | None = None
    hash_functions: int | None = None
    error: IndexFault | None = None


class IndexFault(Document):
    """Why an index cannot be read."""

    detail: str
    offset: int | None


class InspectedColumn(Document):
    """The indexes of one column."""

    name: str
    indexes: list[InspectedIndex]


class InspectedVector(Document):
    """One deletion vector of a file."""

    offset: int
    size: int
    bits: Literal[32, 64]
    cardinality: int
    highest: int | None


class Inspection(Document):
    """What is in an index file, by its kind."""

    kind: Literal["file_index", "deletion_vectors", "hash"]
    version: int | None = None
    size: int | None = None
    columns: list[InspectedColumn] | None = Field(None, description="Of a file index.")
    vectors: list[InspectedVector] | None = Field(None, description="Of a file of deletion vectors.")
    row_count: int | None = Field(None, description="Of a hash index.")
    hashes: list[int] | None = Field(None, description="Of a hash index, in the file's order.")
    vector_count: int | None = Field(None, description="Of a file of deletion vectors.")
    next_offset: int | None = Field(None, description="Asks for further vectors or hashes; null at the end.")


class CacheState(Document):
    """One cache."""

    entries: int
    bytes: int
    in_flight: int = Field(description="Bytes that loads under way have claimed.")
    capacity: int = Field(description="What `bytes` can be, as long as other caches hold what they do.")
    hits: int
    misses: int
    evictions: int
    rejected: int = Field(description="Objects not kept, since others are asked for more.")
    waits: int = Field(description="Hits that waited for a load that another request had under way.")


class DiskCacheState(Document):
    """What is kept on disk over restarts."""

    entries: int
    bytes: int = Field(description="Of the disk that the entries take.")
    capacity: int = Field(description="What `bytes` does not exceed.")
    hits: int
    misses: int
    evictions: int
    corrupt: int = Field(description="Entries removed because they were not what was written.")


class CacheStatistics(BaseModel):
    """The state of each cache by its name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, CacheState]

    disk: DiskCacheState | None = Field(
        None, description="As far as this process knows; left out where nothing is kept on disk."
    )


class About(Document):
    """What answers here."""

    service: str
    version: str
    description: str
    docs: str = Field(description="Path of the documentation of this API.", examples=["/docs"])
    openapi: str = Field(description="Path of the OpenAPI document.", examples=["/openapi.json"])


class Health(Document):
    """The service's health."""

    status: str = Field(examples=["ready"])
    warehouses_failing: int | None = Field(
        None, description="How many warehouses could not be listed, if any; which, the log and metrics tell."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedFile(FileFacts):
    """A data file that the query need not read."""

    decision_reason: Annotated[
        Text,
        Field(
            examples=["matched"],
            description="Why it is kept (no_filter, matched, no_index, not_decidable, not_asked, not_loaded, "
            "index_unreadable, merge_required), or the step that left it out, as in skipped_by.",
        ),
    ]
    explain: list[ExplainStep] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile(SkippedFile):
    """A data file that the query reads."""

    selected_rows: Int64
    """Rows left to read, without deleted ones."""
    selection: Selection
    selection_format: SelectionFormat
    deleted_rows: DeletedRows = None
    deleted_format: SelectionFormat = None


class PlanAnswer(Document):
    """One page of a plan."""

    snapshot_id: SnapshotId
    schema_id: int
    schemas: list[Schema] | None = Field(
        None, description="With `schemas` only: those of the version and of the kept files of all pages."
    )
    files: list[PlannedFile]
    skipped_files: list[SkippedFile] | None = Field(None, description="With explain only.")
    summary: Summary
    warnings: list[str]
    unknown_files: list[str] = Field(description="Files named in the request that the snapshot has not.")
    timings_ms: dict[str, float]
    next_page_token: NextPageToken
