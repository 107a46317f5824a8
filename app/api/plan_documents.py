"""The shapes of plans; see :mod:`app.api.documents`.

Members of a plan's files name their Arrow type beside that of JSON; where they name none, it depends on the
table.
"""

from __future__ import annotations

from typing import Annotated

import pyarrow as pa
from pydantic import Field

from app.api.discovery_documents import Schema
from app.api.documents import (
    Document,
    ExplainStep,
    MaybeInt64,
    NextPageToken,
    Partition,
    Selection,
    SelectionFormat,
    SnapshotId,
    Text,
)

Flag = Annotated[bool, pa.bool_()]
Int32 = Annotated[int, pa.int32()]
Int64 = Annotated[int, pa.int64()]
DeletedRows = Annotated[
    str | list[list[int]] | list[int] | None,
    pa.binary(),
    Field(description="With `deletions` only: positions of deleted rows in that form. Null: no row."),
]


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
    decision_reason: Text = Field(
        examples=["matched"],
        description="Why it is kept (no_filter, matched, no_index, not_decidable, not_asked, not_loaded, "
        "index_unreadable, merge_required), or the step that left it out, as in skipped_by.",
    )
    explain: list[ExplainStep] | None = None


class PlannedFile(SkippedFile):
    """A data file that the query reads."""

    selected_rows: Int64 = Field(description="Rows left to read, without deleted ones.")
    selection: Selection
    selection_format: SelectionFormat
    deleted_rows: DeletedRows = None
    deleted_format: SelectionFormat = None


class Summary(Document):
    """Totals of a plan."""

    files_total: int
    files_kept: int
    files_skipped: int
    files_invisible: int = Field(
        description="Files that batch reads never see, of partitions that the filter allows. They count in "
        "files_total, but not in files_skipped."
    )
    skipped_by: dict[str, int] = Field(description="Skipped files by the step that decided.")
    manifests_total: int
    manifests_skipped: int = Field(
        description="Manifests that were not read, since the filter rules all of their partitions out. Their "
        "files count as skipped by partition."
    )
    rows_total: int
    rows_selected: int
    bytes_total: int = Field(
        description="Of partitions that the filter allows; of all files with totals, explain or files."
    )
    bytes_kept: int
    complete: bool = Field(
        description="False if budget_ms was used up before every index was asked, or an index could not be "
        "read: a later plan may keep fewer files."
    )


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
