"""Path parameters that endpoints share."""

from typing import Annotated

from fastapi import Depends, Path

from app.planning.request.requests import TableRef

DATABASES = "/v1/{warehouse}/databases"
TABLES = DATABASES + "/{database}/tables"
TABLE = TABLES + "/{table}"

WarehouseName = Annotated[str, Path(description="A name from the server's configuration.", examples=["main"])]
DatabaseName = Annotated[str, Path(examples=["demo"])]
TableName = Annotated[str, Path(examples=["events"])]
SchemaId = Annotated[int, Path(description="Number of a schema.", ge=0)]


async def _table(warehouse: WarehouseName, database: DatabaseName, table: TableName) -> TableRef:
    return TableRef(warehouse, database, table)


Table = Annotated[TableRef, Depends(_table)]
