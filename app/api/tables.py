"""Which table a request is about: the one of its path or, by the parameter ``location``, one elsewhere.

A catalog may give a table a directory that its name does not tell: a database of Hive's with a location, an
external table. The names of the path are then what the caller calls it. Where it lies decides what is read
and who may: it lies below the root of the warehouse that the path names, whose rights hold.
"""

from collections import Counter
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query
from starlette.requests import Request

from app.api.access import Asking, check_path
from app.api.paths import DatabaseName, TableName, WarehouseName
from app.api.queries import LOCATION
from app.api.runtime import Shared
from app.errors import RequestError
from app.planning.request.requests import TableRef
from app.suggestions import hint
from app.table.table import DATABASE_SUFFIX


async def _named_table(warehouse: WarehouseName, database: DatabaseName, table: TableName) -> TableRef:
    return TableRef(warehouse, database, table)


NamedTable = Annotated[TableRef, Depends(_named_table)]


async def _table(
    request: Request,
    named: NamedTable,
    runtime: Shared,
    caller: Asking,
    location: Annotated[str | None, Query(description=LOCATION)] = None,
) -> TableRef:
    counted = Counter(name for name, _ in request.query_params.multi_items())
    for name, count in counted.items():
        # One of them would decide, and another the caller or a proxy may have looked at.
        if count > 1:
            raise RequestError(f"the parameter {name[:50]!r} stands {count} times: send it once")
    if request.method == "POST":
        # Queries of GET have a model each; here one word would be another table's answer.
        for name in counted.keys() - {"location"}:
            known = hint(name, ["location"], what="parameters")
            raise RequestError(f"there is no parameter {name[:50]!r}{known}")
    if location is None:
        return named
    directory = runtime.service.path_of(named.warehouse, location)
    check_path(caller, named.warehouse, directory)
    is_named = directory == f"{named.database}{DATABASE_SUFFIX}/{named.table}"
    return named if is_named else replace(named, directory=directory)


Table = Annotated[TableRef, Depends(_table)]
