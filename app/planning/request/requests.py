"""What is asked of the planner: plain values, no HTTP and no storage.

Everything here is frozen. What is answered stands in :mod:`app.planning.plan.answers`. Filters are as
callers give them; :func:`read_filter` binds them to columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.planning.request.limits import Limits
from app.predicates.binding.binding import bind
from app.predicates.binding.names import Relation
from app.predicates.json_reader import read_json_filter, read_lists
from app.predicates.model import ALWAYS_TRUE, BoundPredicate, Unknown, leaves
from app.predicates.sql.reader import read_sql
from app.predicates.unbound import And, FilterLimits, Predicate
from app.types import DataField, Json
from app.types.session_zone import SessionZone


class SelectionForm(StrEnum):
    """How a set of row positions is returned."""

    NONE = "none"
    COUNT = "count"
    BITMAP = "bitmap"
    RANGES = "ranges"
    POSITIONS = "positions"


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table as callers name it.

    Attributes:
        directory: where it lies in the warehouse, without a slash at the end; None is where its name puts it.
            Then the name is only what it is called.
    """

    warehouse: str
    database: str
    table: str
    directory: str | None = None


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
        filter: Spark SQL text, Paimon predicate JSON (already parsed), what a reader of another form has made
            of it, or None for no filter.
        in_lists: literals by column; a row has to have one of each list, too.
        alias: what the query calls the table; its columns may be qualified by it, and then not by the
            table's name.
        files: decide only these data file names.
        selection: NONE spares the work of computing positions.
        time_zone: the time zone of the caller's session; None is the service's default.
        budget_ms: for so long index files are read; files whose indexes were not read by then are kept. None
            leaves that to whoever asks the service. Without effect with ``explain`` and ``top_n``.
        deletions: the form in which deleted rows of kept files are told; NONE spares the reading of vectors.
        schemas: tell the schemas that the kept files were written with, and that of the version.
        totals: read every manifest, so that totals cover all files. Otherwise manifests are left out whose
            partitions the filter rules out; never with ``explain`` or ``files``.
    """

    selector: SnapshotSelector = SnapshotSelector()
    filter: str | Mapping[str, Json] | Predicate | None = None
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
    """Asks for deleted positions, or their number alone, of all partitions and files where none is named."""

    selector: SnapshotSelector = SnapshotSelector()
    partition: Mapping[str, Json] | None = None
    files: tuple[str, ...] | None = None
    count_only: bool = False
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class LookupRequest:
    """Asks for buckets of keys: exactly one of ``keys`` and ``hashes``.

    Attributes:
        keys: objects over the bucket key or primary key.
        hashes: signed 32-bit key hashes.
    """

    selector: SnapshotSelector = SnapshotSelector()
    partition: Mapping[str, Json] | None = None
    keys: tuple[Mapping[str, Json], ...] | None = None
    hashes: tuple[int, ...] | None = None
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class BucketsRequest:
    """Asks what buckets hold, of one partition or of all."""

    selector: SnapshotSelector = SnapshotSelector()
    partition: Mapping[str, Json] | None = None
    time_zone: str | None = None


@dataclass(frozen=True, slots=True)
class AssignRequest:
    """Asks which buckets a writer would assign; nothing is written."""

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


WITHOUT_TIME_ZONE: Final = (
    "a date or timestamp of the request depends on the session's time zone, or on rules of that zone, which "
    "are not known: all is kept that would match in some zone or by some rules; give time_zone, with the "
    "release of the reader's rules (America/Vancouver@2025a), to narrow the answer"
)
"""The warning of an answer whose filter needs a time zone, or rules of it, that nobody gave."""
_MOST_NOT_READ: Final = 20


def read_filter(
    written: str | Mapping[str, Json] | Predicate | None,
    fields: Sequence[DataField],
    limits: Limits,
    relation: Relation,
    zone: SessionZone | None,
    in_lists: Mapping[str, Json] | None = None,
) -> BoundPredicate:
    """The predicate that a filter and lists of values stand for; none is TRUE.

    Raises:
        FilterError: it cannot be read, or does not fit the columns.
        LimitExceededError: it is too large.
    """
    bounds = FilterLimits(limits.filter_depth, limits.filter_literals)
    parts: list[Predicate] = []
    if isinstance(written, str):
        parts.append(read_sql(written, bounds, zone))
    elif isinstance(written, Mapping):
        parts.append(read_json_filter(written, bounds))
    elif written is not None:
        parts.append(written)
    if in_lists:
        parts.append(read_lists(in_lists, bounds))
    if not parts:
        return ALWAYS_TRUE
    return bind(parts[0] if len(parts) == 1 else And(tuple(parts)), fields, relation, zone)


def filter_warnings(predicate: BoundPredicate) -> tuple[str, ...]:
    """What would narrow the answer: a time zone, and what to write instead of what is not decided."""
    unknown = [leaf for leaf in leaves(predicate) if isinstance(leaf, Unknown)]
    found = [WITHOUT_TIME_ZONE] if any(leaf.lacks_time_zone for leaf in unknown) else []
    return (*found, *_first([_undecided(leaf) for leaf in unknown if leaf.reason is not None]))


def _undecided(leaf: Unknown) -> str:
    place = "" if leaf.position is None else f" (at position {leaf.position})"
    return f"nothing is left out for {leaf.text}{place}: {leaf.reason}"


def _first(warnings: Sequence[str]) -> list[str]:
    """The first of warnings about conditions, each once, and how many more there are."""
    distinct = list(dict.fromkeys(warnings))
    left_out = len(distinct) - _MOST_NOT_READ
    if left_out <= 0:
        return distinct
    return [*distinct[:_MOST_NOT_READ], f"nothing is left out for {left_out} further conditions, likewise"]
