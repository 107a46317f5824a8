"""The shapes of answers, for the OpenAPI document only: answers themselves are written by ``encoding``.

Tests hold real answers against these shapes, which allow no member that is not described here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Selection = Annotated[
    str | list[list[int]] | list[int] | None,
    Field(
        description="Row positions in the form asked for: base64 of a portable RoaringBitmap, ranges "
        "with exclusive ends, or positions. Null: every row of the file."
    ),
]
SelectionFormat = Annotated[
    Literal["roaring32", "roaring64"] | None, Field(description="Which roaring form a bitmap has.")
]
NextPageToken = Annotated[str | None, Field(description="Asks for the next page; null on the last one.")]
SnapshotId = Annotated[int | None, Field(description="Null for a table without snapshots.")]
Partition = Annotated[dict[str, Any], Field(description="Typed values by partition column.")]


class Document(BaseModel):
    """A JSON object whose members are all described."""

    model_config = ConfigDict(extra="forbid")


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


class ExplainStep(Document):
    """One thing that was tried for one file."""

    step: str = Field(examples=["file_index"])
    outcome: Literal["skip", "keep", "rows", "unknown"]
    column: str | None
    index: str | None = Field(examples=["bloom-filter"])
    predicate: str | None = Field(examples=["score > 60"])
    rows: int | None


class DeletionFile(Document):
    """Where a data file's deletion vector lies."""

    path: str = Field(description="In the form of a data file's path.")
    offset: int
    length: int
    cardinality: int | None


class SkippedFile(Document):
    """A data file that the query need not read."""

    path: str = Field(
        description="Relative to the warehouse; with `uris` an absolute URI, which is not percent-encoded. "
        "Of an external file the URI that the table's metadata has."
    )
    file_name: str
    format: str = Field(examples=["parquet"])
    file_size: int
    row_count: int
    schema_id: int
    level: int
    partition: Partition
    bucket: int
    total_buckets: int
    min_sequence_number: int
    max_sequence_number: int
    first_row_id: int | None = Field(description="Null in a table that does not track rows.")
    raw_convertible: bool = Field(description="Rows can be read straight from the file, without merging.")
    merge_group: int | None = Field(description="Files of one number must be read together.")
    residual: bool = Field(description="False: every selected row is proven to satisfy the filter.")
    deletion: DeletionFile | None
    decision_reason: str = Field(examples=["matched"])
    explain: list[ExplainStep] | None = None


class PlannedFile(SkippedFile):
    """A data file that the query reads."""

    selected_rows: int = Field(description="Rows left to read, without deleted ones.")
    selection: Selection
    selection_format: SelectionFormat


class Summary(Document):
    """Totals of a plan."""

    files_total: int
    files_kept: int
    files_skipped: int
    files_invisible: int = Field(description="Files that batch reads never see; not in files_total.")
    skipped_by: dict[str, int] = Field(description="Skipped files by the step that decided.")
    rows_total: int
    rows_selected: int
    bytes_total: int
    bytes_kept: int


class PlanAnswer(Document):
    """One page of a plan."""

    snapshot_id: SnapshotId
    schema_id: int
    files: list[PlannedFile]
    skipped_files: list[SkippedFile] | None = Field(None, description="With explain only.")
    summary: Summary
    warnings: list[str]
    unknown_files: list[str] = Field(description="Files named in the request that the snapshot has not.")
    timings_ms: dict[str, float]
    next_page_token: NextPageToken


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


class KeyBucket(Document):
    """The bucket of one key."""

    key_hash: int
    bucket: int | None = Field(description="Null: the key is not in the table's index yet.")
    other_buckets: list[int] | None = Field(
        None, description="Of keys with a CHAR column: where forms with other padding are or would be."
    )


class BucketLookup(Document):
    """Buckets in request order."""

    snapshot_id: SnapshotId
    bucket_mode: str = Field(examples=["hash_dynamic"])
    buckets: list[KeyBucket]
    detail: str | None = Field(None, description="Why this bucket mode cannot tell buckets.")


class BucketInfo(Document):
    """One bucket of one partition."""

    partition: Partition
    bucket: int
    index_file: str | None
    index_rows: int | None
    full: bool | None = Field(description="Null for bucket modes without a target row number.")
    data_files: int
    rows: int


class BucketList(Document):
    """Buckets and what they hold."""

    snapshot_id: SnapshotId
    bucket_mode: str
    buckets: list[BucketInfo]
    warnings: list[str]


class AssignedBucket(Document):
    """The bucket that a writer would assign to one key."""

    key_hash: int
    bucket: int
    strategy: Literal["existing", "non_full", "new", "random"]
    permitted: list[int] | None = Field(description="For the strategy random only.")


class AssignmentAnswer(Document):
    """Assignments in request order."""

    snapshot_id: SnapshotId
    bucket_mode: str
    buckets: list[AssignedBucket]


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
