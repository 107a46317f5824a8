"""Answers about plans, deletions, buckets and index files; ``openapi.yaml`` describes their members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from paimon_index.catalog import Schema
from paimon_index.selections import Selection


@dataclass(frozen=True, slots=True)
class ExplainStep:
    """One step of deciding about one file, and the number of rows that it left.

    ``evidence`` is the fact about the file, such as ``city min 'Bonn' max 'Köln' < 'Wien'``. ``fpp`` is the
    probability that a bloom filter passes a value that the file lacks.
    """

    step: str
    outcome: Literal["skip", "keep", "rows", "unknown"]
    column: str | None
    index: str | None
    predicate: str | None
    rows: int | None
    evidence: str | None = None
    fpp: float | None = None
    index_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """Place of a data file's deletion vector: path in the data file's form, byte range, deleted rows."""

    path: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a table.

    ``path`` is relative to the warehouse or, with ``uris``, an absolute URI, taken literally. ``partition``
    has Python values. Dates and times beyond Python's range are ``numpy.datetime64``.
    """

    path: str
    file_name: str
    format: str
    file_size: int
    row_count: int
    schema_id: int
    level: int
    partition: dict[str, Any]
    bucket: int
    raw_convertible: bool
    residual: bool
    deletion: DeletionFile | None


@dataclass(frozen=True, slots=True)
class PlannedFile(DataFile):
    """A data file of a plan. ``skipped`` ones are listed with ``explain`` only.

    Files of one ``merge_group`` must be read together and merged. Only ``raw_convertible`` ones can be read
    directly. Without ``residual`` every selected row satisfies the filter. ``selection`` is None for every
    row of the file, or if no positions were requested. ``deleted_rows`` is None for no row, or if they were
    not requested.
    """

    total_buckets: int
    min_sequence_number: int
    max_sequence_number: int
    first_row_id: int | None
    merge_group: int | None
    decision_reason: str
    selected_rows: int | None = None
    selection: Selection | None = None
    deleted_rows: Selection | None = None
    skipped: bool = False
    explain: tuple[ExplainStep, ...] | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a plan. ``skipped_by`` counts skipped files by the step that decided.

    ``files_total`` includes files that readers do not see. ``files_invisible`` and, without ``totals``,
    ``bytes_total`` cover the partitions that the filter allows.
    """

    files_total: int
    files_kept: int
    files_skipped: int
    files_invisible: int
    skipped_by: dict[str, int]
    rows_total: int
    rows_selected: int
    bytes_total: int
    bytes_kept: int
    complete: bool = True
    manifests_total: int = 0
    manifests_skipped: int = 0


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """Facts about a plan as a whole. ``schemas``, if requested, are of the version and its files."""

    snapshot_id: int | None
    schema_id: int
    summary: Summary
    warnings: tuple[str, ...]
    unknown_files: tuple[str, ...]
    timings_ms: dict[str, float]
    schemas: tuple[Schema, ...] = ()


@dataclass(frozen=True, slots=True)
class FileDeletions:
    """Deleted rows of one data file, in the requested encoding."""

    file_name: str
    partition: dict[str, Any]
    bucket: int
    cardinality: int
    encoding: Literal["positions", "ranges", "bitmap", "count"]
    positions: tuple[int, ...] | None = None
    ranges: tuple[tuple[int, ...], ...] | None = None
    bitmap: str | None = None
    bitmap_format: Literal["roaring32", "roaring64"] | None = None

    @property
    def rows(self) -> Selection | None:
        """The deleted positions. None if only their count was requested."""
        if self.encoding == "count":
            return None
        written = self.bitmap if self.encoding == "bitmap" else self.ranges or self.positions
        return Selection.of_json(self.encoding, written or (), self.bitmap_format)


@dataclass(frozen=True, slots=True)
class Deletions:
    """Deletions of one snapshot, all pages joined."""

    snapshot_id: int | None
    deletions: tuple[FileDeletions, ...]
    unknown_files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyBucket:
    """The bucket of one key. None: the key is not in the table's index yet."""

    key_hash: int
    bucket: int | None
    other_buckets: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class BucketLookup:
    """Buckets in the order of the keys."""

    snapshot_id: int | None
    bucket_mode: str
    buckets: tuple[KeyBucket, ...]
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class BucketInfo:
    partition: dict[str, Any]
    bucket: int
    index_file: str | None
    index_rows: int | None
    full: bool | None
    data_files: int
    rows: int


@dataclass(frozen=True, slots=True)
class BucketList:
    snapshot_id: int | None
    bucket_mode: str
    buckets: tuple[BucketInfo, ...]


@dataclass(frozen=True, slots=True)
class AssignedBucket:
    """The bucket that a writer would give one key."""

    key_hash: int
    bucket: int
    strategy: Literal["existing", "non_full", "new", "random"]
    permitted: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """Assignments in the order of the keys."""

    snapshot_id: int | None
    bucket_mode: str
    buckets: tuple[AssignedBucket, ...]


