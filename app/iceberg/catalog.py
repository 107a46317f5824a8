"""Tables and plans as Iceberg's clients ask for them, of one :class:`app.planning.service.IndexService`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import orjson

from app.errors import NotFoundError, PathNotAllowedError, SnapshotExpiredError
from app.iceberg.changes import appended_files
from app.iceberg.columns import ReadColumns
from app.iceberg.expressions import read_expression
from app.iceberg.metadata import TableState
from app.iceberg.name_mapping import NameMapping
from app.iceberg.plan_tokens import LONGEST_ID, PlanQuestion, PlanToken
from app.iceberg.read_optimized import age, read_optimized
from app.iceberg.refusals import check_table, compacted
from app.iceberg.tasks import TaskWriter
from app.planning.plan.answers import Plan
from app.planning.request.limits import Limits
from app.planning.request.requests import PlanRequest, SelectionForm, SnapshotSelector, TableRef
from app.planning.service import IndexService
from app.planning.version.descriptions import Snapshot
from app.planning.version.version import Version
from app.predicates.unbound import FilterLimits
from app.table.references import MOST_READS
from app.table.schema.schema import TableSchema
from app.types import Json

_NAME: Final = re.compile(r"([^$]+)(?:\$branch_([^$]+))?(\$ro)?")
_LATEST: Final = SnapshotSelector()
_TASK_BYTES: Final = 1 << 20
_SPARE: Final = 8
"""One part in so many is left of a part of a plan, since its files may have longer names."""
_TOO_LONG: Final = "-"
"""The id of a plan whose question does not fit the path of a request; nobody needs it."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """What is asked of tables.

    Attributes:
        service: knows them.
        limits: how large filters may be.
        budget_ms: how long a plan may read index files.
        millis: whether the client reads timestamps in milliseconds right.
        vectors: whether it reads deletion vectors as the engine stores them.
    """

    service: IndexService
    limits: Limits
    budget_ms: int
    millis: bool = False
    vectors: bool = True

    def load_table(self, named: TableRef, *, referenced_only: bool) -> dict[str, Json]:
        """The metadata of a table, see :meth:`app.iceberg.metadata.TableState.json`.

        Raises:
            NotFoundError: there is no such table.
            UnsupportedFormatError: no client could read it right.
        """
        name, version = TableName.of(named), self._resolve(named)
        check_table(version.schema, millis=self.millis)
        schemas = [schema for schema in _schemas(version) if schema.id <= version.schema_id]
        properties = {
            "schema.name-mapping.default": orjson.dumps(NameMapping.of(reversed(schemas)).json()).decode(),
            **({} if version.schema.comment is None else {"comment": version.schema.comment}),
            **(self.service.ask(version, age) if name.read_optimized else {}),
        }
        state = TableState(version, schemas, self._snapshots(name, version), self._tags(name))
        return state.json(properties, referenced_only=referenced_only, millis=self.millis)

    def check_table(self, named: TableRef) -> None:
        """Looks whether a table is there.

        Raises:
            NotFoundError: it is not.
        """
        self._resolve(named)

    def plan(self, named: TableRef, question: PlanQuestion) -> dict[str, Json]:
        """The first tasks of a plan, and tokens for the others.

        Raises:
            NotFoundError: there is no such table or snapshot.
            FilterError: the filter does not fit the table.
            UnsupportedFormatError: clients would not read the table, or a file of the plan, right.
        """
        version = self._version(named, question)
        return self._answer(named, version, PlanToken.of(question, version), is_first=True)

    def fetch_plan(self, named: TableRef, plan_id: str) -> dict[str, Json]:
        """The same once more.

        Raises:
            NotFoundError: no such plan was made here, or its snapshot is gone.
        """
        token = PlanToken.read(plan_id, named, LONGEST_ID)
        return self._answer(named, self._version_of(named, token), token, is_first=True)

    def fetch_tasks(self, named: TableRef, plan_task: str) -> dict[str, Json]:
        """The tasks of a part of a plan.

        Raises:
            NotFoundError: no such plan was made here, or its snapshot is gone.
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
            table = TableName.of(named).table
            appended = appended_files(self.service, table, version, question.start_snapshot_id)
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
            # Whatever version is read, clients have the mapping of the latest one.
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
            answer |= {"status": "completed", "plan-id": plan_id if len(plan_id) <= LONGEST_ID else _TOO_LONG}
        return answer

    def _version(self, named: TableRef, question: PlanQuestion) -> Version:
        """The version that a question is about."""
        if question.snapshot_id is None:
            return self._resolve(named)
        selector = SnapshotSelector(question.snapshot_id)
        if not question.use_snapshot_schema:
            selector = replace(selector, schema_id=self._resolve(named).schema_id)
        try:
            return self._resolve(named, selector)
        except NotFoundError:
            # A tag keeps its snapshot where no snapshot of that number is left.
            for tag, snapshot in self._tags(TableName.of(named)).items():
                if snapshot.id == question.snapshot_id:
                    return self._resolve(named, replace(selector, snapshot_id=None, tag=tag))
            raise

    def _version_of(self, named: TableRef, token: PlanToken) -> Version:
        """Exactly the version of a token, whatever has been committed since."""
        number = token.snapshot if token.tag is None else None
        selector = SnapshotSelector(number, token.tag, schema_id=token.schema)
        try:
            found = self._resolve(named, selector)
        except (NotFoundError, PathNotAllowedError):
            found = None
        if found is None or not token.is_of(found):
            raise SnapshotExpiredError(f"snapshot {token.snapshot}, which was planned, is gone: plan again")
        return found

    def _resolve(self, named: TableRef, selector: SnapshotSelector = _LATEST) -> Version:
        """A version of a table or branch; of ``table$ro`` as that has it."""
        name = TableName.of(named)
        version = self.service.resolve(name.table, replace(selector, branch=name.branch))
        if not name.read_optimized:
            return version
        newest = self.service.resolve(name.table, SnapshotSelector(branch=name.branch))
        return read_optimized(version, newest.schema)

    def _snapshots(self, name: TableName, version: Version) -> list[Snapshot]:
        """The newest snapshots, ascending."""
        if version.snapshot_id is None:
            return []
        after = version.snapshot_id - MOST_READS
        found, _ = self.service.snapshots(name.table, name.branch, after)
        return [each for each in found if each.id <= version.snapshot_id]

    def _tags(self, name: TableName) -> Mapping[str, Snapshot]:
        tags: dict[str, Snapshot] = {}
        after: str | None = None
        while True:
            found, after = self.service.tags(name.table, name.branch, after)
            tags |= {each.name: each.snapshot for each in found}
            if after is None:
                return tags


