"""The shapes of answers: the OpenAPI document is made of them, and the schema of a plan's Arrow stream.

Answers themselves are written by :mod:`app.api.encoding` and its neighbours. Tests hold real answers against
these shapes, which allow no member that is not described here. Members of a plan's files name their Arrow
type beside that of JSON; where they name none, it depends on the table.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, pa.string()]
MaybeText = Annotated[str | None, pa.string()]
Flag = Annotated[bool, pa.bool_()]
Int32 = Annotated[int, pa.int32()]
Int64 = Annotated[int, pa.int64()]
MaybeInt64 = Annotated[int | None, pa.int64()]

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

    step: Text = Field(examples=["file_index"])
    outcome: Annotated[Literal["skip", "keep", "rows", "unknown"], pa.string()]
    column: MaybeText
    index: MaybeText = Field(examples=["bloom-filter"])
    predicate: MaybeText = Field(examples=["score > 60"])
    rows: MaybeInt64


class DeletionFile(Document):
    """Where a data file's deletion vector lies."""

    path: Text = Field(description="In the form of a data file's path.")
    offset: Int64
    length: Int64
    cardinality: MaybeInt64


class SkippedFile(Document):
    """A data file that the query need not read."""

    path: Text = Field(
        description="Relative to the warehouse; with `uris` an absolute URI, which is not percent-encoded. "
        "Of an external file the URI that the table's metadata has."
    )
    file_name: Text
    format: Text = Field(examples=["parquet"])
    file_size: Int64
    row_count: Int64
    schema_id: Int64
    level: Int32
    partition: Partition
    bucket: Int32
    total_buckets: Int32
    min_sequence_number: Int64
    max_sequence_number: Int64
    first_row_id: MaybeInt64 = Field(description="Null in a table that does not track rows.")
    raw_convertible: Flag = Field(description="Rows can be read straight from the file, without merging.")
    merge_group: MaybeInt64 = Field(description="Files of one number must be read together.")
    residual: Flag = Field(description="False: every selected row is proven to satisfy the filter.")
    deletion: DeletionFile | None
    decision_reason: Text = Field(examples=["matched"])
    explain: list[ExplainStep] | None = None


class PlannedFile(SkippedFile):
    """A data file that the query reads."""

    selected_rows: Int64 = Field(description="Rows left to read, without deleted ones.")
    selection: Selection
    selection_format: SelectionFormat


class Summary(Document):
    """Totals of a plan."""

    files_total: int
    files_kept: int
    files_skipped: int
    files_invisible: int = Field(
        description="Files that batch reads never see; not in files_total. Of the manifests that were read."
    )
    skipped_by: dict[str, int] = Field(description="Skipped files by the step that decided.")
    manifests_total: int
    manifests_skipped: int = Field(
        description="Manifests that were not read, since the filter rules all of their partitions out. Their "
        "files count as skipped by partition."
    )
    rows_total: int
    rows_selected: int
    bytes_total: int = Field(description="Of the manifests that were read.")
    bytes_kept: int
    complete: bool = Field(
        description="False if budget_ms was used up before every index was asked: a later plan may keep "
        "fewer files."
    )


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


class MetadataFile(Document):
    """A file whose place is `manifest/<name>` below the table."""

    name: str = Field(examples=["manifest-2f1c5a80-6d7e-4d0f-8f53-0d3c6f1e2a4b-0"])
    content: str = Field(description="The file's bytes in base64.")


class PrunedSnapshot(Document):
    """A snapshot that names only the files that a query reads, for whoever may write it."""

    snapshot_id: SnapshotId
    schema_id: int
    name: str = Field(description="A UUID, which stands in the names of all metadata files.")
    document: dict[str, Any] = Field(description="What the file of the snapshot, or of a tag, holds.")
    metadata_files: list[MetadataFile] = Field(
        description="Manifests first, then the base and the delta manifest list."
    )
    delta_manifest_list: str | None = Field(
        description="Of the planned snapshot: a file of just this name shows that a table is this one."
    )
    files_named: int = Field(
        description="Kept files, and those that merge with them, even if the plan leaves these out."
    )
    summary: Summary
    warnings: list[str]


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
