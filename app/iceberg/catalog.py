"""Answers Iceberg clients about tables and plans of one :class:`app.planning.service.IndexService`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Self

import numpy as np
import orjson

from app.errors import (
    NotFoundError,
    PathNotAllowedError,
    RequestError,
    SnapshotExpiredError,
    UnsupportedFormatError,
)
from app.iceberg.expressions import read_expression
from app.iceberg.field_ids import NameMapping
from app.iceberg.metadata import TableState
from app.iceberg.plan_tokens import LONGEST_ID, PlanQuestion, PlanToken
from app.iceberg.refusals import check_table, compacted, refusal
from app.iceberg.schema import ReadColumns
from app.iceberg.tasks import TaskWriter
from app.planning import IndexService, Version, missing_file_means_expired
from app.planning.plan import Plan
from app.planning.request import PlanRequest, SelectionForm, SnapshotSelector, TableRef
from app.planning.request.limits import Limits
from app.planning.version import Snapshot
from app.predicates.unbound import FilterLimits
from app.table import MOST_READS, SchemaIds, TableSchema
from app.table.manifests import FileKind
from app.types import Json

_NAME: Final = re.compile(r"([^$]+)(?:\$branch_([^$]+))?(\$ro)?")
_LATEST: Final = SnapshotSelector()
_ROWS_LEFT_OUT: Final = "paimon.read-optimized.rows-left-out"
_COMPACTED_AT: Final = "paimon.read-optimized.compacted-at"
_APPEND: Final = "APPEND"
# Commits that change no rows.
_REWRITES: Final = frozenset({"COMPACT", "ANALYZE"})
_TASK_BYTES: Final = 1 << 20
# Plan tasks shrink by one in this many files, because later files may have longer names.
_SPARE: Final = 8
# Id of a plan whose question is too long for the path of a request.
_PLAN_ID_OMITTED: Final = "-"


@dataclass(frozen=True, slots=True)
class IcebergCatalog:
    """Catalog as one client sees it.

    ``millis``: the client reads timestamps in milliseconds correctly. ``vectors``: it reads deletion vectors
    as the engine stores them.
    """

    service: IndexService
    limits: Limits
    budget_ms: int
    millis: bool = False
    vectors: bool = True

    def load_table(self, named: TableRef, *, referenced_only: bool) -> dict[str, Json]:
        """Return the metadata of a table.

        Raises UnsupportedFormatError if no client could read it correctly.
        """
        name, version = TableIdentifier.of(named), self._resolve(named)
        check_table(version.schema, millis=self.millis)
        with missing_file_means_expired(version):
            age = _age(version) if name.read_optimized else {}
        schemas = [schema for schema in _schemas(version) if schema.id <= version.schema_id]
        properties = {
            "schema.name-mapping.default": orjson.dumps(NameMapping.of(reversed(schemas)).json()).decode(),
            **({} if version.schema.comment is None else {"comment": version.schema.comment}),
            **age,
        }
        state = TableState(version, schemas, self._snapshots(name, version), self._tags(name))
        return state.json(properties, referenced_only=referenced_only, millis=self.millis)

    def check_table(self, named: TableRef) -> None:
        """Raise NotFoundError unless a table exists."""
        self._resolve(named)

    def plan(self, named: TableRef, question: PlanQuestion) -> dict[str, Json]:
        """Plan a scan: returns the first tasks, and tokens for the others.

        Raises FilterError if the filter does not fit the table. Raises UnsupportedFormatError if clients
        would misread the table, or a file of the plan.
        """
        version = self._version(named, question)
        return self._answer(named, version, PlanToken.of(question, version), is_first=True)

    def fetch_plan(self, named: TableRef, plan_id: str) -> dict[str, Json]:
        """Return a plan again. Raises NotFoundError if no such plan was made, or its snapshot is gone."""
        token = PlanToken.read(plan_id, named, LONGEST_ID)
        return self._answer(named, self._version_of(named, token), token, is_first=True)

    def fetch_tasks(self, named: TableRef, plan_task: str) -> dict[str, Json]:
        """Return tasks of a part of a plan.

        Raises NotFoundError if no such plan was made, or its snapshot is gone.
        """
        token = PlanToken.read(plan_task, named)
        return self._answer(named, self._version_of(named, token), token, is_first=False)

    def _answer(
        self, named: TableRef, version: Version, token: PlanToken, *, is_first: bool
    ) -> dict[str, Json]:
        check_table(version.schema, millis=self.millis)
        question = token.question
        columns = _columns(version, question)
        expression = None
        if question.filter is not None:
            limits = FilterLimits(self.limits.filter_depth, self.limits.filter_literals)
            expression = read_expression(json.loads(question.filter), columns, limits)
        predicate = None if expression is None else expression.predicate
        statistics = columns.listed(question.statistics)
        question = replace(question, statistics=tuple(field.name for field in statistics))
        token = replace(token, question=question)
        appended = None
        if question.start_snapshot_id is not None:
            table = TableIdentifier.of(named).table
            most = self.limits.files_named
            appended = _appended_files(self.service, table, version, question.start_snapshot_id, most)
        request = PlanRequest(
            filter=predicate,
            files=appended,
            limit=question.min_rows if predicate is None else None,
            selection=SelectionForm.NONE,
            uris=True,
            totals=bool(statistics),
        )
        plan = self.service.plan(version, request, self.budget_ms)
        if plan.unknown_files:
            raise compacted(len(plan.unknown_files))
        writer = TaskWriter(
            version=version,
            plan=plan,
            residual=b"true" if question.filter is None else question.filter.encode(),
            proven=expression is None or expression.exact,
            schemas=_read_in(version, question),
            newest_schema=version.schema_id if question.snapshot_id is None else None,
            vectors=self.vectors,
            # Clients have the mapping of the latest version, whichever one they read.
            mapping=lambda: NameMapping.of(reversed(list(_schemas(version)))),
            statistics=statistics,
        )
        writer.check()
        start, stop = _part(plan, token)
        written = writer.write(start, stop, _TASK_BYTES)
        answer: dict[str, Json] = {
            "delete-files": written.delete_files,
            "file-scan-tasks": written.tasks,
            "plan-tasks": _plan_tasks(
                named, list(_parts(plan, token, written.stop, stop, written.stop - start))
            ),
        }
        if is_first:
            plan_id = token.write(named)
            answer |= {
                "status": "completed",
                "plan-id": plan_id if len(plan_id) <= LONGEST_ID else _PLAN_ID_OMITTED,
            }
        return answer

    def _version(self, named: TableRef, question: PlanQuestion) -> Version:
        if question.snapshot_id is None:
            return self._resolve(named)
        selector = SnapshotSelector(question.snapshot_id)
        if not question.use_snapshot_schema:
            selector = replace(selector, schemas=self._resolve(named).schema.ids)
        try:
            return self._resolve(named, selector)
        except NotFoundError:
            # A tag keeps its snapshot after the snapshot of that number is gone.
            for tag, snapshot in self._tags(TableIdentifier.of(named)).items():
                if snapshot.id == question.snapshot_id:
                    return self._resolve(named, replace(selector, snapshot_id=None, tag=tag))
            raise

    def _version_of(self, named: TableRef, token: PlanToken) -> Version:
        number = token.snapshot if token.tag is None else None
        selector = SnapshotSelector(number, token.tag, schemas=SchemaIds(token.schema, token.options))
        try:
            version = self._resolve(named, selector)
        except (NotFoundError, PathNotAllowedError):
            version = None
        if version is None or not token.is_of(version):
            raise SnapshotExpiredError(f"snapshot {token.snapshot}, which was planned, is gone: plan again")
        return version

    def _resolve(self, named: TableRef, selector: SnapshotSelector = _LATEST) -> Version:
        name = TableIdentifier.of(named)
        version = self.service.resolve(name.table, replace(selector, branch=name.branch))
        return _read_optimized(version) if name.read_optimized else version

    def _snapshots(self, name: TableIdentifier, version: Version) -> list[Snapshot]:
        if version.snapshot_id is None:
            return []
        after = version.snapshot_id - MOST_READS
        snapshots, _ = self.service.tables.snapshots(name.table, name.branch, after)
        return [snapshot for snapshot in snapshots if snapshot.id <= version.snapshot_id]

    def _tags(self, name: TableIdentifier) -> Mapping[str, Snapshot]:
        tags: dict[str, Snapshot] = {}
        after: str | None = None
        while True:
            page, after = self.service.tables.tags(name.table, name.branch, after)
            tags |= {tag.name: tag.snapshot for tag in page}
            if after is None:
                return tags


@dataclass(frozen=True, slots=True)
class TableIdentifier:
    """Parts of a table name of the engine, such as ``table$branch_b1$ro``.

    ``read_optimized`` restricts the table to what full compactions have written.
    """

    table: TableRef
    branch: str | None
    read_optimized: bool

    @classmethod
    def of(cls, named: TableRef) -> Self:
        """Split a name. One of another form is a table alone."""
        match = _NAME.fullmatch(named.table)
        table, branch, suffix = match.groups() if match else (named.table, None, None)
        return cls(replace(named, table=table), branch, suffix is not None)


def _schemas(version: Version) -> Iterator[TableSchema]:
    return map(version.file_schema, version.table.schema_ids(version.resolved.branch))


def _read_in(version: Version, question: PlanQuestion) -> list[TableSchema]:
    """Return the schemas in which clients may read files: the plan's and the snapshot's."""
    snapshot = version.resolved.snapshot
    if question.snapshot_id is None or snapshot is None or snapshot.schema_id == version.schema_id:
        return [version.schema]
    return [version.schema, version.file_schema(snapshot.schema_id)]


def _columns(version: Version, question: PlanQuestion) -> ReadColumns:
    # A client that loaded the table before its newest schema was made may use a schema in between.
    schemas = _read_in(version, question)
    if len(schemas) > 1:
        newest, oldest = (schema.id for schema in schemas)
        numbers = version.table.schema_ids(version.resolved.branch)
        schemas += [version.file_schema(number) for number in numbers if oldest < number < newest]
    return ReadColumns.of(schemas, case_sensitive=question.case_sensitive)


def _plan_tasks(named: TableRef, parts: list[PlanToken]) -> list[Json]:
    """Return tokens of all parts, or one token that continues with all parts if they grow too large."""
    if not parts:
        return []
    first = parts[0].write(named)
    # Each token repeats the filter, which may be long.
    if len(first) * len(parts) > _TASK_BYTES:
        return [replace(parts[0], end=parts[-1].end).write(named)]
    return [first, *(part.write(named) for part in parts[1:])]


def _part(plan: Plan, token: PlanToken) -> tuple[int, int]:
    """Return the positions in a plan where a part begins and ends."""
    # Found by file numbers, since a plan made again may keep more or fewer files.
    units = plan.files.array("unit")
    stop = len(units) if token.end is None else int(np.searchsorted(units, token.end))
    return int(np.searchsorted(units, token.begin)), stop


def _parts(plan: Plan, token: PlanToken, start: int, stop: int, count: int) -> Iterator[PlanToken]:
    """Split a plan from ``start`` to ``stop`` into parts of about ``count`` files each."""
    # Files of a readable plan merge with no others, so each begins a unit.
    units, step = plan.files.array("unit"), max(1, count - count // _SPARE)
    for begin in range(start, stop, step):
        end = begin + step
        yield replace(token, begin=int(units[begin]), end=int(units[end]) if end < stop else token.end)


def _appended_files(
    service: IndexService, table: TableRef, version: Version, start: int, most: int
) -> tuple[str, ...]:
    """Name the data files appended after snapshot ``start``, up to and including a version.

    Stop at one more than ``most``, which the service then refuses.
    """
    schema, end = version.schema, version.snapshot_id
    if schema.primary_keys or schema.options.deletion_vectors:
        raise refusal(
            "the files of a table with a primary key or deletion vectors do not show which rows were added"
        )
    if end is None or not 0 <= end - start <= MOST_READS:
        raise RequestError(f"end-snapshot-id is start-snapshot-id or one of the {MOST_READS} that follow it")
    names: list[str] = []
    for number in range(start + 1, end + 1):
        one = service.resolve(table, SnapshotSelector(number, branch=version.resolved.branch))
        kind = "" if one.resolved.snapshot is None else one.resolved.snapshot.commit_kind
        if kind == _APPEND:
            with missing_file_means_expired(one):
                names += islice(_added(one), most + 1 - len(names))
        elif kind not in _REWRITES:
            raise _more_than_appending(number, kind)
    return tuple(names)


def _added(version: Version) -> Iterator[str]:
    metadata = version.table.metadata
    *_, delta = metadata.manifest_lists(version.resolved)
    for file in delta.manifests:
        manifest = metadata.manifest(file)
        if (manifest.kinds != FileKind.ADD).any():
            # Rows of files in a commit that also removes files may be old.
            raise _more_than_appending(version.snapshot_id, "an append that removes files")
        yield from map(manifest.file_name, range(len(manifest)))


def _more_than_appending(snapshot: int | None, kind: str) -> UnsupportedFormatError:
    return refusal(f"snapshot {snapshot} between the two is {kind}, which is more than appending rows")


def _read_optimized(version: Version) -> Version:
    """Restrict a version to the rows of ``table$ro``.

    A primary key table has only files of the top level, which need no merging: whatever was written to a
    bucket since its own full compaction is missing, deletions included. Other tables are read in full.
    """
    schema = version.schema
    return version.on_level(schema.options.top_level) if schema.primary_keys else version


def _age(version: Version) -> Mapping[str, str]:
    """Return properties of ``table$ro`` that state its age.

    Omitted rows are counted as files have them, each version and deletion of a row once. The time is the
    least recent full compaction among buckets with omitted rows, by the writer's clock, whose time zone is
    not recorded.
    """
    hidden = version.hidden_files()
    if hidden is None:
        return {_ROWS_LEFT_OUT: "0"}
    rows = {_ROWS_LEFT_OUT: str(int(hidden.columns.row_counts.sum()))}
    files = version.files()
    written = np.empty(len(files), np.int64)
    for number, part, entries in files.by_manifest(files.all()):
        written[part] = files.manifests[number].creation_times.values[entries]
    buckets, numbers = np.unique(files.columns.bucket_keys, return_inverse=True)
    newest = np.zeros(len(buckets), np.int64)
    np.maximum.at(newest, numbers, written)
    behind = np.unique(hidden.columns.bucket_keys)
    if not np.isin(behind, buckets).all():
        return {**rows, _COMPACTED_AT: "never"}
    oldest = int(newest[np.isin(buckets, behind)].min())
    # A writer may not have recorded it.
    return {**rows, _COMPACTED_AT: str(np.datetime64(oldest, "ms"))} if oldest else rows
