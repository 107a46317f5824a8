"""One data file of a plan: what is decided of it, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from app.file_index.answers.result import Step
from app.types import Json
from app.types.roaring import Positions


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
    NOT_DECIDABLE = "not_decidable"
    """No part of the filter is one that an index could decide, whichever the file has."""
    NOT_ASKED = "not_asked"
    """Lists of the filter are so long that no index of the file was asked about them; the plan warns."""
    NOT_LOADED = "not_loaded"
    """The plan's budget of time was used up before the file's index was loaded; the plan is not complete."""
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
