"""Every query of every golden table, planned by the library, in both forms of its filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from app.planning.plan.answers import Plan
from app.planning.request.requests import (
    PlanRequest,
    SelectionForm,
    SnapshotSelector,
    SortKey,
    TableRef,
    TopN,
)
from app.planning.service import IndexService
from tests.golden_checks import GoldenQuery, KeptFile, check
from tests.golden_tables import DATABASE, expected, tables


def request_of(query: Mapping[str, Any], written: str | dict[str, Any] | None) -> PlanRequest:
    """The request that asks a golden query."""
    top_n = None
    if query["topn"] is not None:
        keys = [
            SortKey(order["column"], order["direction"] == "DESC", order["nulls"] == "FIRST")
            for order in query["topn"]["orders"]
        ]
        top_n = TopN(tuple(keys), query["topn"]["limit"])
    selector = SnapshotSelector(snapshot_id=query["snapshot_id"], tag=query["tag"], branch=query["branch"])
    return PlanRequest(selector, written, top_n=top_n, limit=query["limit"], selection=SelectionForm.BITMAP)


def kept_files(plan: Plan) -> dict[str, KeptFile]:
    """A plan in the form that the checks take."""
    return {
        file.file_name: KeptFile(
            file.raw_convertible,
            file.row_count,
            None if file.selection is None else frozenset(file.selection),
            None
            if file.deletion is None
            else {
                "path": file.deletion.path,
                "offset": file.deletion.offset,
                "length": file.deletion.length,
                "cardinality": file.deletion.cardinality,
            },
        )
        for file in plan.files
    }


@pytest.mark.parametrize("table", tables())
def test_plans_are_safe_and_as_strong_as_the_engine(service: IndexService, table: str) -> None:
    document = expected(table)
    ref = TableRef("golden", DATABASE, table)
    failures = []
    for query in document["queries"]:
        golden_query = GoldenQuery(table, document, query)
        forms = [form for form in (query["filter_sql"], query["predicate"]) if form is not None] or [None]
        plans = [service.plan(ref, request_of(query, form)) for form in forms]
        try:
            for plan in plans:
                check(golden_query, kept_files(plan))
        except AssertionError as error:
            failures.append(f"{golden_query}: {query['filter_sql']}: {error}")
        if len(plans) > 1 and kept_files(plans[0]) != kept_files(plans[1]):
            failures.append(f"{golden_query}: the two forms of the filter differ")
    assert not failures, "\n".join(failures)
