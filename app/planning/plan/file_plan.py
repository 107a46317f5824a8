"""One data file of a plan: the decision about it, and the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, TypeVar, get_type_hints

import pyarrow as pa
from pydantic import Field

from app.described import ALWAYS_THERE
from app.file_index.answers import Step, StepOutcome
from app.types.roaring import Positions

_Mark = TypeVar("_Mark")

Text = Annotated[str, pa.string()]
MaybeText = Annotated[str | None, pa.string()]
_Flag = Annotated[bool, pa.bool_()]
Int32 = Annotated[int, pa.int32()]
Int64 = Annotated[int, pa.int64()]
MaybeInt64 = Annotated[int | None, pa.int64()]
MaybeDouble = Annotated[float | None, pa.float64()]
"""Types of a file's members, in Python and Arrow; members without an Arrow type depend on the table."""


class SkipStep(StrEnum):
    """Step that skipped a file, in the order in which the steps run."""

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
    """Reason why a file is kept."""

    NO_FILTER = "no_filter"
    """The filter tests no value of the file, or the partition alone decides it."""
    MATCHED = "matched"
    """Statistics or an index were evaluated, and cannot rule the file out."""
    NO_INDEX = "no_index"
    """No index of the file covers a column of the filter; statistics cannot rule it out."""
    NOT_DECIDABLE = "not_decidable"
    """No index could decide any part of the filter."""
    NOT_ASKED = "not_asked"
    """Time ran out before all values of long lists were looked up; the plan warns and is not complete."""
    NOT_LOADED = "not_loaded"
    """The plan's time budget ran out before the file's index was loaded; the plan is not complete."""
    INDEX_UNREADABLE = "index_unreadable"
    """An index is damaged or cannot be read: the file is kept and the plan carries a warning."""
    MERGE_REQUIRED = "merge_required"
    """The file's rows merge with rows of other files when they are read, so its values alone decide nothing.
    """


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """Place of a data file's deletion vector."""

    path: Text
    """Path, in the form of a data file's path."""
    offset: Int64
    length: Int64
    cardinality: MaybeInt64
    """Deleted rows; null if the manifest does not count them and no step read the vector."""


@dataclass(slots=True)
class ExplainStep:
    """One attempt to decide a file."""

    # Not frozen, though files share steps: frozen ones take five times as long to create, and there are many.
    __pydantic_config__ = ALWAYS_THERE

    step: Annotated[Text, Field(examples=["file_index"])]
    outcome: Annotated[StepOutcome, pa.string()]
    column: MaybeText = None
    index: Annotated[MaybeText, Field(examples=["bloom-filter"])] = None
    predicate: Annotated[MaybeText, Field(examples=["score > 60"])] = None
    rows: MaybeInt64 = None
    """Rows that can still match, where known."""
    evidence: Annotated[MaybeText, Field(examples=["score min 3 max 57 <= 60"])] = None
    """The facts about the file: bounds, a value, a bucket; or why nothing could be evaluated. The bound that
    decided comes last, next to the literal.
    """
    fpp: MaybeDouble = None
    """Probability that a bloom filter does not rule out an absent value, estimated from its bits."""
    index_bytes: MaybeInt64 = None
    """Size of the index that was evaluated."""

    @classmethod
    def of(cls, traced: Step) -> ExplainStep:
        """Convert a step of the file index evaluation."""
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
    """Marks a member that is a column of manifests (:mod:`app.table.manifests.manifest`)."""

    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """Members of every data file in a plan, kept or skipped, in the order of answers.

    JSON, Arrow, objects, and the columns taken from manifests derive from this list.
    :mod:`app.planning.plan.planned_files` makes members that are not ``Recorded``.
    """

    # Pydantic does not read docstrings of inherited members, so these have a Field.
    path: Annotated[
        Text,
        Field(
            description="Relative to the warehouse; with `uris` an absolute URI, which is not "
            "percent-encoded. For an external file, the path in the table's metadata."
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
        MaybeInt64, Recorded("first_row_ids"), Field(description="Null in a table without row tracking.")
    ]
    raw_convertible: Annotated[
        _Flag, Field(description="Rows can be read straight from the file, without merging.")
    ]
    merge_group: Annotated[MaybeInt64, Field(description="Files with one number must be read together.")]
    residual: Annotated[
        _Flag, Field(description="False: every selected row is proven to satisfy the filter.")
    ]
    deletion: DeletionFile | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan(FileFacts):
    """One data file of a plan, kept or skipped."""

    selected_rows: int  # Live rows after filter, top-n and limit; all rows of a file that merges.
    # Their positions; None for all rows, for a file that merges, and if the request wants no positions.
    selection: Positions | None
    reason: KeepReason | SkipStep
    explain: tuple[ExplainStep, ...] | None = None


def marks(shape: type, kind: type[_Mark]) -> dict[str, _Mark]:
    """Return annotations of one kind on the members of a dataclass, by member name."""
    hints = get_type_hints(shape, include_extras=True)
    metadata = [(member.name, getattr(hints[member.name], "__metadata__", ())) for member in fields(shape)]
    return {name: mark for name, annotations in metadata for mark in annotations if isinstance(mark, kind)}


def arrow_types(shape: type) -> dict[str, pa.DataType]:
    """Return the Arrow types of a dataclass's members, null for one that depends on the table."""
    types = marks(shape, pa.DataType)
    return {member.name: types.get(member.name, pa.null()) for member in fields(shape)}
