"""Path parameters that endpoints share."""

from typing import Annotated

from fastapi import Path

DATABASES = "/v1/{warehouse}/databases"
TABLES = DATABASES + "/{database}/tables"
TABLE = TABLES + "/{table}"

ICEBERG = "/iceberg"
NAMESPACES = "/v1/{warehouse}/namespaces"
NAMESPACE = NAMESPACES + "/{database}"
NAMESPACE_TABLES = NAMESPACE + "/tables"
NAMESPACE_TABLE = NAMESPACE_TABLES + "/{table}"
ICEBERG_ROUTES = tuple(
    f"{method} {ICEBERG}{path}"
    for methods, path in (
        ("GET", NAMESPACES),
        ("GET HEAD", NAMESPACE),
        ("GET", NAMESPACE_TABLES),
        ("GET HEAD", NAMESPACE_TABLE),
        ("POST", NAMESPACE_TABLE + "/plan"),
        ("GET DELETE", NAMESPACE_TABLE + "/plan/{plan_id}"),
        ("POST", NAMESPACE_TABLE + "/tasks"),
        ("POST", NAMESPACE_TABLE + "/metrics"),
    )
    for method in methods.split()
)
"""Endpoints of Iceberg's REST catalog except its configuration; its prefix is our warehouse."""

WarehouseName = Annotated[str, Path(description="A name from the server's configuration.", examples=["main"])]
DatabaseName = Annotated[str, Path(examples=["demo"])]
TableName = Annotated[str, Path(examples=["events"])]
SchemaId = Annotated[int, Path(description="Number of a schema.", ge=0)]
