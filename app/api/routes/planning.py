"""``POST .../plan``: the files, and their rows, that a query reads.

``POST .../pruned-snapshot`` gives the engine's own readers such a plan as a snapshot. ``.../deletions`` lists
deleted rows. ``.../buckets`` finds the bucket of a key, the contents of buckets, and the bucket that a writer
would choose.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Final, TypeVar

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from app.api.answers.encoding import (
    DeletionsPage,
    NextToken,
    PlanAnswer,
    archive_pruned_snapshot,
    encode_deletions,
    encode_lookup,
    encode_plan,
)
from app.api.answers.paging import Window
from app.api.answers.plan_batches import plan_batches
from app.api.answers.plan_rows import plan_lines
from app.api.answers.selections import SelectionEncoding
from app.api.answers.versioned import Provisional, VersionedQuestion
from app.api.http.headers import PlanFormat, preferred_format
from app.api.http.paths import TABLE
from app.api.http.strict_json import JsonMembers
from app.api.openapi import operation
from app.api.questions.bodies import DeletionsBody, JsonBody, PlanBody, PrunedSnapshotBody
from app.api.questions.queries import BucketsQuery, LocatedTable
from app.api.runtime import Shared
from app.planning import Version
from app.planning.buckets import AssignmentAnswer, BucketList, BucketLookup
from app.planning.plan import Plan
from app.planning.request import AssignRequest, LookupRequest, PlanRequest, SelectionForm
from app.work import LEDGER

_Answer = TypeVar("_Answer")

router = APIRouter(tags=["planning"])
deletions_router = APIRouter(tags=["deletions"])
buckets_router = APIRouter(tags=["buckets"])

_STREAMS = {
    PlanFormat.LINES.value: "A file of the plan on each line; the last line alone has a summary.",
    PlanFormat.ARROW.value: "An Arrow IPC stream with a row for each file; its schema holds the summary.",
}
_ARCHIVE = {
    "application/zip": "An archive of `answer.json`, and of manifests and manifest lists below `manifest/`."
}

# Memory of a hash with its answer, measured with 2,800,000 of them.
_HASH_BYTES: Final = 240
# Memory of a key with its answer. A key is a JSON object of its values.
_KEY_BYTES: Final = 560
# Requests up to this size need no claim: the number of requests bounds them.
_FEW_BYTES: Final = 4 << 20


@router.post(TABLE + "/plan", **operation(PlanAnswer, PlanBody, tagged=True, streams=_STREAMS))
async def plan(
    request: Request,
    table: LocatedTable,
    body: Annotated[PlanBody, Depends(JsonBody(PlanBody))],
    runtime: Shared,
) -> Response:
    """Plan a scan: the files that a query reads, with the rows to read of each.

    Pages of JSON, or the whole plan as an Arrow or NDJSON stream, whichever `Accept` prefers.
    """
    if_none_match = request.headers.getlist("if-none-match")
    question = VersionedQuestion(runtime, table, "plan", body, if_none_match, {"Vary": "Accept"})
    form = SelectionEncoding(body.selection, deletions=body.deletions)

    def planned(version: Version, offset: int = 0) -> Plan:
        return runtime.service.plan(version, body, runtime.settings.plan_budget_ms, is_counted=offset == 0)

    def page(version: Version, window: Window, token: NextToken) -> JsonMembers | Provisional[JsonMembers]:
        answer = planned(version, window.offset)
        return tagged(answer, encode_plan(answer, window, form, token, explain=body.explain))

    def lines(version: Version) -> Iterator[bytes] | Provisional[Iterator[bytes]]:
        answer = planned(version)
        return tagged(answer, plan_lines(answer, form, explain=body.explain))

    def batches(version: Version) -> Iterator[bytes] | Provisional[Iterator[bytes]]:
        answer = planned(version)
        fields = version.schema.partition_fields
        return tagged(answer, plan_batches(answer, fields, form, explain=body.explain))

    match preferred_format(",".join(request.headers.getlist("accept"))):
        case PlanFormat.JSON:
            return await runtime.run(lambda: question.answer(page))
        case PlanFormat.LINES as media_type:
            return await runtime.run(lambda: question.stream(media_type, lines))
        case PlanFormat.ARROW as media_type:
            return await runtime.run(lambda: question.stream(media_type, batches))


@router.post(TABLE + "/pruned-snapshot", **operation(None, PrunedSnapshotBody, streams=_ARCHIVE))
async def pruned_snapshot(
    table: LocatedTable,
    body: Annotated[PrunedSnapshotBody, Depends(JsonBody(PrunedSnapshotBody))],
    runtime: Shared,
) -> Response:
    """Make a snapshot that names only the files that a query reads. Nothing is written."""
    query = PlanRequest.like(body, selection=SelectionForm.NONE)
    budget_ms = runtime.settings.plan_budget_ms

    def archive() -> bytes:
        return archive_pruned_snapshot(
            runtime.service.pruned_snapshot(table, query, budget_ms, body.most_share)
        )

    return Response(await runtime.run(archive), media_type="application/zip")


def tagged(plan: Plan, answer: _Answer) -> _Answer | Provisional[_Answer]:
    """Mark the answer as provisional unless the plan is complete."""
    return answer if plan.summary.complete else Provisional(answer)


@deletions_router.post(TABLE + "/deletions", **operation(DeletionsPage, DeletionsBody, tagged=True))
async def deletions(
    request: Request,
    table: LocatedTable,
    body: Annotated[DeletionsBody, Depends(JsonBody(DeletionsBody))],
    runtime: Shared,
) -> Response:
    """List the deleted positions of data files."""
    question = VersionedQuestion(runtime, table, "deletions", body, request.headers.getlist("if-none-match"))
    form = SelectionEncoding(body.encoding)

    def compute(version: Version, window: Window, token: NextToken) -> DeletionsPage:
        answer = runtime.service.deletions(version, body)
        return encode_deletions(answer, window, form, token)

    return await runtime.run(lambda: question.answer(compute))


def _claimed(request: LookupRequest, most: int) -> AbstractContextManager[object]:
    """Claim the memory for looking up many keys. ``most``: bytes of all large bodies together."""
    hashes, keys = len(request.hashes or ()), len(request.keys or ())
    size = hashes * _HASH_BYTES + keys * _KEY_BYTES
    if size <= _FEW_BYTES:
        return nullcontext()
    return LEDGER.claim("bodies", size, path=f"{hashes + keys} keys", most=most)


@buckets_router.post(TABLE + "/buckets/lookup", **operation(BucketLookup, LookupRequest, tagged=True))
async def lookup(
    request: Request,
    table: LocatedTable,
    body: Annotated[LookupRequest, Depends(JsonBody(LookupRequest))],
    runtime: Shared,
) -> Response:
    """Look up the buckets of keys, in request order."""
    question = VersionedQuestion(runtime, table, "lookup", body, request.headers.getlist("if-none-match"))

    def compute(version: Version, _window: Window, _token: NextToken) -> JsonMembers:
        return encode_lookup(runtime.service.lookup(version, body))

    def answer() -> Response:
        with _claimed(body, runtime.budget.bodies):
            return question.answer(compute)

    return await runtime.run(answer)


@buckets_router.get(TABLE + "/buckets", **operation(BucketList))
async def buckets(table: LocatedTable, query: Annotated[BucketsQuery, Query()], runtime: Shared) -> Response:
    """List buckets with their index files and how full they are."""
    buckets_request = query.request()
    return await runtime.answer(lambda: runtime.service.buckets(table, buckets_request))


@buckets_router.post(TABLE + "/buckets/assign", **operation(AssignmentAnswer, AssignRequest))
async def assign(
    table: LocatedTable, body: Annotated[AssignRequest, Depends(JsonBody(AssignRequest))], runtime: Shared
) -> Response:
    """Choose the buckets that a writer would assign to keys. Nothing is written."""

    def assigned() -> AssignmentAnswer:
        with _claimed(body, runtime.budget.bodies):
            return runtime.service.assign(table, body)

    return await runtime.answer(assigned)
