"""What the planner answers: plain values, no HTTP and no storage.

Everything here is frozen and may be shared between requests (a plan of several pages is computed once).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyroaring import BitMap, BitMap64

    from app.file_index.index_kinds import IndexKind
    from app.file_index.trace import Step
    from app.planning.plan.planned_files import PlannedFiles
    from app.types import Json

Positions: TypeAlias = "BitMap | BitMap64"


class SkipStep(StrEnum):
    """The step that left a file out, in the order in which the steps are tried."""

    PARTITION = "partition"
    BUCKET = "bucket"
    KEY_STATISTICS = "key_statistics"
    STATISTICS = "statistics"
    FILE_INDEX = "file_index"
    DELETION_VECTOR = "deletion_vector"
    TOP_N = "top_n"
    LIMIT = "limit"


class KeepReason(StrEnum):
    """Why a file is kept."""

    NO_FILTER = "no_filter"
    """Nothing was asked of the file's values, or the partition alone decides the filter."""
    MATCHED = "matched"
    """Statistics or an index were asked and cannot rule the file out."""
    NO_INDEX = "no_index"
    """No index of the file covers a column of the filter; statistics cannot rule it out."""
    NOT_ASKED = "not_asked"
    """Lists of the filter are so long that no index of the file was asked about them; the plan warns."""
    INDEX_UNREADABLE = "index_unreadable"
    """An index is damaged or cannot be read: the file is kept and the plan carries a warning."""
    MERGE_REQUIRED = "merge_required"
    """Rows of this file merge with rows of others at read time, so its values alone decide nothing."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Where a data file's deletion vector lies; offset and length as the index manifest states them.

    Attributes:
        path: relative to the warehouse unless URIs were asked for; of an external file as metadata has it.
        cardinality: deleted rows; None where the manifest does not tell and nobody had to read it.
    """

    path: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class ExplainStep:
    """One thing that was tried for one file.

    Attributes:
        outcome: ``skip``, ``keep``, ``rows`` or ``unknown``.
        rows: how many rows were left, where that is known.
    """

    step: str
    outcome: str
    column: str | None = None
    index: str | None = None
    predicate: str | None = None
    rows: int | None = None

    @classmethod
    def of(cls, traced: Step) -> ExplainStep:
        """A step of the file index evaluation."""
        return cls("file_index", traced.outcome, traced.column, traced.index, traced.predicate, traced.rows)


