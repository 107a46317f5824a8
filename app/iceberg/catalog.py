"""Tables and plans as Iceberg's clients ask for them, of one :class:`app.planning.service.IndexService`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import orjson

from app.errors import NotFoundError, SnapshotExpiredError
from app.iceberg.expressions import read_expression
from app.iceberg.metadata import TableState
from app.iceberg.name_mapping import NameMapping
from app.iceberg.plan_tokens import LONGEST_ID, PlanQuestion, PlanToken
from app.iceberg.refusals import changes, check_table
from app.iceberg.tasks import TaskWriter, statistics_fields
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

_BRANCH: Final = "$branch_"
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
    """

    service: IndexService
    limits: Limits
    budget_ms: int
    millis: bool = False

    def load_table(self, named: TableRef, *, referenced_only: bool) -> dict[str, Json]:
        """The metadata of a table, see :meth:`app.iceberg.metadata.TableState.json`.

        Raises:
            NotFoundError: there is no such table.
            UnsupportedFormatError: no client could read it right.
        """
        table, branch = split_branch(named)
        version = self.service.resolve(table, SnapshotSelector(branch=branch))
        check_table(version.schema, millis=self.millis)
        schemas = list(_schemas(version))
        mapping = orjson.dumps(NameMapping.of(reversed(schemas)).json()).decode()
        state = TableState(version, schemas, self._snapshots(table, version), self._tags(table, branch))
        return state.json(mapping, referenced_only=referenced_only, millis=self.millis)

    def check_table(self, named: TableRef) -> None:
        """Looks whether a table is there.

        Raises:
            NotFoundError: it is not.
        """
        table, branch = split_branch(named)
        self.service.resolve(table, SnapshotSelector(branch=branch))

    def plan(self, named: TableRef, question: PlanQuestion) -> dict[str, Json]:
        """The first tasks of a plan, and tokens for the others.

        Raises:
            NotFoundError: there is no such table or snapshot.
            FilterError: the filter does not fit the table.
            UnsupportedFormatError: clients would not read the table, or a file of the plan, right.
        """
        if question.start_snapshot_id is not None:
            raise changes()
        return self._answer(named, PlanToken.of(question, self._version(named, question)), is_first=True)

    def fetch_plan(self, named: TableRef, plan_id: str) -> dict[str, Json]:
        """The same once more.

        Raises:
            NotFoundError: no such plan was made here, or its snapshot is gone.
        """
        return self._answer(named, PlanToken.read(plan_id, named), is_first=True)

    def fetch_tasks(self, named: TableRef, plan_task: str) -> dict[str, Json]:
        """The tasks of a part of a plan.

        Raises:
            NotFoundError: no such plan was made here, or its snapshot is gone.
        """
        return self._answer(named, PlanToken.read(plan_task, named), is_first=False)

    def _answer(self, named: TableRef, token: PlanToken, *, is_first: bool) -> dict[str, Json]:
        table, branch = split_branch(named)
        version = self._version_of(table, branch, token)
        check_table(version.schema, millis=self.millis)
        question = token.question
        expression = None
        if question.filter is not None:
            limits = FilterLimits(self.limits.filter_depth, self.limits.filter_literals)
            expression = read_expression(
                question.filter, version.schema, limits, case_sensitive=question.case_sensitive
            )
        predicate = None if expression is None else expression.predicate
        statistics = statistics_fields(
            question.statistics, version.schema, case_sensitive=question.case_sensitive
        )
        request = PlanRequest(
            filter=predicate,
            limit=question.min_rows if predicate is None else None,
            selection=SelectionForm.NONE,
            uris=True,
            totals=bool(statistics),
        )
        plan = self.service.plan(version, request, self.budget_ms)
        writer = TaskWriter(
            version=version,
            plan=plan,
            residual=b"true" if question.filter is None else orjson.dumps(question.filter),
            proven=expression is None or expression.exact,
            schemas=_read_in(version, question),
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
        table, branch = split_branch(named)
        newest = SnapshotSelector(branch=branch)
        if question.snapshot_id is None:
            return self.service.resolve(table, newest)
        selector = replace(newest, snapshot_id=question.snapshot_id)
        if not question.use_snapshot_schema:
            selector = replace(selector, schema_id=self.service.resolve(table, newest).schema_id)
        try:
            return self.service.resolve(table, selector)
        except NotFoundError:
            # A tag keeps its snapshot where no snapshot of that number is left.
            for tag, snapshot in self._tags(table, branch).items():
                if snapshot.id == question.snapshot_id:
                    return self.service.resolve(table, replace(selector, snapshot_id=None, tag=tag))
            raise

    def _version_of(self, table: TableRef, branch: str | None, token: PlanToken) -> Version:
        """Exactly the version of a token, whatever has been committed since."""
        by_number = token.tag is None and token.snapshot is not None
        selector = SnapshotSelector(
            snapshot_id=token.snapshot if by_number else None,
            tag=token.tag,
            branch=branch,
            schema_id=token.schema,
        )
        try:
            found = self.service.resolve(table, selector)
        except NotFoundError:
            found = None
        if found is None or not token.is_of(found):
            raise SnapshotExpiredError(f"snapshot {token.snapshot}, which was planned, is gone: plan again")
        return found

    def _snapshots(self, table: TableRef, version: Version) -> list[Snapshot]:
        """The newest snapshots, ascending."""
        if version.snapshot_id is None:
            return []
        after = version.snapshot_id - MOST_READS
        found, _ = self.service.snapshots(table, version.resolved.branch, after)
        return [each for each in found if each.id <= version.snapshot_id]

    def _tags(self, table: TableRef, branch: str | None) -> Mapping[str, Snapshot]:
        tags: dict[str, Snapshot] = {}
        after: str | None = None
        while True:
            found, after = self.service.tags(table, branch, after)
            tags |= {each.name: each.snapshot for each in found}
            if after is None:
                return tags


def split_branch(named: TableRef) -> tuple[TableRef, str | None]:
    """The table and branch of a name such as ``table$branch_b1``."""
    table, separator, branch = named.table.partition(_BRANCH)
    return (replace(named, table=table), branch) if separator else (named, None)


def _schemas(version: Version) -> Iterator[TableSchema]:
    """The schemas up to that of a version, ascending."""
    for number in version.table.schema_ids(version.resolved.branch):
        if number <= version.schema_id:
            yield version.file_schema(number)


def _read_in(version: Version, question: PlanQuestion) -> list[TableSchema]:
    """The schemas that clients read files in: some take that of the snapshot whatever they filter by."""
    snapshot = version.resolved.snapshot
    if question.snapshot_id is None or snapshot is None:
        return [version.schema]
    return [version.schema, version.file_schema(snapshot.schema_id)]


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
