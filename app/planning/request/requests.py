"""What is asked of the planner: plain values, no HTTP and no storage.

Everything here is frozen. What is answered stands in :mod:`app.planning.plan.answers`. Filters are as
callers give them; :func:`read_filter` binds them to columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from app.errors import FilterError
from app.planning.request.limits import Limits
from app.predicates.binding.binding import bind
from app.predicates.binding.names import Relation
from app.predicates.json_reader import read_json_filter, read_lists
from app.predicates.model import ALWAYS_TRUE, BoundPredicate, Unknown, leaves
from app.predicates.sql.reader import read_sql
from app.predicates.unbound import And, FilterLimits, Predicate
from app.table.schema.schema import SchemaIds, TableSchema
from app.types import DataField, Json, TypeRoot, Value, parse_json
from app.types.json_values import parse_instants
from app.types.session_zone import Instants, SessionZone
from app.types.values import same_in_sql


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

    ``directory``: where it lies in the warehouse, without a slash at the end; None is where its name puts it.
    Then the name is only what it is called.
    """

    warehouse: str
    database: str
    table: str
    directory: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotSelector:
    """Which version of a table: at most one of the first three; none of them is the latest.

    ``schemas``: whose columns filters refer to, and whose options hold. None is the newest schema; where an
    older version is asked for, the columns are those of its snapshot. ``max_staleness_ms``: the latest may be
    the one that was the latest so many milliseconds ago; None leaves that to the service.
    """

    snapshot_id: int | None = None
    tag: str | None = None
    timestamp_millis: int | None = None
    branch: str | None = None
    schemas: SchemaIds | None = None
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
        selection: NONE spares the work of computing positions.
        budget_ms: for so long index files are read; files whose indexes were not read by then are kept. None
            leaves that to whoever asks the service. Without effect with ``explain`` and ``top_n``.
        deletions: the form in which deleted rows of kept files are told; NONE spares the reading of vectors.
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

    ``keys``: objects over the bucket key or primary key. ``hashes``: signed 32-bit key hashes.
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

    ``schema``: column name and type text of the data files. ``row_count``: rows of each data file, where the
    caller knows it.
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

    Raises FilterError: it cannot be read, or does not fit the columns. Raises LimitExceededError: it is too
    large.
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


def filter_warnings(*predicates: BoundPredicate) -> tuple[str, ...]:
    """What would narrow the answer: a time zone, and what to write instead of what is not decided."""
    unknown = [leaf for each in predicates for leaf in leaves(each) if isinstance(leaf, Unknown)]
    warnings = [WITHOUT_TIME_ZONE] if any(leaf.lacks_time_zone for leaf in unknown) else []
    return (*warnings, *_first([_undecided(leaf) for leaf in unknown if leaf.reason is not None]))


def _undecided(leaf: Unknown) -> str:
    place = "" if leaf.position is None else f" (at position {leaf.position})"
    return f"nothing is left out for {leaf.text}{place}: {leaf.reason}"


def _first(warnings: Sequence[str]) -> list[str]:
    distinct = list(dict.fromkeys(warnings))
    left_out = len(distinct) - _MOST_NOT_READ
    if left_out <= 0:
        return distinct
    return [*distinct[:_MOST_NOT_READ], f"nothing is left out for {left_out} further conditions, likewise"]


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """A value for each partition column; :class:`Instants` where a wall clock may be several of them."""

    fields: tuple[DataField, ...]
    values: tuple[Value | Instants | None, ...]

    @classmethod
    def read(cls, schema: TableSchema, written: Mapping[str, Json] | None, zone: SessionZone | None) -> Self:
        """The partition that a caller named, of a table with this schema.

        Raises FilterError: columns are missing, or too many, or a value does not fit.
        """
        fields = schema.partition_fields
        given = dict(written or {})
        if set(given) != {field.name for field in fields}:
            names = ", ".join(field.name for field in fields) or "no column"
            raise FilterError(
                f"a partition of this table is named by {names}, each with its value; "
                f"found {', '.join(given) or 'none'}"
            )
        return cls(tuple(fields), tuple(_read(given[field.name], field, zone) for field in fields))

    @property
    def exact(self) -> tuple[Value | None, ...]:
        """The values, where all of them are known. Raises FilterError: the time zone of one is not."""
        values: list[Value | None] = []
        for field, value in zip(self.fields, self.values, strict=True):
            if isinstance(value, Instants):
                raise FilterError(
                    f"{field.name} is an instant, and its value may be several of them: write it with an "
                    f"offset, such as 2025-08-01T12:30:00Z, or give time_zone, with the release of its rules",
                    column=field.name,
                )
            values.append(value)
        return tuple(values)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warning that a time zone would narrow the answer, if it would."""
        return (WITHOUT_TIME_ZONE,) if any(isinstance(value, Instants) for value in self.values) else ()

    def could_be(self, row: tuple[Value | None, ...]) -> bool:
        """Whether a table's partition holds these values, in SQL's sense; nulls are alike."""
        return all(
            _could_be(mine, named, field)
            for mine, named, field in zip(row, self.values, self.fields, strict=True)
        )


def _read(written: Json, field: DataField, zone: SessionZone | None) -> Value | Instants | None:
    try:
        if field.type.root is not TypeRoot.TIMESTAMP_LTZ or written is None:
            return parse_json(written, field.type)
        instants = parse_instants(written, field.type, zone)
    except FilterError as error:
        raise FilterError(str(error), column=field.name) from error
    return instants.low if instants.low == instants.high else instants


def _could_be(mine: Value | None, named: Value | Instants | None, field: DataField) -> bool:
    if mine is None or named is None:
        return mine is named
    if isinstance(named, Instants):
        return named.low <= int(mine) <= named.high
    return same_in_sql(field.type, mine, named)
