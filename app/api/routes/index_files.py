"""``/index-files``: index files on their own, without a table."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.encoding import Evaluation, encode_evaluation
from app.api.answers.selections import SelectionEncoding
from app.api.gate.access import CurrentCaller, check_path
from app.api.http.headers import request_id_of
from app.api.http.paths import WarehouseName
from app.api.openapi import operation
from app.api.questions.bodies import JsonBody
from app.api.questions.queries import InspectQuery
from app.api.runtime import Shared
from app.described import DESCRIBED
from app.errors import RequestError
from app.planning.request import EvaluateRequest, InspectRequest


@dataclass(frozen=True, slots=True)
class IndexFault:
    """Reason why an index cannot be read."""

    detail: str
    offset: int | None


@dataclass(frozen=True, slots=True)
class InspectedIndex:
    """One index of one column. Its members depend on its type and on the given types."""

    type: Annotated[str, Field(examples=["range-bitmap"])]
    offset: int
    length: int
    empty: bool | None = None
    version: int | None = None
    row_count: int | None = None
    cardinality: int | None = None
    """Distinct values."""
    has_nulls: bool | None = None
    null_count: int | None = None
    min: Any = None
    max: Any = None
    bits: int | None = None
    hash_functions: int | None = None
    error: IndexFault | None = None


@dataclass(frozen=True, slots=True)
class InspectedColumn:
    """The indexes of one column."""

    name: str
    indexes: list[InspectedIndex]


@dataclass(frozen=True, slots=True)
class InspectedVector:
    """One deletion vector of a file."""

    offset: int
    size: int
    bits: Literal[32, 64]
    cardinality: int
    highest: int | None


@dataclass(frozen=True, slots=True)
class InspectedBlock:
    """One block of keys of a global index file."""

    offset: int
    size: int
    compression: str | None = None
    key_count: int | None = None
    row_count: int | None = None
    """Null for a bitmap, whose rows are elsewhere."""
    min: Any = None
    """The smallest key, where the type of the column is given."""
    max: Any = None
    error: IndexFault | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """Contents of an index file, by its kind."""

    __pydantic_config__ = DESCRIBED

    kind: Literal["file_index", "deletion_vectors", "hash", "btree", "bitmap"]
    version: int | None = None
    size: int | None = None
    columns: list[InspectedColumn] | None = None
    """Only for a file index."""
    vectors: list[InspectedVector] | None = None
    """Only for a file of deletion vectors."""
    row_count: int | None = None
    """Only for a hash index, or for a bitmap of release 1.4."""
    hashes: list[int] | None = None
    """In the file's order; only for a hash index."""
    vector_count: int | None = None
    """Only for a file of deletion vectors."""
    null_count: int | None = None
    """Rows without a value; this and the members down to ``blocks`` are only for a global index."""
    has_nulls: bool | None = None
    cardinality: int | None = None
    """Distinct values of a bitmap of release 1.4."""
    min: Any = None
    max: Any = None
    block_count: int | None = None
    """Blocks of keys; null for a bitmap of release 1.4."""
    blocks: list[InspectedBlock] | None = None
    next_offset: int | None = None
    """Offset of further vectors, hashes or blocks; null at the end."""


async def _caller_names_paths(request: Request) -> None:
    request.state.path_was_named = True


router = APIRouter(
    prefix="/v1/{warehouse}/index-files", tags=["index files"], dependencies=[Depends(_caller_names_paths)]
)


@router.post("/evaluate", **operation(Evaluation, EvaluateRequest))
async def evaluate(
    request: Request,
    warehouse: WarehouseName,
    body: Annotated[EvaluateRequest, Depends(JsonBody(EvaluateRequest))],
    runtime: Shared,
    caller: CurrentCaller,
) -> Response:
    """Evaluate a filter on index files: which data files can be skipped, and which rows can match."""
    for file in body.files:
        check_path(caller, warehouse, file.path)
    form = SelectionEncoding(body.selection)
    instance = request_id_of(request)

    def compute() -> object:
        files = runtime.service.evaluate(warehouse, body)
        return encode_evaluation(files, form, body.row_count, instance)

    return await runtime.answer(compute)


@router.post("/inspect", **operation(Inspection, InspectRequest))
async def inspect(
    warehouse: WarehouseName,
    query: Annotated[InspectQuery, Query()],
    body: Annotated[InspectRequest, Depends(JsonBody(InspectRequest))],
    runtime: Shared,
    caller: CurrentCaller,
) -> Response:
    """Show the contents of an index file."""
    check_path(caller, warehouse, body.path)
    types, settings = query.types(), runtime.settings
    limit = settings.page_size if body.limit is None else body.limit
    if limit > settings.page_size_max:
        raise RequestError(f"limit is at most {settings.page_size_max}")
    entries = slice(body.offset, body.offset + limit)
    return await runtime.answer(lambda: runtime.service.inspect(warehouse, body, body.kind, types, entries))
