"""The shapes of answers: the OpenAPI document is made of them, and the schema of a plan's Arrow stream.

Answers themselves are written by :mod:`app.api.encoding` and its neighbours. Tests hold real answers against
these shapes, which allow no member that is not described. Those of plans are in
:mod:`app.api.plan_documents`, those of what is there in :mod:`app.api.discovery_documents`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, pa.string()]
MaybeText = Annotated[str | None, pa.string()]
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
