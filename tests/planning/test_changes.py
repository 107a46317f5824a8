"""Files that came and went between two versions, held to the files that the engine plans of each."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import FilterError
from app.planning.plan.answers import Plan
from app.planning.request.requests import PlanRequest, SnapshotSelector
from app.planning.service import IndexService
from tests import golden_tables
from tests.planning.copied_tables import golden_ref

SEVERAL = ["versions", "append_dv32", "append_dv64", "pk_dv", "pk_merge", "evolve_append", "manifest_merge"]


def names(plan: Plan) -> set[str]:
    return {file.file_name for file in plan.files}


def vectors(plan: Plan) -> dict[str, Any]:
    return {file.file_name: file.deletion for file in plan.files}


@pytest.mark.parametrize("name", SEVERAL)
def test_changes_are_what_differs_between_plans(service: IndexService, name: str) -> None:
    places = [version["at"] for version in golden_tables.expected(name)["versions"]]
    ids = sorted({each["snapshot_id"] for each in places if each["snapshot_id"] and not each["branch"]})
    filters = [None, *(query["filter_sql"] for query in golden_tables.expected(name)["queries"][:12:4])]
    compared = 0
    for before, after in zip(ids, [*ids[1:], ids[0]], strict=True):
        for written in filters:
            asked = PlanRequest(SnapshotSelector(after), filter=written)
            try:
                new = service.plan(golden_ref(name), asked)
                earlier = SnapshotSelector(before, schema_id=new.schema_id)
                old = service.plan(golden_ref(name), PlanRequest(earlier, filter=written))
            except FilterError:
                # A column of the query came later.
                continue

            found = service.changes(golden_ref(name), before, asked)

            others = {each for each in names(old) & names(new) if vectors(old)[each] != vectors(new)[each]}
            assert names(found.added) >= (names(new) - names(old)) & all_of(service, name, after, before)
            assert names(found.added) - others <= names(new)
            assert names(found.removed) - others <= names(old)
            if written is None:
                assert names(found.added) == names(new) - names(old) | others
                assert names(found.removed) == names(old) - names(new) | others
            compared += 1
    assert compared


def all_of(service: IndexService, name: str, version: int, other: int) -> set[str]:
    """The files that one version has, and another has not, whatever a filter says."""
    places = map(SnapshotSelector, (version, other))
    have, lack = (names(service.plan(golden_ref(name), PlanRequest(place))) for place in places)
    return have - lack


def test_nothing_changes_within_a_version(service: IndexService) -> None:
    latest = service.resolve(golden_ref("append_dv32"), SnapshotSelector()).snapshot_id
    assert latest is not None

    found = service.changes(golden_ref("append_dv32"), latest, PlanRequest())

    assert (len(found.added.files), len(found.removed.files)) == (0, 0)
