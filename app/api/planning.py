"""``POST .../plan``: which files, and which of their rows, does a query read?"""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import PlanBody
from app.api.documents import PlanAnswer
from app.api.encoding import Entry, Form, NextToken, encode_plan
from app.api.json_body import JsonBody
from app.api.openapi import operation
from app.api.paging import Window
from app.api.paths import TABLE, Table
from app.api.runtime import Shared
from app.api.versioned import Question
from app.planning.version import Version

router = APIRouter(tags=["planning"])


@router.post(TABLE + "/plan", **operation(PlanAnswer, PlanBody))
async def plan(
    request: Request, table: Table, body: Annotated[PlanBody, Depends(JsonBody(PlanBody))], runtime: Shared
) -> Response:
    """Plan a scan: the files that a query reads, with the rows to read of each."""
    question = Question(runtime, table, "plan", body, request.headers.getlist("if-none-match"))
    asked = body.to_request()
    form = Form(asked.selection, runtime.settings.positions)

    def compute(version: Version, window: Window, token: NextToken) -> Entry:
        answer = runtime.service.plan_version(version, asked)
        return encode_plan(answer, window, form, token, explain=asked.explain)

    return await runtime.run(lambda: question.answer(compute))
