"""Older versions have their own columns under the newest options, as the engine reads them."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.aggregates.aggregation import aggregate
from app.aggregates.answers import AggregateRequest
from app.planning.request.limits import Limits
from app.planning.request.requests import PlanRequest, SnapshotSelector
from app.planning.service import IndexService
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests.tables import MadeTable, entry, open_service, statistics

KEY = DataField(0, "id", parse_type("INT NOT NULL"))
CITY = DataField(1, "city", parse_type("STRING"))
SELECTORS = [
    SnapshotSelector(),
    SnapshotSelector(snapshot_id=1),
    SnapshotSelector(tag="first"),
    SnapshotSelector(timestamp_millis=1 << 60),
    SnapshotSelector(branch="other", snapshot_id=1),
    SnapshotSelector(branch="other", tag="first"),
]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[IndexService]:
    with closing(open_service(tmp_path)) as service:
        yield service


def alter(made: MadeTable, options: dict[str, str], *names: str) -> None:
    """Give the table a schema with other options and column names, and a branch that is a copy of it."""
    old = json.loads((made.directory / "schema" / "schema-0").read_text())
    for field, name in zip(old["fields"], names, strict=False):
        field["name"] = name
    new = {**old, "id": 1, "options": {**old["options"], **options}}
    (made.directory / "schema" / "schema-1").write_text(json.dumps(new))
    tags = made.directory / "tag"
    tags.mkdir()
    shutil.copy(made.directory / "snapshot" / "snapshot-1", tags / "tag-first")
    for kind in ("schema", "snapshot", "tag"):
        shutil.copytree(made.directory / kind, made.directory / "branch" / "branch-other" / kind)


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize(("at_first", "now", "visible"), [("true", "false", 8), ("false", "true", 4)])
def test_an_option_that_hides_files_holds_as_it_is_now(
    tmp_path: Path, service: IndexService, selector: SnapshotSelector, at_first: str, now: str, visible: int
) -> None:
    key = serialize_row([1], [KEY.type])
    options = {"bucket": "1", "deletion-vectors.enabled": at_first}
    made = MadeTable.make(tmp_path, [KEY], primary_key=[KEY], options=options)
    # With deletion vectors, level 0 is invisible until it is compacted.
    made.commit(
        [
            entry(file_name=f"data-{at}", level=at % 2, min_key=key, max_key=key, **statistics({KEY: [at]}))
            for at in range(8)
        ]
    )
    alter(made, {"deletion-vectors.enabled": now})

    plan = service.plan(service.resolve(made.ref, selector), PlanRequest())
    counted = aggregate(service.resolve(made.ref, selector), AggregateRequest(), Limits())

    assert len(plan.files) == visible
    # Where files merge, nobody knows how many rows they have.
    assert counted.exact == (now == "true")
    assert counted.groups[0].values[0].value == (10 * visible if counted.exact else None)


@pytest.mark.parametrize("selector", SELECTORS[1:])
def test_a_default_that_a_reader_shows_is_the_one_that_is_set_now(
    tmp_path: Path, service: IndexService, selector: SnapshotSelector
) -> None:
    made = MadeTable.make(tmp_path, [KEY, CITY], options={"bucket": "-1"})
    made.commit([entry(file_name="data", **statistics({KEY: [1, 2], CITY: [None, None]}))])
    alter(made, {"fields.city.default-value": "Bonn"})

    found = service.plan(service.resolve(made.ref, selector), PlanRequest(filter="city = 'Bonn'"))

    assert len(found.files) == 1


def test_a_bucket_key_is_called_as_its_column_was(tmp_path: Path, service: IndexService) -> None:
    made = MadeTable.make(tmp_path, [KEY, CITY], options={"bucket": "2", "bucket-key": "id"})
    entries = [entry(bucket=at, file_name=f"data-{at}", **statistics({KEY: [3]})) for at in range(2)]
    made.commit([replace(each, total_buckets=2) for each in entries])
    alter(made, {"bucket-key": "key"}, "key")

    plans = [
        service.plan(made.ref, PlanRequest(snapshot_id=snapshot_id, filter=f"{name} = 3"))
        for snapshot_id, name in ((1, "id"), (None, "key"))
    ]

    old, new = ([file.file_name for file in plan.files] for plan in plans)
    assert old == new
    assert len(old) == 1


def test_an_altered_option_makes_another_version(tmp_path: Path, service: IndexService) -> None:
    made = MadeTable.make(tmp_path, [KEY], options={"bucket": "-1"})
    made.commit([entry()])
    before = service.resolve(made.ref, SnapshotSelector(1))
    alter(made, {"file-index.read.enabled": "false"})

    after = service.resolve(made.ref, SnapshotSelector(1))

    assert before.identity != after.identity
    assert (before.schema.ids, after.schema.ids) == ((0, 0), (0, 1))
    assert (
        service.resolve(made.ref, SnapshotSelector(1, schemas=before.schema.ids)).identity == before.identity
    )
