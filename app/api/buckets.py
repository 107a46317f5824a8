"""``.../buckets``: which bucket does a key live in, what do buckets hold, where would a writer put a key?"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import AssignBody, JsonBody, LookupBody
from app.api.encoding import NextToken, encode_lookup
from app.api.openapi import operation
from app.api.paging import Window
from app.api.paths import TABLE
from app.api.queries import BucketsQuery
from app.api.runtime import Shared
from app.api.strict_json import JsonMembers
from app.api.tables import Table
from app.api.versioned import Question
from app.planning.keys.answers import AssignmentAnswer, BucketList, BucketLookup
from app.planning.version.version import Version

router = APIRouter(tags=["buckets"])


@router.post(TABLE + "/buckets/lookup", **operation(BucketLookup, LookupBody))
async def lookup(
    request: Request,
    table: Table,
    body: Annotated[LookupBody, Depends(JsonBody(LookupBody))],
    runtime: Shared,
) -> Response:
    """Look up the buckets of keys, in request order."""
    question = Question(runtime, table, "lookup", body, request.headers.getlist("if-none-match"))
    lookup_request = body.to_lookup()

    def compute(version: Version, _window: Window, _token: NextToken) -> JsonMembers:
        return encode_lookup(runtime.service.lookup(version, lookup_request))

    return await runtime.run(lambda: question.answer(compute))


@router.get(TABLE + "/buckets", **operation(BucketList))
async def buckets(table: Table, query: Annotated[BucketsQuery, Query()], runtime: Shared) -> Response:
    """List buckets with their index files and how full they are."""
    buckets_request = query.to_request()
    return await runtime.answer(lambda: runtime.service.buckets(table, buckets_request))


@router.post(TABLE + "/buckets/assign", **operation(AssignmentAnswer, AssignBody))
async def assign(
    table: Table, body: Annotated[AssignBody, Depends(JsonBody(AssignBody))], runtime: Shared
) -> Response:
    """Tell which buckets a writer would assign to keys; nothing is written."""
    assign_request = body.to_request()
    return await runtime.answer(lambda: runtime.service.assign(table, assign_request))
