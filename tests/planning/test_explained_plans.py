"""An explained plan decides what the plan decides, of every file of every golden query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.planning.plan.answers import Plan
from app.planning.request.requests import SelectionForm, TableRef
from app.planning.service import IndexService
from tests.golden_tables import DATABASE, expected, tables
from tests.planning.golden_queries import request_of


def decisions(plan: Plan) -> dict[str, Any]:
    """What a plan says of each file that it keeps, and how many files each step left out."""
    files = {
        file.file_name: (file.reason, file.selected_rows, file.selection, file.residual, file.merge_group)
        for file in plan.files
    }
    return files | {"left out": plan.summary.skipped_by}


@pytest.mark.long
@pytest.mark.parametrize("selection", [SelectionForm.BITMAP, SelectionForm.NONE])
@pytest.mark.parametrize("table", tables())
def test_an_explanation_changes_no_decision(
    service: IndexService, table: str, selection: SelectionForm
) -> None:
    ref = TableRef("golden", DATABASE, table)
    differ = []
    for query in expected(table)["queries"]:
        for form in filter(None, (query["filter_sql"], query["predicate"])):
            request = replace(request_of(query, form), selection=selection, totals=True)
            plain = decisions(service.plan(ref, request))
            explained = decisions(service.plan(ref, replace(request, explain=True)))
            differ += [
                f"{form}: {file}: {plain.get(file)} without, {explained.get(file)} with an explanation"
                for file in plain | explained
                if plain.get(file) != explained.get(file)
            ]
    assert not differ, "\n".join(differ)
