"""A table's description, with what Iceberg's clients would be told of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from pydantic import Field

from app.described import DESCRIBED
from app.iceberg.refusals import reason_against
from app.planning.request.requests import SnapshotSelector, TableRef
from app.planning.service import IndexService
from app.planning.version import descriptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescription(descriptions.TableDescription):
    """The schema of a version of a table and what follows from it."""

    __pydantic_config__ = DESCRIBED

    iceberg_refusal: Annotated[
        str | None,
        Field(description="Why Iceberg's clients cannot read the table, or not every file that it may have."),
    ]


def describe_table(service: IndexService, table: TableRef, selector: SnapshotSelector) -> TableDescription:
    """The description of a version of a table.

    Raises:
        NotFoundError: there is no such table or version.
    """
    described = service.describe(table, selector)
    members = {each.name: getattr(described, each.name) for each in fields(described)}
    schema = service.resolve(table, selector).schema
    return TableDescription(**members, iceberg_refusal=reason_against(schema, described.table))
