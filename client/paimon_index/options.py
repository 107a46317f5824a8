"""Keyword arguments of the methods of both clients.

``openapi.yaml`` of the service describes them. An argument that is omitted or None is not sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Required, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

Filter: TypeAlias = "str | Mapping[str, Any]"
"""A condition as text (``id = 5 AND city IN ('Wien')``), or the JSON form of a Paimon predicate."""


InLists: TypeAlias = "Mapping[str, Sequence[Any] | pa.Array | pa.ChunkedArray]"
"""Values by column. Arrow arrays are sent as they are. Convert pandas' and NumPy's with ``pa.array``."""


class VersionOptions(TypedDict, total=False):
    """A version of a table, chosen by at most one of the first three members. Default: the latest.

    ``location`` is the URL of the table's directory, below the warehouse's, if it does not follow from its
    name.
    """

    snapshot_id: int | None
    tag: str | None
    timestamp_millis: int | None
    branch: str | None
    max_staleness_ms: int | None
    location: str | None


class SortKey(TypedDict, total=False):
    """One key of ORDER BY. ``column`` is required."""

    column: str
    direction: Literal["asc", "desc"]
    nulls: Literal["first", "last"]


class TopN(TypedDict):
    """ORDER BY ... LIMIT."""

    order_by: Sequence[SortKey]
    limit: int


class PlanOptions(VersionOptions, total=False):
    """Arguments of a plan.

    ``files`` restricts the plan to these names, ``uris`` makes paths absolute, and ``totals`` reads every
    manifest, even if the filter rules out its partitions. ``deletions`` adds the deleted rows of each file,
    ``schemas`` the schemas of files. With ``in_lists`` a row must also have one value of each list.
    """

    filter: Filter | None
    in_lists: InLists | None
    selection: Literal["none", "count", "bitmap", "ranges", "positions"]
    explain: bool
    files: Sequence[str] | None
    top_n: TopN | None
    limit: int | None
    uris: bool
    budget_ms: int | None
    deletions: Literal["none", "bitmap", "ranges", "positions"]
    schemas: bool
    totals: bool


class DeletionsOptions(VersionOptions, total=False):
    partition: Mapping[str, Any] | None
    files: Sequence[str] | None
    encoding: Literal["positions", "ranges", "bitmap", "count"]


class BucketsOptions(VersionOptions, total=False):
    partition: Mapping[str, Any] | None


class LookupOptions(BucketsOptions, total=False):
    """Exactly one of ``keys`` (values by primary key column) and ``hashes`` (signed 32-bit numbers)."""

    keys: Sequence[Mapping[str, Any]] | None
    hashes: Sequence[int] | None


class AssignOptions(LookupOptions, total=False):
    assign_id: int
    num_assigners: int
    num_channels: int


class AdviceOptions(VersionOptions, total=False):
    """A version, and the most data files whose index heads are read."""

    files: int


class AggregateFunction(TypedDict, total=False):
    """A function, such as ``sum``, of a column. ``count`` without a column counts rows.

    The service refuses ``count_distinct``, which Spark computes from the rows.
    """

    function: Required[Literal["count", "count_distinct", "min", "max", "sum"]]
    column: str | None


class AggregateOptions(VersionOptions, total=False):
    """Aggregates of the rows of a filter. ``group_by`` names one column whose values are counted."""

    filter: Filter | None
    aggregates: Sequence[AggregateFunction] | None
    group_by: Sequence[str]
    top: int


class ChangesOptions(VersionOptions, total=False):
    """Versions and filter of changes. ``wait_seconds`` waits for the next change."""

    from_token: str | None
    filter: Filter | None
    uris: bool
    wait_seconds: float


class WhatIfOptions(VersionOptions, total=False):
    """The sample on which to try indexes.

    ``files`` are tried for each filter, at most ``bytes`` of data files are read, and ``seed`` chooses them.
    """

    filters: Required[Sequence[Filter]]
    files: int
    bytes: int
    seed: int


class ProposedIndex(TypedDict, total=False):
    """An index to try: its column, its kind as ``index``, and its options by their last names."""

    column: Required[str]
    index: Required[str]
    options: Mapping[str, str]


class EvaluateOptions(TypedDict, total=False):
    row_count: int | None
    filter: Filter | None
    in_lists: InLists | None
    top_n: TopN | None
    selection: Literal["none", "count", "bitmap", "ranges", "positions"]
    explain: bool


class InspectOptions(TypedDict, total=False):
    """Column types by name, and the range of vectors, hashes or blocks to show."""

    kind: Literal["file_index", "deletion_vectors", "hash", "btree", "bitmap"] | None
    types: Mapping[str, str] | None
    offset: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index file: a path relative to the warehouse, or its bytes. Answers repeat ``name``."""

    path: str | None = None
    content: bytes | None = None
    name: str | None = None
