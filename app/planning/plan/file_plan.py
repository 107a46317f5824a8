"""One data file of a plan: what is decided of it, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, TypeVar, get_type_hints

import pyarrow as pa
from pydantic import Field

from app.described import ALWAYS_THERE
from app.file_index.answers import Outcome, Step
from app.types.roaring import Positions


class SkipStep(StrEnum):
    """The step that left a file out, in the order in which the steps are tried."""

    PARTITION = "partition"
    BUCKET = "bucket"
    KEY_STATISTICS = "key_statistics"
    STATISTICS = "statistics"
    GLOBAL_INDEX = "global_index"
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
    """There was no time to ask the index all values of long lists; the plan warns and is not complete."""
    NOT_LOADED = "not_loaded"
    """The plan's budget of time was used up before the file's index was loaded; the plan is not complete."""
    INDEX_UNREADABLE = "index_unreadable"
    """An index is damaged or cannot be read: the file is kept and the plan carries a warning."""
    MERGE_REQUIRED = "merge_required"
    """Rows of this file merge with rows of others at read time, so its values alone decide nothing."""


Mark = TypeVar("Mark")

Text = Annotated[str, pa.string()]
MaybeText = Annotated[str | None, pa.string()]
Flag = Annotated[bool, pa.bool_()]
Int32 = Annotated[int, pa.int32()]
Int64 = Annotated[int, pa.int64()]
MaybeInt64 = Annotated[int | None, pa.int64()]
MaybeDouble = Annotated[float | None, pa.float64()]
"""Members of files with their types in Arrow; one without depends on the table."""


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """Where a data file's deletion vector lies."""

    path: Text
    """In the form of a data file's path."""
    offset: Int64
    length: Int64
    cardinality: MaybeInt64
    """Deleted rows; null where the manifest does not tell and nobody had to read the vector."""


@dataclass(slots=True)
class ExplainStep:
    """One thing that was tried for one file."""

    # Shared by files, and never changed; frozen, each of the very many would take five times as long to make.
    __pydantic_config__ = ALWAYS_THERE

    step: Annotated[Text, Field(examples=["file_index"])]
    outcome: Annotated[Outcome, pa.string()]
    column: MaybeText = None
    index: Annotated[MaybeText, Field(examples=["bloom-filter"])] = None
    predicate: Annotated[MaybeText, Field(examples=["score > 60"])] = None
    rows: MaybeInt64 = None
    """How many rows were left, where that is known."""
    evidence: Annotated[MaybeText, Field(examples=["score min 3 max 57 <= 60"])] = None
    """What the file has: bounds, a value, a bucket; or why nothing could be asked. A bound that decided
    stands last, beside the literal."""
    fpp: MaybeDouble = None
    """Of a bloom filter: how likely it does not rule out a value that the file lacks, by its bits."""
    index_bytes: MaybeInt64 = None
    """Bytes of the index that was asked."""

    @classmethod
    def of(cls, traced: Step) -> ExplainStep:
        """A step of the file index evaluation."""
        return cls(
            "file_index",
            traced.outcome,
            traced.column,
            traced.index,
            traced.predicate,
            traced.rows,
            traced.evidence,
            traced.fpp,
            traced.index_bytes,
        )


@dataclass(frozen=True, slots=True)
class Recorded:
    """Says which column of manifests a member of a file is (:mod:`app.table.manifests.manifest`)."""

    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What a plan tells of every data file, kept or skipped, in this order.

    JSON, Arrow, objects, and what plans take out of manifests follow from this list. A member that is not
    ``Recorded`` is made by :mod:`app.planning.plan.planned_files`.
    """

    # Pydantic reads the texts below members of their own class only, not of its base.
    path: Annotated[
        Text,
        Field(
            description="Relative to the warehouse; with `uris` an absolute URI, which is not "
            "percent-encoded. Of an external file the URI that the table's metadata has."
        ),
    ]
    file_name: Annotated[Text, Recorded("file_names")]
    format: Annotated[Text, Field(examples=["parquet"])]
    file_size: Annotated[Int64, Recorded("file_sizes")]
    row_count: Annotated[Int64, Recorded("row_counts")]
    schema_id: Annotated[Int64, Recorded("schema_ids")]
    level: Annotated[Int32, Recorded("levels")]
    partition: Annotated[Mapping[str, Any], Field(description="Typed values by partition column.")]
    bucket: Annotated[Int32, Recorded("buckets")]
    total_buckets: Annotated[Int32, Recorded("total_buckets")]
    min_sequence_number: Annotated[Int64, Recorded("min_sequence_numbers")]
    max_sequence_number: Annotated[Int64, Recorded("max_sequence_numbers")]
    first_row_id: Annotated[
        MaybeInt64, Recorded("first_row_ids"), Field(description="Null in a table that does not track rows.")
    ]
    raw_convertible: Annotated[
        Flag, Field(description="Rows can be read straight from the file, without merging.")
    ]
    merge_group: Annotated[MaybeInt64, Field(description="Files of one number must be read together.")]
    residual: Annotated[Flag, Field(description="False: every selected row is proven to satisfy the filter.")]
    deletion: DeletionFile | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan(FileFacts):
    """One data file of a plan, kept or skipped.

    ``selected_rows``: live rows left by filter, top-n and limit; for a merging file its row count.
    ``selection``: their positions; None means every row of the file (or that no positions were asked for, or
    that the file merges).
    """

    selected_rows: int
    selection: Positions | None
    reason: KeepReason | SkipStep
    explain: tuple[ExplainStep, ...] | None = None


def marks(shape: type, kind: type[Mark]) -> dict[str, Mark]:
    """What members of a dataclass are annotated with, of one kind, by their names."""
    hints = get_type_hints(shape, include_extras=True)
    every = [(member.name, getattr(hints[member.name], "__metadata__", ())) for member in fields(shape)]
    return {name: mark for name, some in every for mark in some if isinstance(mark, kind)}


def arrow_types(shape: type) -> dict[str, pa.DataType]:
    """The members of a dataclass with their types in Arrow; null where that depends on the table."""
    types = marks(shape, pa.DataType)
    return {member.name: types.get(member.name, pa.null()) for member in fields(shape)}
