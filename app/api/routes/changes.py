"""``POST .../changes``: files that came and went between two versions, after a filter."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Annotated, Any

import orjson
import pyarrow as pa
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.paging import PageToken
from app.api.answers.plan_rows import PlannedFile, plan_rows
from app.api.answers.selections import SelectionEncoding
from app.api.answers.versioned import same_version, version_key
from app.api.http.paths import TABLE
from app.api.http.strict_json import write_json
from app.api.openapi import operation
from app.api.questions.bodies import ChangesBody, JsonBody
from app.api.questions.queries import LocatedTable
from app.api.runtime import Runtime, Shared
from app.described import DESCRIBED
from app.errors import LimitExceededError, PageTokenError, SnapshotExpiredError
from app.observation import Phase, during
from app.planning import PlanChanges, Version
from app.planning.buckets import SnapshotId
from app.planning.plan import Plan
from app.planning.request import PlanRequest, SelectionForm, SnapshotSelector, TableRef
from app.table import TableSchema
from app.types.digest import request_digest

router = APIRouter(tags=["planning"])


@dataclass(frozen=True, slots=True)
class ChangesAnswer:
    """Files that came and went between two versions."""

    __pydantic_config__ = DESCRIBED

    from_snapshot_id: SnapshotId
    snapshot_id: SnapshotId
    schema_id: int
    """Schema of the later version, whose columns the filter refers to."""
    next_from_token: str | None
    """Value of from_token for the next request; null for a table without snapshots."""
    added: Sequence[PlannedFile]
    """Files that came, as a plan of the later version gives them."""
    removed: Sequence[PlannedFile]
    """Files that went, as a plan of the earlier version gives them."""
    warnings: Sequence[str]


@router.post(TABLE + "/changes", **operation(ChangesAnswer, ChangesBody))
async def changes(
    request: Request,
    table: LocatedTable,
    body: Annotated[ChangesBody, Depends(JsonBody(ChangesBody))],
    runtime: Shared,
) -> Response:
    """List the files that came and went since a version. Wait for changes on request."""
    selector, until = body.selector, time.monotonic() + body.wait_seconds
    plan_request = PlanRequest.like(body, selection=SelectionForm.COUNT)

    def identity() -> str:
        return runtime.service.resolve(table, selector).identity

    def compute() -> tuple[bool, str, bytes]:
        after = runtime.service.resolve(table, selector)
        before = _earlier(runtime, table, body, after)
        differences = runtime.service.changes(before, after, plan_request)
        count = len(differences.added.files) + len(differences.removed.files)
        if count > runtime.settings.page_size_max:
            raise LimitExceededError(
                f"{count} files came or went, and one answer lists at most {runtime.settings.page_size_max}: "
                "ask from a later snapshot, or with a filter",
                limit=runtime.settings.page_size_max,
            )
        with during(Phase.ENCODE):
            return count > 0, after.identity, _written(differences, _next_token(table, body, after))

    if not body.wait_seconds:
        return _answer((await runtime.run(compute))[-1])
    # One poll serves all waiting callers, so it must outlive the request that started it.
    look = partial(runtime.for_nobody().run, identity, is_begun=True)
    while True:
        async with runtime.looks.turn(runtime.bulkhead, runtime.settings.deadline_seconds):
            has_changed, seen, content = await runtime.run(compute)
        latest = seen
        while latest == seen:
            if has_changed or time.monotonic() >= until or await request.is_disconnected():
                return _answer(content)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + until - time.monotonic()):
                    latest = await runtime.looks.identity((table, selector), look)


def _answer(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _earlier(runtime: Runtime, table: TableRef, body: ChangesBody, after: Version) -> Version:
    if body.from_snapshot_id is not None:
        named = SnapshotSelector(body.from_snapshot_id, branch=body.branch)
        return runtime.service.resolve(table, named)
    if body.from_token is None:
        return after
    try:
        key = PageToken.read(body.from_token, _about(table, body)).version
    except PageTokenError as error:
        raise PageTokenError(
            "from_token was not given with changes of this table and branch: send next_from_token back as it "
            "was given, or start again without it"
        ) from error
    version = same_version(runtime, table, SnapshotSelector(key.snapshot_id, branch=body.branch), key)
    if version is None:
        raise SnapshotExpiredError(
            f"snapshot {key.snapshot_id}, from which changes continue, is gone: it expired, or the table "
            f"was rolled back or recreated. Start again without from_token, and plan the table again"
        )
    if body.filter is not None and (name := _other_column(version.schema, after.schema)) is not None:
        # Files that the filter excluded before may have matching rows now, though none came or went.
        raise SnapshotExpiredError(
            f"{name!r} is another column or of another type than in the version of from_token, so that the "
            f"filter means other files. Start again without from_token, and plan the table again"
        )
    return version


def _other_column(before: TableSchema, after: TableSchema) -> str | None:
    """Return a name that two schemas give to columns of different id or type.

    Return None if there is none.
    """
    for column in after.fields:
        old = before.by_name.get(column.name)
        if old is not None and (old.id, replace(old.type, nullable=True)) != (
            column.id,
            replace(column.type, nullable=True),
        ):
            return column.name
    return None


def _next_token(table: TableRef, body: ChangesBody, after: Version) -> str | None:
    if after.snapshot_id is None:
        return None
    return PageToken(version_key(after), 0).write(_about(table, body))


def _about(table: TableRef, body: ChangesBody) -> bytes:
    return request_digest("changes", table, body.branch)


def _written(changes: PlanChanges, next_token: str | None) -> bytes:
    return write_json(
        ChangesAnswer(
            changes.removed.snapshot_id,
            changes.added.snapshot_id,
            changes.added.schema_id,
            next_token,
            _files(changes.added),
            _files(changes.removed),
            tuple(dict.fromkeys((*changes.added.warnings, *changes.removed.warnings))),
        )
    )


def _files(plan: Plan) -> list[Any]:
    rows = plan_rows(plan, SelectionEncoding(SelectionForm.COUNT))
    written = chain.from_iterable(batch.cast(pa.large_binary()).to_pylist() for batch in rows)
    return [orjson.Fragment(row) for row in written]
