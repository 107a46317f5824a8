"""What may be asked, stated once for both clients: the keyword arguments of their methods.

``openapi.yaml`` of the service tells what each means. An argument that is left out or None is not sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Required, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

Filter: TypeAlias = "str | Mapping[str, Any]"
"""Spark SQL as after WHERE, or the JSON form of a Paimon predicate."""


InLists: TypeAlias = "Mapping[str, Sequence[Any] | pa.Array | pa.ChunkedArray]"
"""Values by column; Arrow arrays are sent as such, and pandas' and NumPy's after ``pa.array``."""


class VersionOptions(TypedDict, total=False):
    """Which version of a table: at most one of the first three; none of them is the latest.

    ``location`` is the URL of the table's directory, below the warehouse's, where its name does not tell it.
    """

    snapshot_id: int | None
    tag: str | None
    timestamp_millis: int | None
    branch: str | None
    max_staleness_ms: int | None
    location: str | None


class SortKey(TypedDict, total=False):
    """One key of ORDER BY; ``column`` is needed."""

    column: str
    direction: Literal["asc", "desc"]
    nulls: Literal["first", "last"]


class TopN(TypedDict):
    """ORDER BY ... LIMIT."""

    order_by: Sequence[SortKey]
    limit: int


class PlanOptions(VersionOptions, total=False):
    """What a plan is asked.

    ``files`` decides only these, ``uris`` makes paths absolute, ``totals`` reads every manifest, even those
    whose partitions the filter rules out. ``deletions`` tells deleted rows of each file, ``schemas`` those
    that files were written with. With ``in_lists`` a row has to have one of the values of each list
    in the list's column, too.
    """

    filter: Filter | None
    in_lists: InLists | None
    alias: str | None
    selection: Literal["none", "count", "bitmap", "ranges", "positions"]
    explain: bool
    files: Sequence[str] | None
    top_n: TopN | None
    limit: int | None
    time_zone: str | None
    uris: bool
    budget_ms: int | None
    deletions: Literal["none", "bitmap", "ranges", "positions"]
    schemas: bool
    totals: bool


class DeletionsOptions(VersionOptions, total=False):
    partition: Mapping[str, Any] | None
    files: Sequence[str] | None
    encoding: Literal["positions", "ranges", "bitmap", "count"]
    time_zone: str | None


class BucketsOptions(VersionOptions, total=False):
    partition: Mapping[str, Any] | None
    time_zone: str | None


class LookupOptions(BucketsOptions, total=False):
    """Exactly one of ``keys`` (values by primary key column) and ``hashes`` (signed 32-bit numbers)."""

    keys: Sequence[Mapping[str, Any]] | None
    hashes: Sequence[int] | None


class AssignOptions(LookupOptions, total=False):
    assign_id: int
    num_assigners: int
    num_channels: int


class AdviceOptions(VersionOptions, total=False):
    """Which version, and of how many data files the index heads are read at most."""

    files: int


class AggregateFunction(TypedDict, total=False):
    """A function, such as ``sum``, of a column; ``count`` without one is of rows.

    The service refuses ``count_distinct``, which Spark computes of the rows.
    """

    function: Required[Literal["count", "count_distinct", "min", "max", "sum"]]
    column: str | None


class AggregateOptions(VersionOptions, total=False):
    """Which aggregates of which rows; ``group_by`` names one column whose values are counted."""

    filter: Filter | None
    alias: str | None
    aggregates: Sequence[AggregateFunction] | None
    group_by: Sequence[str]
    top: int
    time_zone: str | None


class ChangesOptions(VersionOptions, total=False):
    """Changes from and up to which version, and of which files; ``wait_seconds`` is for the next one."""

    from_token: str | None
    filter: Filter | None
    alias: str | None
    time_zone: str | None
    uris: bool
    wait_seconds: float


class WhatIfOptions(VersionOptions, total=False):
    """What indexes are tried on.

    ``files`` are tried for each filter, at most ``bytes`` of data files are read, and ``seed`` chooses them.
    """

    filters: Required[Sequence[Filter]]
    files: int
    bytes: int
    seed: int
    time_zone: str | None


class ProposedIndex(TypedDict, total=False):
    """An index to try: its column, its kind as ``index``, and its options by their last names."""

    column: Required[str]
    index: Required[str]
    options: Mapping[str, str]


class EvaluateOptions(TypedDict, total=False):
    row_count: int | None
    filter: Filter | None
    in_lists: InLists | None
    alias: str | None
    top_n: TopN | None
    selection: Literal["none", "count", "bitmap", "ranges", "positions"]
    explain: bool
    time_zone: str | None


class InspectOptions(TypedDict, total=False):
    """How an index file is shown: column types by name, and which vectors, hashes or blocks."""

    kind: Literal["file_index", "deletion_vectors", "hash", "btree", "bitmap"] | None
    types: Mapping[str, str] | None
    offset: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index file: a path relative to the warehouse, or its bytes; the answer calls it ``name``."""

    path: str | None = None
    content: bytes | None = None
    name: str | None = None
