"""Files that came and went between two versions, held to the files that the engine plans of each."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.errors import FilterError
from app.planning.plan.answers import Plan
from app.planning.request.requests import PlanRequest, SnapshotSelector, TableRef
from app.planning.service import IndexService
from app.planning.version.version import Version
from app.table.manifests.manifest_entry import ManifestEntry, RowStatistics
from app.table.schema.schema import SchemaIds
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from app.work import LEDGER
from tests import golden_cases
from tests.examples import share
from tests.tables import MadeTable, entry, golden_ref, no_statistics, open_service, statistics

SEVERAL = ["versions", "append_dv32", "append_dv64", "pk_dv", "pk_merge", "evolve_append", "manifest_merge"]


def names(plan: Plan) -> set[str]:
    return {file.file_name for file in plan.files}


def versions(service: IndexService, table: TableRef, before: int, after: int) -> tuple[Version, Version]:
    earlier, later = map(SnapshotSelector, (before, after))
    return service.resolve(table, earlier), service.resolve(table, later)


def vectors(plan: Plan) -> dict[str, Any]:
    return {file.file_name: file.deletion for file in plan.files}


@pytest.mark.parametrize("name", SEVERAL)
def test_changes_are_what_differs_between_plans(service: IndexService, name: str) -> None:
    places = [version["at"] for version in golden_cases.expected(name)["versions"]]
    ids = sorted({each["snapshot_id"] for each in places if each["snapshot_id"] and not each["branch"]})
    filters = [None, *(query["filter_sql"] for query in golden_cases.expected(name)["queries"][:12:4])]
    compared, newest = 0, service.resolve(golden_ref(name), SnapshotSelector()).schema_id
    for before, after in share([*zip(ids, [*ids[1:], ids[0]], strict=True)], 2):
        for written in filters:
            asked = PlanRequest(snapshot_id=after, filter=written)
            try:
                new = service.plan(golden_ref(name), asked)
                earlier = SnapshotSelector(before, schemas=SchemaIds(new.schema_id, newest))
                old = service.plan(service.resolve(golden_ref(name), earlier), PlanRequest(filter=written))
            except FilterError:
                # A column of the query came later.
                continue

            found = service.changes(*versions(service, golden_ref(name), before, after), asked)

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
    """Return the files that one version has, and another has not, whatever a filter says."""
    requests = (PlanRequest(snapshot_id=number) for number in (version, other))
    have, lack = (names(service.plan(golden_ref(name), request)) for request in requests)
    return have - lack


KEY = DataField(0, "id", parse_type("INT NOT NULL"))
LATER = DataField(1, "late", parse_type("INT"))


def with_new_schema(made: MadeTable, **changes: Any) -> None:
    """Have the newest snapshot be of a new schema that differs from the one before."""
    old = json.loads((made.directory / "schema" / "schema-0").read_text())
    options = {**old["options"], **changes.pop("options", {})}
    (made.directory / "schema" / "schema-1").write_text(
        json.dumps({**old, "id": 1, "options": options, **changes})
    )
    newest = made.directory / "snapshot" / f"snapshot-{(made.directory / 'snapshot' / 'LATEST').read_text()}"
    newest.write_text(json.dumps({**json.loads(newest.read_text()), "schemaId": 1}))


OLD, NEW = SnapshotSelector(1, schemas=SchemaIds(0, 0)), SnapshotSelector(2, schemas=SchemaIds(1, 1))
"""Versions as they were when each was the newest."""


@pytest.mark.parametrize(
    ("before", "after", "went", "came"),
    [
        (OLD, NEW, 4, 0),
        (NEW, OLD, 0, 4),
        (replace(OLD, snapshot_id=2), NEW, 4, 0),
        (SnapshotSelector(1), SnapshotSelector(2), 0, 0),
    ],
)
def test_each_version_is_judged_by_the_options_that_it_is_read_under(
    tmp_path: Path, before: SnapshotSelector, after: SnapshotSelector, went: int, came: int
) -> None:
    made = MadeTable.make(tmp_path, [KEY], primary_key=[KEY], options={"bucket": "1"})
    key = serialize_row([1], [KEY.type])
    keys = RowStatistics(key, key, (0,))
    bounds: dict[str, Any] = {"min_key": key, "max_key": key, "key_statistics": keys}
    entries = [entry(file_name=f"data-{at}", level=at % 2, **bounds, **no_statistics()) for at in range(8)]
    made.commit(entries)
    made.commit(entries)
    with_new_schema(made, options={"deletion-vectors.enabled": "true"})
    service = open_service(tmp_path)

    earlier, later = (service.resolve(made.ref, selector) for selector in (before, after))
    found = service.changes(earlier, later, PlanRequest())

    # Level 0 is invisible as soon as there are deletion vectors, until it is compacted.
    service.close()
    assert (len(found.removed.files), len(found.added.files)) == (went, came)


def test_a_filter_means_the_columns_of_the_later_version_in_both(tmp_path: Path) -> None:
    made = MadeTable.make(tmp_path, [KEY], options={"bucket": "2", "bucket-key": "id"})
    made.commit([entry(bucket=at % 2, file_name=f"data-{at}", **statistics({KEY: [at]})) for at in range(4)])
    made.commit([])
    fields = [
        {"id": each.id, "name": name, "type": str(each.type)}
        for name, each in (("key", KEY), ("late", LATER))
    ]
    with_new_schema(made, fields=fields, highestFieldId=1, options={"bucket-key": "key"})
    service = open_service(tmp_path)
    before, after = versions(service, made.ref, 1, 2)

    by_new_name = service.changes(before, after, PlanRequest(filter="key = 3"))
    by_new_column = service.changes(before, after, PlanRequest(filter="late = 3"))

    service.close()
    assert names(by_new_name.removed) == {"data-3"}
    assert names(by_new_column.removed) == set()


MANY = 2_000
CITY, V = DataField(1, "city", parse_type("STRING")), DataField(1, "v", parse_type("INT"))


def followed(service: IndexService, made: MadeTable, written: str, change: Callable[[], None]) -> set[str]:
    """Return the files of a caller who planned, and applies the changes when something changes."""
    before = service.resolve(made.ref, SnapshotSelector())
    held = names(service.plan(made.ref, PlanRequest(filter=written)))
    change()

    found = service.changes(
        before, service.resolve(made.ref, SnapshotSelector()), PlanRequest(filter=written)
    )

    return (held - names(found.removed)) | names(found.added)


def with_options(made: MadeTable, **options: str) -> None:
    """Alter options between two commits."""
    old = json.loads((made.directory / "schema" / "schema-0").read_text())
    altered = {**old, "id": 1, "options": {**old["options"], **options}}
    (made.directory / "schema" / "schema-1").write_text(json.dumps(altered))


def keyed(name: str, level: int, v: int) -> ManifestEntry:
    key = serialize_row([1], [KEY.type])
    keys = RowStatistics(key, key, (0,))
    bounds: dict[str, Any] = {"min_key": key, "max_key": key, "key_statistics": keys}
    return entry(file_name=name, level=level, row_count=1, **bounds, **statistics({KEY: [1], V: [v]}))


def test_an_option_that_lets_a_filter_mean_other_files_brings_them(tmp_path: Path) -> None:
    made = MadeTable.make(tmp_path, [KEY, CITY], options={"bucket": "-1"})
    made.commit([entry(file_name="data", row_count=2, **statistics({KEY: [1, 2], CITY: [None, None]}))])

    with closing(open_service(tmp_path)) as service:
        default = {"fields.city.default-value": "Bonn"}
        held = followed(service, made, "city = 'Bonn'", lambda: with_options(made, **default))

        assert held == names(made.plan(service, "city = 'Bonn'")) == {"data"}


def test_files_that_merge_since_an_option_was_altered_come_together(tmp_path: Path) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    made = MadeTable.make(tmp_path, [KEY, V], primary_key=[KEY], options=options)
    made.commit([keyed("old", 5, 5), keyed("new", 4, 6)])

    with closing(open_service(tmp_path)) as service:
        off = {"deletion-vectors.enabled": "false"}
        held = followed(service, made, "v = 5", lambda: with_options(made, **off))

        assert held == names(made.plan(service, "v = 5")) == {"old", "new"}


def test_a_file_that_merges_with_one_that_came_comes_with_it(tmp_path: Path) -> None:
    options = {"bucket": "1", "merge-engine": "partial-update"}
    made = MadeTable.make(tmp_path, [KEY, V], primary_key=[KEY], options=options)
    made.commit([keyed("old", 5, 6)])

    with closing(open_service(tmp_path)) as service:
        held = followed(service, made, "v = 5", lambda: made.commit([keyed("old", 5, 6), keyed("new", 0, 5)]))

        assert held == names(made.plan(service, "v = 5")) == {"old", "new"}


@pytest.mark.parametrize("is_keyed", [False, True])
def test_what_changes_take_is_claimed_until_nobody_has_them(tmp_path: Path, *, is_keyed: bool) -> None:
    """Keyed tables compare the plans of both versions; of others only what came and went is planned."""
    options = {"bucket": "1"} if is_keyed else {"bucket": "-1"}
    made = MadeTable.make(tmp_path, [KEY, V], primary_key=[KEY] if is_keyed else [], options=options)
    made.commit([])
    made.commit([keyed(f"data-{at}", at % 2, at) for at in range(MANY)])
    nothing = LEDGER.claimed.get("plans", 0)

    with closing(open_service(tmp_path)) as service:
        found = service.changes(*versions(service, made.ref, 1, 2), PlanRequest(filter="id = 1"))

        assert len(found.added.files) == MANY
        assert LEDGER.claimed["plans"] - nothing >= 165 * MANY
        del found
        assert LEDGER.claimed["plans"] == nothing
