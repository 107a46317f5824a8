"""``POST .../deletions``: which rows of which files are deleted?"""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import DeletionsBody, JsonBody
from app.api.encoding import DeletionsPage, NextToken, encode_deletions
from app.api.openapi import operation
from app.api.paging import Window
from app.api.paths import TABLE
from app.api.runtime import Shared
from app.api.selections import SelectionEncoding
from app.api.tables import Table
from app.api.versioned import Question
from app.planning.request.requests import SelectionForm
from app.planning.version.version import Version

router = APIRouter(tags=["deletions"])


@router.post(TABLE + "/deletions", **operation(DeletionsPage, DeletionsBody))
async def deletions(
    request: Request,
    table: Table,
    body: Annotated[DeletionsBody, Depends(JsonBody(DeletionsBody))],
    runtime: Shared,
) -> Response:
    """List the deleted positions of data files."""
    question = Question(runtime, table, "deletions", body, request.headers.getlist("if-none-match"))
    deletions_request = body.to_request()
    form = SelectionEncoding(SelectionForm(body.encoding))

    def compute(version: Version, window: Window, token: NextToken) -> DeletionsPage:
        answer = runtime.service.deletions(version, deletions_request)
        return encode_deletions(answer, window, form, token)

    return await runtime.run(lambda: question.answer(compute))
