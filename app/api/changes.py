"""``POST .../changes``: which files came and went between two versions, after a filter."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Annotated

import orjson
import pyarrow as pa
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import JsonBody
from app.api.change_bodies import ChangesBody
from app.api.documents import ChangesAnswer
from app.api.openapi import operation
from app.api.paths import TABLE, Table
from app.api.plan_rows import plan_rows
from app.api.runtime import Shared
from app.api.selections import SelectionEncoding
from app.api.strict_json import write_json
from app.errors import LimitExceededError
from app.observation import Phase, during
from app.planning.changes import Changes
from app.planning.plan.answers import Plan
from app.planning.request.requests import SelectionForm

router = APIRouter(tags=["planning"])


@router.post(TABLE + "/changes", **operation(ChangesAnswer, ChangesBody))
async def changes(
    request: Request,
    table: Table,
    body: Annotated[ChangesBody, Depends(JsonBody(ChangesBody))],
    runtime: Shared,
) -> Response:
    """Tell the files that came and went since a snapshot; waits for some if asked to."""
    wanted, until = body.to_request(), time.monotonic() + body.wait_seconds

    def identity() -> str:
        return runtime.service.resolve(table, wanted.selector).identity

    def compute() -> tuple[bool, str, bytes]:
        # A commit that comes between this and the answer is looked at once more.
        seen = identity() if body.wait_seconds else ""
        found = runtime.service.changes(table, body.from_snapshot_id, wanted)
        count = len(found.added.files) + len(found.removed.files)
        if count > runtime.settings.page_size_max:
            raise LimitExceededError(
                f"{count} files came or went, and one answer has at most {runtime.settings.page_size_max}: "
                "ask from a later snapshot, or with a filter",
                limit=runtime.settings.page_size_max,
            )
        with during(Phase.ENCODE):
            return count > 0, seen, _written(body.from_snapshot_id, found)

    if not body.wait_seconds:
        return _answer((await runtime.run(compute))[-1])
    # It is for all who wait, whoever of them goes away.
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
                    latest = await runtime.looks.identity((table, wanted.selector), look)


def _answer(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _written(from_snapshot_id: int, found: Changes) -> bytes:
    return write_json(
        {
            "from_snapshot_id": from_snapshot_id,
            "snapshot_id": found.added.snapshot_id,
            "added": _files(found.added),
            "removed": _files(found.removed),
            "warnings": list(dict.fromkeys((*found.added.warnings, *found.removed.warnings))),
        }
    )


def _files(plan: Plan) -> list[orjson.Fragment]:
    rows = plan_rows(plan, SelectionEncoding(SelectionForm.COUNT))
    written = chain.from_iterable(each.cast(pa.large_binary()).to_pylist() for each in rows)
    return [orjson.Fragment(each) for each in written]
