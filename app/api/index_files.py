"""``/index-files``: index files on their own, without a table."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from app.api.access import Asking, check_path
from app.api.answer_headers import request_id_of
from app.api.bodies import JsonBody
from app.api.documents import Evaluation, Inspection
from app.api.encoding import encode_evaluation
from app.api.index_file_bodies import EvaluateBody, InspectBody
from app.api.openapi import operation
from app.api.paths import WarehouseName
from app.api.queries import InspectQuery
from app.api.runtime import Shared
from app.api.selections import SelectionEncoding
from app.errors import RequestError
from app.planning.request.requests import SelectionForm


async def _caller_names_paths(request: Request) -> None:
    request.state.path_was_named = True


router = APIRouter(
    prefix="/v1/{warehouse}/index-files", tags=["index files"], dependencies=[Depends(_caller_names_paths)]
)


@router.post("/evaluate", **operation(Evaluation, EvaluateBody))
async def evaluate(
    request: Request,
    warehouse: WarehouseName,
    body: Annotated[EvaluateBody, Depends(JsonBody(EvaluateBody))],
    runtime: Shared,
    caller: Asking,
) -> Response:
    """Ask a filter of index files: which of their data files can be skipped, which rows can match?"""
    for file in body.files:
        check_path(caller, warehouse, file.path)
    form = SelectionEncoding(SelectionForm(body.selection))
    instance = request_id_of(request)

    def compute() -> object:
        files = runtime.service.evaluate(warehouse, body.to_request())
        return encode_evaluation(files, form, body.row_count, instance)

    return await runtime.answer(compute)


@router.post("/inspect", **operation(Inspection, InspectBody))
async def inspect(
    warehouse: WarehouseName,
    query: Annotated[InspectQuery, Query()],
    body: Annotated[InspectBody, Depends(JsonBody(InspectBody))],
    runtime: Shared,
    caller: Asking,
) -> Response:
    """Show what is in an index file."""
    check_path(caller, warehouse, body.path)
    types, settings = query.types(), runtime.settings
    limit = settings.page_size if body.limit is None else body.limit
    if limit > settings.page_size_max:
        raise RequestError(f"limit is at most {settings.page_size_max}")
    entries = slice(body.offset, body.offset + limit)
    return await runtime.answer(
        lambda: runtime.service.inspect(warehouse, body.to_request(), body.kind, types, entries)
    )