@dataclass(frozen=True, slots=True)
class EvaluatedFile:
    name: str
    decision: Literal["skip", "keep"]
    selected_rows: int | None
    selection: str | list[Any] | None
    selection_format: Literal["roaring32", "roaring64"] | None
    explain: tuple[ExplainStep, ...] | None = None
    error: dict[str, Any] | None = None

    @property
    def rows(self) -> Selection | None:
        """The rows that may match. None for every row, or if no positions were requested."""
        if self.selection is None:
            return None
        is_pairs = isinstance(self.selection, list) and any(isinstance(each, list) for each in self.selection)
        return Selection.of_json("ranges" if is_pairs else "positions", self.selection, self.selection_format)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One result for each index file, in the order of the request."""

    results: tuple[EvaluatedFile, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexFault:
    detail: str
    offset: int | None


@dataclass(frozen=True, slots=True)
class InspectedIndex:
    """One index of one column. Members that its type or the given types do not provide are None."""

    type: str
    offset: int
    length: int
    empty: bool | None = None
    version: int | None = None
    row_count: int | None = None
    cardinality: int | None = None
    has_nulls: bool | None = None
    null_count: int | None = None
    min: Any = None
    max: Any = None
    bits: int | None = None
    hash_functions: int | None = None
    error: IndexFault | None = None


@dataclass(frozen=True, slots=True)
class InspectedColumn:
    name: str
    indexes: tuple[InspectedIndex, ...]


@dataclass(frozen=True, slots=True)
class InspectedVector:
    offset: int
    size: int
    bits: Literal[32, 64]
    cardinality: int
    highest: int | None


@dataclass(frozen=True, slots=True)
class InspectedBlock:
    offset: int
    size: int
    compression: str | None = None
    key_count: int | None = None
    row_count: int | None = None
    min: Any = None
    max: Any = None
    error: IndexFault | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """Contents of an index file, by its kind. Vectors, hashes and blocks may continue at ``next_offset``."""

    kind: Literal["file_index", "deletion_vectors", "hash", "btree", "bitmap"]
    version: int | None = None
    size: int | None = None
    columns: tuple[InspectedColumn, ...] | None = None
    vectors: tuple[InspectedVector, ...] | None = None
    row_count: int | None = None
    hashes: tuple[int, ...] | None = None
    vector_count: int | None = None
    null_count: int | None = None
    has_nulls: bool | None = None
    cardinality: int | None = None
    min: Any = None
    max: Any = None
    block_count: int | None = None
    blocks: tuple[InspectedBlock, ...] | None = None
    next_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    subject: str
    column: str | None
    index: str | None
    detail: str
    files: int
    bytes_saved: int | None


@dataclass(frozen=True, slots=True)
class IndexUse:
    """The indexes of one kind on one column: files with and without it, bytes, plans that evaluated it."""

    column: str
    index: str
    declared: bool
    files: int
    files_without: int
    bytes: int
    largest_bytes: int
    plans_asked: int
    plans_useful: int


@dataclass(frozen=True, slots=True)
class Savings:
    """Savings of a table's readers by file indexes since the service started."""

    plans: int
    files: int
    bytes: int
    calls: int
    money: float | None


@dataclass(frozen=True, slots=True)
class ShapeUse:
    """A filter with ``?`` for each literal, and the number of its plans."""

    filter: str
    plans: int


@dataclass(frozen=True, slots=True)
class TableAdvice:
    """Cost and use of a table's file indexes, and advice about them.

    ``options`` holds the options of all advice, None for those to remove, as in ``statements``. Below 1 MiB
    of data there are no statements and no command.
    """

    snapshot_id: int | None
    files: int
    files_examined: int
    data_bytes: int
    index_bytes: int
    files_without_index: int
    indexes: tuple[IndexUse, ...]
    advice: tuple[Advice, ...]
    options: dict[str, str | None]
    statements: tuple[str, ...]
    command: str | None
    savings: Savings
    shapes: tuple[ShapeUse, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProposedIndex:
    """An index that was tried: files that it was built for, and estimated bytes for all files."""

    column: str
    index: str
    options: dict[str, str]
    files: int
    index_bytes: int


@dataclass(frozen=True, slots=True)
class Effect:
    """Tried files that an index skips, or that all indexes together skip if ``column`` is None."""

    column: str | None
    index: str | None
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """Effects of indexes on one filter, next to its present plan."""

    filter: str
    files_kept: int
    bytes_kept: int
    files_tried: int
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Estimated effects of indexes that have not been built."""

    snapshot_id: int | None
    files_read: int
    bytes_read: int
    indexes: tuple[ProposedIndex, ...]
    filters: tuple[FilterEffect, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AggregateValue:
    """An aggregate or its bounds. ``settled`` is the value without the open files."""

    function: str
    column: str | None
    exact: bool
    value: Any
    lower: Any
    upper: Any
    settled: Any


@dataclass(frozen=True, slots=True)
class AggregateGroup:
    """One group: its values by column, the rows that surely belong to it, and its aggregates."""

    key: dict[str, Any]
    rows: int
    values: tuple[AggregateValue, ...]


@dataclass(frozen=True, slots=True)
class AggregateAnswer:
    """Groups from indexes, and the names of data files that leave them open."""

    snapshot_id: int | None
    snapshot_age_ms: int
    exact: bool
    groups: tuple[AggregateGroup, ...]
    groups_total: int
    open_files: tuple[str, ...]
    open_bytes: int
    open_rows: int
    files_total: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangedFile(DataFile):
    """A data file that came or went."""


@dataclass(frozen=True, slots=True)
class ChangesAnswer:
    """Files that came and went between two versions. One with a new deletion vector did both."""

    from_snapshot_id: int | None
    snapshot_id: int | None
    next_from_token: str | None
    added: tuple[ChangedFile, ...]
    removed: tuple[ChangedFile, ...]
    warnings: tuple[str, ...]
    schema_id: int | None = None
