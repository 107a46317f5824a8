"""``GET /metrics``: how the service is doing, for Prometheus."""

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.api.openapi import text_operation
from app.telemetry.service import Telemetry

router = APIRouter(tags=["operations"])


@router.get("/metrics", **text_operation("Metrics in the text form that was asked for."))
async def metrics(request: Request) -> Response:
    """Tell what all processes of the service have counted, in Prometheus' text form or OpenMetrics."""
    telemetry: Telemetry = request.app.state.telemetry
    accept = ",".join(request.headers.getlist("accept"))
    # Other processes are asked, and answers of a process that is busy take their time: never on the loop, and
    # not among the threads that storage may hold up.
    content, media_type = await asyncio.to_thread(telemetry.exposition, accept)
    return Response(content, media_type=media_type)
