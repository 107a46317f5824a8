"""Golden queries as requests of the library; `tests/acceptance` asks all of them over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.planning.plan.answers import Plan
from app.planning.request.requests import (
    PlanRequest,
    SelectionForm,
    SnapshotSelector,
    SortKey,
    TopN,
)
from tests.golden_checks import KeptFile


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
