"""``GET .../advice`` and ``POST .../what-if``: indexes that a table needs, and indexes to remove."""

from __future__ import annotations

from typing import Annotated, Final

import orjson
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from app.advice import MOST_FILES, Prices, TableAdvice, WhatIf, WhatIfRequest, advise_table, try_indexes
from app.api.http.paths import TABLE
from app.api.openapi import operation
from app.api.questions.bodies import JsonBody
from app.api.questions.queries import AdviceQuery, LocatedTable
from app.api.runtime import Shared
from app.planning import IndexService, TableUsage, Version, missing_file_means_expired
from app.server import Processes

router = APIRouter(tags=["advice"])

_USAGE: Final = b"usage"


class SharedUsage:
    """Usage of tables by the plans of all processes."""

    def __init__(self, service: IndexService, processes: Processes) -> None:
        self._service = service
        self._processes = processes
        processes.answer(_USAGE, lambda: orjson.dumps(service.usage.to_json()))

    def of_table(self, version: Version) -> TableUsage:
        """Return the usage of a version's table in all processes that answer within two seconds."""
        usage = self._service.usage.of_table(version)
        for _, answer in self._processes.ask(_USAGE):
            for warehouse, directory, members in orjson.loads(answer or b"[]"):
                if (warehouse, directory) == (version.source.warehouse.name, version.table.directory):
                    usage.merge(TableUsage.of_json(members))
        return usage


@router.get(TABLE + "/advice", **operation(TableAdvice))
async def advice(
    request: Request, table: LocatedTable, query: Annotated[AdviceQuery, Query()], runtime: Shared
) -> Response:
    """Advise on a table's file indexes, from manifests and index heads. No data is read."""
    shared: SharedUsage = request.app.state.usage
    settings = runtime.settings
    prices = Prices(settings.price_per_terabyte, settings.price_per_1000_calls)

    def compute() -> TableAdvice:
        version = runtime.service.resolve(table, query.selector)
        usage = shared.of_table(version)
        most_files = query.files or MOST_FILES
        with missing_file_means_expired(version):
            return advise_table(version, usage, prices, most_files)

    return await runtime.answer(compute)


@router.post(TABLE + "/what-if", **operation(WhatIf, WhatIfRequest))
async def what_if(
    table: LocatedTable, body: Annotated[WhatIfRequest, Depends(JsonBody(WhatIfRequest))], runtime: Shared
) -> Response:
    """Try new indexes on a sample of data files: how many files would they skip?"""
    service = runtime.service

    def compute() -> WhatIf:
        version = service.resolve(table, body.selector)
        with missing_file_means_expired(version):
            return try_indexes(version, body, runtime.settings.limits)

    return await runtime.answer(compute)
