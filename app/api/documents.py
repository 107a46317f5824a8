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
from app.planning.version.descriptions import Branch, IndexFileEntry, Schema, Snapshot, Tag
from app.storage import CacheState, DiskCacheState

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


class WarehouseList(Document):
    """The warehouses that the caller may use."""

    warehouses: list[str]


class DatabaseList(Document):
    """The databases of a warehouse."""

    databases: list[str]


class TableList(Document):
    """The tables of a database."""

    tables: list[str]


class SchemaList(Document):
    """One page of a table's schemas, oldest first."""

    schemas: list[Schema]
    next_page_token: NextPageToken


class SnapshotList(Document):
    """One page of a table's snapshots, oldest first."""

    snapshots: list[Snapshot]
    next_page_token: NextPageToken


class TagList(Document):
    """One page of a table's tags, by name."""

    tags: list[Tag]
    next_page_token: NextPageToken


class BranchList(Document):
    """A table's branches besides the main one."""

    branches: list[Branch]


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


class CacheStatistics(BaseModel):
    """The state of each cache by its name."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)
    __pydantic_extra__: dict[str, CacheState]

    disk: DiskCacheState | None = Field(
        None, description="As far as this process knows; left out where nothing is kept on disk."
    )


class About(Document):
    """What answers here."""

    service: str
    version: str
    description: str
    explorer: str = Field(description="Path of the explorer, a page for people.", examples=["/ui"])
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


class ChangesAnswer(Document):
    """Files that came and went between two versions."""

    from_snapshot_id: SnapshotId
    snapshot_id: SnapshotId
    next_from_token: str | None = Field(
        description="What the next request goes on with as from_token; null for a table without snapshots."
    )
    added: list[PlannedFile] = Field(description="Of the later version.")
    removed: list[PlannedFile] = Field(description="Of the earlier one, as a plan of it tells them.")
    warnings: list[str]


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
