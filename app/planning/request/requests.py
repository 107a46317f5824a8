"""What is asked of the planner: plain values, no HTTP and no storage.

Everything here is frozen. What is answered stands in :mod:`app.planning.plan.answers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from app.types import Json


class SelectionForm(StrEnum):
    """How a set of row positions is returned."""

    NONE = "none"
    COUNT = "count"
    BITMAP = "bitmap"
    RANGES = "ranges"
    POSITIONS = "positions"


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table as callers name it."""

    warehouse: str
    database: str
    table: str


@dataclass(frozen=True, slots=True)
class SnapshotSelector:
    """Which version of a table: at most one of the first three; none of them is the latest.

    Attributes:
        schema_id: filters refer to this schema; None is the newest one, or that of the version where an older
            one is asked for.
        max_staleness_ms: the latest may be the one that was the latest so many milliseconds ago; None leaves
            that to the service.
    """

    snapshot_id: int | None = None
    tag: str | None = None
    timestamp_millis: int | None = None
    branch: str | None = None
    schema_id: int | None = None
    max_staleness_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of ORDER BY."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class TopN:
    """``ORDER BY order_by LIMIT limit``."""

    order_by: tuple[SortKey, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Asks which files of a table a query reads.

    Attributes:
        filter: Spark SQL text, Paimon predicate JSON (already parsed), or None for no filter.
        in_lists: literals by column, as a JSON array or ``{"$arrow": ".."}``; a row has to have one of each
            list, too.
        alias: what the query calls the table; its columns may be qualified by it, and then not by the
            table's name.
        files: decide only these data file names.
        selection: NONE spares the work of computing positions.
        explain: record every step that was tried, for kept and skipped files.
        time_zone: the time zone of the caller's session; None is the service's default.
        uris: paths are absolute URIs.
        budget_ms: for so long index files are read; files whose indexes were not read by then are kept. None
            leaves that to whoever asks the service. Without effect with ``explain`` and ``top_n``.
        deletions: the form in which deleted rows of kept files are told; NONE spares the reading of vectors.
        schemas: tell the schemas that the kept files were written with, and that of the version.
        totals: read every manifest, so that totals cover all files. Otherwise manifests are left out whose
            partitions the filter rules out; never with ``explain`` or ``files``.
    """

    selector: SnapshotSelector = SnapshotSelector()
    filter: str | Mapping[str, Json] | None = None
    in_lists: Mapping[str, Json] | None = None
    alias: str | None = None
    files: tuple[str, ...] | None = None
    top_n: TopN | None = None
    limit: int | None = None
    selection: SelectionForm = SelectionForm.BITMAP
    explain: bool = False
    time_zone: str | None = None
    uris: bool = False
    budget_ms: int | None = None
    deletions: SelectionForm = SelectionForm.NONE
    schemas: bool = False
    totals: bool = False

    @property
    def reads_everything(self) -> bool:
        """Whether the answer is about every manifest, whatever the filter rules out."""
        return self.totals or self.explain or self.files is not None


@dataclass(frozen=True, slots=True)
class DeletionsRequest:
    """Asks for deleted positions.

    Attributes:
        partition: typed JSON by partition column, or None for every partition.
        files: data file names, or None for every file that has a vector.
        count_only: positions are not wanted; the cardinality comes from the manifest where it tells.
        time_zone: the time zone of the caller's session; None is the service's default.
    """

    selector: SnapshotSelector = SnapshotSelector()
    partition: Mapping[str, Json] | None = None
    files: tuple[str, ...] | None = None
    count_only: bool = False
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class LookupRequest:
    """Asks for buckets of keys: exactly one of ``keys`` and ``hashes``.

    Attributes:
        partition: typed JSON by partition column; None or empty for tables without partitions.
        keys: objects over the bucket key or primary key.
        hashes: signed 32-bit key hashes.
        time_zone: the time zone of the caller's session; None is the service's default.
    """

    selector: SnapshotSelector = SnapshotSelector()
    partition: Mapping[str, Json] | None = None
    keys: tuple[Mapping[str, Json], ...] | None = None
    hashes: tuple[int, ...] | None = None
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class BucketsRequest:
    """Asks what buckets hold.

    Attributes:
        partition: typed JSON by partition column, or None for every partition.
        time_zone: the time zone of the caller's session; None is the service's default.
    """

    selector: SnapshotSelector = SnapshotSelector()
    partition: Mapping[str, Json] | None = None
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class AssignRequest:
    """Asks which buckets a writer would assign; nothing is written.

    Attributes:
        lookup: the keys or hashes, the partition and the snapshot.
    """

    lookup: LookupRequest
    assign_id: int = 0
    num_assigners: int = 1
    num_channels: int = 1


@dataclass(frozen=True, slots=True)
class IndexFileRef:
    """An index file on its own: a path in the warehouse, or its bytes with a name."""

    path: str | None = None
    content: bytes | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """Asks a filter of index files without a table.

    Attributes:
        schema: column name and type text of the data files.
        row_count: rows of each data file, where the caller knows it.
        in_lists: see :class:`PlanRequest`.
        time_zone: the time zone of the caller's session; None is the service's default.
        alias: what columns may be qualified by.
    """

    schema: tuple[tuple[str, str | Mapping[str, Json]], ...]
    files: tuple[IndexFileRef, ...]
    row_count: int | None = None
    filter: str | Mapping[str, Json] | None = None
    in_lists: Mapping[str, Json] | None = None
    alias: str | None = None
    top_n: TopN | None = None
    explain: bool = False
    time_zone: str | None = None
