"""``POST .../changes``: which files came and went between two versions, after a filter."""

from __future__ import annotations

import asyncio
import time
from itertools import chain
from typing import Annotated, Final

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

_LOOK_SECONDS: Final = 1.0
"""Between two looks for a newer snapshot while somebody waits."""


@router.post(TABLE + "/changes", **operation(ChangesAnswer, ChangesBody))
async def changes(
    request: Request,
    table: Table,
    body: Annotated[ChangesBody, Depends(JsonBody(ChangesBody))],
    runtime: Shared,
) -> Response:
    """Tell the files that came and went since a snapshot; waits for some if asked to."""
    wanted, until = body.to_request(), time.monotonic() + body.wait_seconds

    def compute() -> tuple[bool, bytes]:
        found = runtime.service.changes(table, body.from_snapshot_id, wanted)
        count = len(found.added.files) + len(found.removed.files)
        if count > runtime.settings.page_size_max:
            raise LimitExceededError(
                f"{count} files came or went, and one answer has at most {runtime.settings.page_size_max}: "
                "ask from a later snapshot, or with a filter",
                limit=runtime.settings.page_size_max,
            )
        with during(Phase.ENCODE):
            return count > 0, _written(body.from_snapshot_id, found)

    while True:
        has_changed, content = await runtime.run(compute)
        if has_changed or time.monotonic() >= until or await request.is_disconnected():
            return Response(content, media_type="application/json")
        await asyncio.sleep(min(_LOOK_SECONDS, max(0.0, until - time.monotonic())))


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
