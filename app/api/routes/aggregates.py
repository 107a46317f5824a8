"""``POST .../aggregate``: counts, extremes, sums and facets, as far as indexes and statistics give them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from app.aggregates import AggregateAnswer, AggregateRequest
from app.aggregates import aggregate as aggregate_version
from app.api.http.paths import TABLE
from app.api.openapi import operation
from app.api.questions.bodies import JsonBody
from app.api.questions.queries import LocatedTable
from app.api.runtime import Shared
from app.planning import missing_file_means_expired

router = APIRouter(tags=["aggregates"])


@router.post(TABLE + "/aggregate", **operation(AggregateAnswer, AggregateRequest))
async def aggregate(
    table: LocatedTable,
    body: Annotated[AggregateRequest, Depends(JsonBody(AggregateRequest))],
    runtime: Shared,
) -> Response:
    """Answer aggregates from indexes and statistics, and list the files that leave them open."""
    service = runtime.service

    def compute() -> AggregateAnswer:
        version = service.resolve(table, body.selector)
        with missing_file_means_expired(version):
            return aggregate_version(version, body, runtime.settings.limits)

    return await runtime.answer(compute)