@dataclass(frozen=True, slots=True)
class TableName:
    """A name of a table as the engine writes it, such as ``table$branch_b1$ro``.

    Attributes:
        table: the table alone.
        branch: None for the main one.
        read_optimized: whether only what full compactions made of it is wanted.
    """

    table: TableRef
    branch: str | None
    read_optimized: bool

    @classmethod
    def of(cls, named: TableRef) -> Self:
        """The parts of a name; what has not its form is a table alone."""
        match = _NAME.fullmatch(named.table)
        table, branch, suffix = match.groups() if match else (named.table, None, None)
        return cls(replace(named, table=table), branch, suffix is not None)


def _schemas(version: Version) -> Iterator[TableSchema]:
    """The schemas of a version's branch, ascending."""
    return map(version.file_schema, version.table.schema_ids(version.resolved.branch))


def _read_in(version: Version, question: PlanQuestion) -> list[TableSchema]:
    """The schemas that clients read files in: that of the snapshot, or the one that is planned in."""
    snapshot = version.resolved.snapshot
    if question.snapshot_id is None or snapshot is None or snapshot.schema_id == version.schema_id:
        return [version.schema]
    return [version.schema, version.file_schema(snapshot.schema_id)]


def _columns(version: Version, question: PlanQuestion) -> ReadColumns:
    """The columns of the schemas in which a filter may have been written.

    A client that loaded the table before its newest schema was made has one of those in between.
    """
    schemas = _read_in(version, question)
    if len(schemas) > 1:
        newest, oldest = (schema.id for schema in schemas)
        numbers = version.table.schema_ids(version.resolved.branch)
        schemas += [version.file_schema(number) for number in numbers if oldest < number < newest]
    return ReadColumns.of(schemas, case_sensitive=question.case_sensitive)


def _plan_tasks(named: TableRef, parts: list[PlanToken]) -> list[Json]:
    """Tokens of all parts, or where a long filter stands in each, of one that goes on with all of them."""
    if not parts:
        return []
    first = parts[0].write(named)
    if len(first) * len(parts) > _TASK_BYTES:
        return [replace(parts[0], end=parts[-1].end).write(named)]
    return [first, *(part.write(named) for part in parts[1:])]


def _part(plan: Plan, token: PlanToken) -> tuple[int, int]:
    """The positions in a plan where a part begins and ends: another plan may keep more or fewer files."""
    units = plan.files.units
    stop = len(units) if token.end is None else int(np.searchsorted(units, token.end))
    return int(np.searchsorted(units, token.begin)), stop


def _parts(plan: Plan, token: PlanToken, start: int, stop: int, count: int) -> Iterator[PlanToken]:
    """The parts of a plan from ``start`` to ``stop`` with about ``count`` files each.

    Files of a plan that clients can read belong together with no others, so that each begins a unit.
    """
    units, step = plan.files.units, max(1, count - count // _SPARE)
    for begin in range(start, stop, step):
        end = begin + step
        yield replace(token, begin=int(units[begin]), end=int(units[end]) if end < stop else token.end)