@dataclass(frozen=True, slots=True)
class FilePlan:
    """One data file of a plan, kept or skipped.

    Attributes:
        path: relative to the warehouse unless URIs were asked for; of an external file as metadata has it.
        partition: typed JSON by column name.
        first_row_id: id of its first row; None where the table does not track rows.
        raw_convertible: rows can be read straight from the file, without merging.
        merge_group: files of one number are read together and merged; None where nothing merges.
        selected_rows: live rows left by filter, top-n and limit; for a merging file its row count.
        selection: their positions; None means every row of the file (or that no positions were asked for,
            or that the file merges).
        residual: False only when every selected row is proven to satisfy the filter.
        reason: a KeepReason for a kept file, the SkipStep for a skipped one.
    """

    path: str
    file_name: str
    format: str
    file_size: int
    row_count: int
    schema_id: int
    level: int
    partition: Mapping[str, Json]
    bucket: int
    total_buckets: int
    min_sequence_number: int
    max_sequence_number: int
    first_row_id: int | None
    raw_convertible: bool
    merge_group: int | None
    selected_rows: int
    selection: Positions | None
    residual: bool
    deletion: Deletion | None
    reason: KeepReason | SkipStep
    explain: tuple[ExplainStep, ...] | None = None


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """Totals of a plan over the files that were asked about.

    Attributes:
        files_total: files that a batch read of this snapshot could read.
        files_invisible: files that batch reads never see (level 0 of tables with deletion vectors or
            first-row, postponed buckets); not part of files_total.
    """

    files_total: int
    files_kept: int
    files_skipped: int
    files_invisible: int
    skipped_by: Mapping[SkipStep, int]
    rows_total: int
    rows_selected: int
    bytes_total: int
    bytes_kept: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to a PlanRequest.

    Attributes:
        snapshot_id: None for a table without snapshots.
        files: kept files in manifest order: columns, and a sequence of :class:`FilePlan`.
        skipped_files: with ``explain`` only, else empty.
        timings_ms: milliseconds of ``resolve``, ``load`` and ``evaluate``.
        nbytes: about how much memory the plan takes.
        may_be_remembered: its warnings hold for every plan of the same request.
        skipped_by_index: of the files that indexes left out, how many each kind did.
    """

    snapshot_id: int | None
    schema_id: int
    files: PlannedFiles
    skipped_files: PlannedFiles
    summary: PlanSummary
    warnings: tuple[str, ...]
    unknown_files: tuple[str, ...]
    timings_ms: Mapping[str, float]
    nbytes: int
    may_be_remembered: bool
    skipped_by_index: Mapping[IndexKind, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileDeletions:
    """Deleted positions of one data file; ``positions`` is None where only counts were asked for."""

    file_name: str
    partition: Mapping[str, Json]
    bucket: int
    cardinality: int
    positions: Positions | None


@dataclass(frozen=True, slots=True)
class DeletionsAnswer:
    """The answer to a DeletionsRequest."""

    snapshot_id: int | None
    deletions: tuple[FileDeletions, ...]
    unknown_files: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyBucket:
    """One answer of a lookup; ``bucket`` is None where the key is in no index yet or none exists."""

    key_hash: int
    bucket: int | None


@dataclass(frozen=True, slots=True)
class CharKeyBucket:
    """The same of a key with a CHAR column, which may be stored with fewer blanks at its end or with more.

    Attributes:
        key_hash: of the form of the key that is answered, the padded one if no form is known.
        bucket: where the key is if it is padded, else where another form of it is.
        other_buckets: where further forms of the key are, ascending.
    """

    key_hash: int
    bucket: int | None
    other_buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LookupAnswer:
    """The answer to a LookupRequest, in request order.

    Attributes:
        detail: why buckets cannot be told, for the bucket modes that keep no index; else None.
    """

    snapshot_id: int | None
    bucket_mode: str
    buckets: tuple[KeyBucket | CharKeyBucket, ...]
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class BucketInfo:
    """One bucket of one partition.

    Attributes:
        index_file: the hash index file's path, None where the bucket has none.
        index_rows: keys in it; None where the bucket has none.
        full: at or above ``dynamic-bucket.target-row-num``; None for bucket modes without that option.
    """

    partition: Mapping[str, Json]
    bucket: int
    index_file: str | None
    index_rows: int | None
    full: bool | None
    data_files: int
    rows: int


@dataclass(frozen=True, slots=True)
class BucketsAnswer:
    """Buckets of one partition, or of all when none was named."""

    snapshot_id: int | None
    bucket_mode: str
    buckets: tuple[BucketInfo, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AssignedBucket:
    """One assignment; ``permitted`` is given for the strategy ``random`` only."""

    key_hash: int
    bucket: int
    strategy: str
    permitted: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class AssignAnswer:
    """The answer to an AssignRequest, in request order."""

    snapshot_id: int | None
    bucket_mode: str
    buckets: tuple[AssignedBucket, ...]


@dataclass(frozen=True, slots=True)
class EvaluatedFile:
    """What the indexes of one file say.

    Attributes:
        skip: no row can match.
        selection: rows outside of which nothing matches; None when nothing is known at row level.
        error: the file's indexes could not be used; the file is kept.
    """

    name: str
    skip: bool
    selection: Positions | None
    explain: tuple[ExplainStep, ...] | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class EvaluateAnswer:
    """The answer to an EvaluateRequest, in request order."""

    files: tuple[EvaluatedFile, ...]
    warnings: tuple[str, ...] = ()
