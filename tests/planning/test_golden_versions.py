"""Tables that releases of the engine wrote are planned right: no row is lost, and none comes back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from app.errors import UnsupportedFormatError
from app.planning.plan.answers import Plan
from app.planning.request.requests import (
    DeletionsRequest,
    LookupRequest,
    PlanRequest,
    SelectionForm,
    SnapshotSelector,
    SortKey,
    TableRef,
    TopN,
)
from app.planning.service import IndexService
from app.planning.version import version_files
from app.storage.disk.disk_tier import DiskTier
from tests.examples import share
from tests.golden_cases import DATABASE, VersionTable, expected, tables, version_tables
from tests.golden_checks import KeptFile
from tests.tables import golden_ref, open_service


def request_of(query: Mapping[str, Any], written: str | dict[str, Any] | None) -> PlanRequest:
    top_n = None
    if query["topn"] is not None:
        keys = [
            SortKey(
                column=order["column"],
                direction=order["direction"].lower(),
                nulls=order["nulls"].lower(),
            )
            for order in query["topn"]["orders"]
        ]
        top_n = TopN(order_by=tuple(keys), limit=query["topn"]["limit"])
    place = {name: query[name] for name in ("snapshot_id", "tag", "branch")}
    return PlanRequest(
        **place, filter=written, top_n=top_n, limit=query["limit"], selection=SelectionForm.BITMAP
    )


def kept_files(plan: Plan) -> dict[str, KeptFile]:
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


Services: TypeAlias = Callable[[VersionTable], IndexService]

READABLE = [each for each in version_tables() if not each.expected["counts_rows"]]
LATEST = SnapshotSelector()
COUNTING = [each for each in version_tables() if each.expected["counts_rows"]]


@pytest.fixture(scope="module")
def service_of(golden_versions: Path) -> Iterator[Services]:
    services: dict[str, IndexService] = {}
    with ExitStack() as opened:

        def service_of(table: VersionTable) -> IndexService:
            if table.version not in services:
                services[table.version] = open_service(golden_versions / table.version)
                opened.callback(services[table.version].close)
            return services[table.version]

        yield service_of


@pytest.mark.parametrize("table", READABLE, ids=str)
def test_every_version_has_the_files_that_the_engine_plans(table: VersionTable, service_of: Services) -> None:
    for version in table.expected["versions"]:
        plan = plan_of(service_of(table), table, SnapshotSelector(**version["at"]))
        assert sorted(file.file_name for file in plan.files) == version["files"], version["at"]


@pytest.mark.parametrize("table", share(READABLE, 3), ids=str)
def test_processes_that_follow_one_another_have_the_files_of_each_version(
    table: VersionTable, golden_versions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever version the one before has kept on the disk."""
    monkeypatch.setattr(version_files, "LEAST_FILES", 0)
    versions = table.expected["versions"]
    for version in [*versions, *reversed(versions)]:
        service = open_service(golden_versions / table.version, disk=DiskTier(tmp_path, 1 << 30))
        plan = plan_of(service, table, SnapshotSelector(**version["at"]))
        assert sorted(file.file_name for file in plan.files) == version["files"], version["at"]
        service.close()


@pytest.mark.parametrize("table", READABLE, ids=str)
def test_filters_lose_no_row(table: VersionTable, service_of: Services) -> None:
    service = service_of(table)
    for query in share(table.expected["queries"], 3):
        kept = {file.file_name: file for file in plan_of(service, table, filter=query["sql"]).files}
        selected = {
            name: set(range(file.row_count) if file.selection is None else file.selection)
            for name, file in kept.items()
        }
        assert answers(table, query["holds"], selected) == answers(table, query["holds"], None), query["sql"]


@pytest.mark.parametrize("table", READABLE, ids=str)
def test_deleted_positions(table: VersionTable, service_of: Services) -> None:
    names = table.expected["scan_files"]
    told = service_of(table).deletions(golden_ref(table.name), DeletionsRequest(files=tuple(names)))

    found = {each.file_name: list(each.positions or ()) for each in told.deletions}

    deleted = {name: each["deleted"] for name, each in table.expected["files"].items() if each["deleted"]}
    assert {name: positions for name, positions in found.items() if positions} == deleted


@pytest.mark.parametrize("table", [each for each in READABLE if each.expected["buckets"]], ids=str)
def test_keys_are_found_in_their_buckets(table: VersionTable, service_of: Services) -> None:
    for each in table.expected["buckets"]:
        keys, buckets = zip(*each["keys"], strict=True)
        request = LookupRequest(partition=each["partition"], keys=keys)

        told = service_of(table).lookup(golden_ref(table.name), request)

        assert [found.bucket for found in told.buckets] == list(buckets)


@pytest.mark.parametrize("filter_", [None, "id = 1", "id IS NULL"])
@pytest.mark.parametrize("table", COUNTING, ids=str)
def test_tables_that_count_equal_rows_are_refused_by_name(
    table: VersionTable, service_of: Services, filter_: str | None
) -> None:
    for selector in (
        SnapshotSelector(),
        *(SnapshotSelector(**each["at"]) for each in table.expected["versions"]),
    ):
        with pytest.raises(UnsupportedFormatError, match=r"write-mode=change-log \(value_count\)"):
            plan_of(service_of(table), table, selector, filter=filter_)


def plan_of(
    service: IndexService,
    table: VersionTable,
    selector: SnapshotSelector = LATEST,
    filter: str | None = None,  # noqa: A002 - as in a request
) -> Plan:
    return service.plan(service.resolve(golden_ref(table.name), selector), PlanRequest(filter=filter))


def answers(
    table: VersionTable, holds: Mapping[str, Sequence[int]], selected: Mapping[str, set[int]] | None
) -> set[tuple[str, int]]:
    """File and position of each row that a reader ends up with, who merges rows and evaluates the filter."""
    files = table.expected["files"]
    read = {name: range(files[name]["row_count"]) for name in files} if selected is None else selected
    alive = {(name, at) for name in read for at in set(read[name]) - set(files[name]["deleted"])}
    if table.expected["merges"]:
        newest: dict[int, tuple[int, str, int]] = {}
        for name, at in alive:
            known, key = files[name], files[name]["keys"][at]
            newest[key] = max(newest.get(key, (-1, "", 0)), (known["sequences"][at], name, at))
        alive = {(name, at) for _, name, at in newest.values() if not files[name]["removes"][at]}
    return {(name, at) for name, at in alive if at in holds.get(name, ())}


def decisions(plan: Plan) -> dict[str, Any]:
    """Return what a plan says of each file that it keeps, and how many files each step left out."""
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
    # Each query once: by turns as text and as a predicate, with either selection.
    for at, query in enumerate(expected(table)["queries"]):
        if at % 2 == (selection is SelectionForm.NONE):
            continue
        forms = (query["filter_sql"], query["predicate"])
        form = next(filter(None, forms if at % 4 < 2 else forms[::-1]), None)
        if form is None:
            continue
        request = request_of(query, form).model_copy(update={"selection": selection, "totals": True})
        plain = decisions(service.plan(ref, request))
        explained = decisions(service.plan(ref, request.model_copy(update={"explain": True})))
        differ += [
            f"{form}: {file}: {plain.get(file)} without, {explained.get(file)} with an explanation"
            for file in plain | explained
            if plain.get(file) != explained.get(file)
        ]
    assert not differ, "\n".join(differ)
