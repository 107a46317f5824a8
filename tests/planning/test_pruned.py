"""Snapshots of the files that a plan keeps: a plan of such a snapshot finds these files."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.errors import LimitExceededError, UnsupportedFormatError
from app.file_index.index_kinds import BITMAP
from app.planning import pruned
from app.planning.plan.file_plan import KeepReason
from app.planning.pruned import PrunedSnapshot
from app.planning.request.limits import CacheBytes, Limits
from app.planning.request.requests import PlanRequest, SelectionForm, SnapshotSelector, TableRef
from app.planning.service import IndexService
from app.storage import Warehouse
from app.table.manifests.manifest_entry import ManifestEntry
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests import golden_cases
from tests.copied_tables import CopiedTable
from tests.examples import share
from tests.golden_cases import GoldenWarehouse
from tests.golden_global_indexes import unpack
from tests.tables import EMPTY_ROW, MadeTable, entry, file_of, golden_ref, open_service

TAG = "pruned"
APPENDED = ["append_sidecar", "append_embedded", "append_dv32", "append_partitioned", "evolve_append"]
PRUNED = [*APPENDED, "pk_merge"]
SESSION = "session_no = 'delta_04823'"
ASKED = (KeepReason.MATCHED, KeepReason.NO_INDEX)
ALL_MERGE = ["pk_aggregation", "pk_partial_update"]
KEYED = ["pk_merge", "pk_dv", "pk_aggregation", "pk_partial_update", "dyn_bucket"]


def write_tag(table: CopiedTable, snapshot: PrunedSnapshot) -> None:
    for file in snapshot.metadata_files:
        (table.directory / "manifest" / file.name).write_bytes(file.content)
    path = table.directory / "tag" / f"tag-{TAG}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(snapshot.document))


def limited_service(root: Path, limits: Limits) -> IndexService:
    return IndexService({"golden": Warehouse("golden", str(root))}, cache_bytes=CacheBytes(), limits=limits)


def conditions(name: str) -> list[Any]:
    queries = golden_cases.expected(name)["queries"]
    latest = [
        query["filter_sql"] or query["predicate"]
        for query in queries
        if not (query["tag"] or query["branch"] or query["topn"] or query["limit"] or query["snapshot_id"])
    ]
    return latest[:: max(1, len(latest) // 6)]


@pytest.mark.parametrize("name", share([*APPENDED, *KEYED], 2))
def test_the_tag_has_the_files_of_the_plan(golden: GoldenWarehouse, tmp_path: Path, name: str) -> None:
    table = CopiedTable.copy(golden, name, tmp_path)
    skipped = 0
    for condition in share(conditions(name), 2):
        asked = PlanRequest(filter=condition)
        plan = table.service.plan(table.ref, asked)

        snapshot = table.service.pruned_snapshot(table.ref, asked)
        write_tag(table, snapshot)

        found = table.service.plan(table.ref, PlanRequest(tag=TAG))
        again = table.service.plan(table.ref, PlanRequest(tag=TAG, filter=condition))
        table.service.caches.clear()
        kept = {file.path for file in plan.files}
        named = {file.path for file in found.files}
        assert (found.snapshot_id, found.schema_id) == (plan.snapshot_id, plan.schema_id)
        assert snapshot.files_named == len(found.files)
        assert named >= kept
        assert name in KEYED or named == kept
        assert {file.path for file in again.files} == kept
        # Without the indexes that the plan has asked, rows are left that these would rule out.
        assert again.summary.rows_selected >= plan.summary.rows_selected
        skipped += found.summary.files_total < plan.summary.files_total
    assert skipped or name not in PRUNED


def entries(table: CopiedTable, tag: str | None = None) -> dict[str, ManifestEntry]:
    version = table.service.resolve(table.ref, SnapshotSelector(tag=tag))
    return {entry.file.file_name: entry for entry in version.files().entries(version.files().all())}


def without_index(table: CopiedTable, snapshot: PrunedSnapshot) -> set[str]:
    """Files of a snapshot that have an index in the table, and none there; all else of them is the same."""
    write_tag(table, snapshot)
    whole, named = entries(table), entries(table, TAG)
    table.service.caches.clear()
    bare = {name for name, entry in named.items() if entry != whole[name]}
    assert all(named[name] == whole[name].without_index() for name in bare)
    return bare


@pytest.mark.parametrize("name", share([*APPENDED, *KEYED], 2))
def test_an_index_is_left_out_where_the_plan_has_asked_it(
    golden: GoldenWarehouse, tmp_path: Path, name: str
) -> None:
    table = CopiedTable.copy(golden, name, tmp_path)
    indexed = {name for name, entry in entries(table).items() if entry != entry.without_index()}
    asked: set[str] = set()
    for condition in [None, *share(conditions(name), 2)]:
        snapshot = table.service.pruned_snapshot(table.ref, PlanRequest(filter=condition))

        answered = {file.file_name for file in snapshot.plan.files if file.reason in ASKED} & indexed
        assert without_index(table, snapshot) == answered
        asked |= answered
    assert asked or name in ALL_MERGE


@pytest.mark.parametrize("trouble", ["time", "damage"])
def test_an_index_stays_where_it_was_not_asked(golden: GoldenWarehouse, tmp_path: Path, trouble: str) -> None:
    table = CopiedTable.copy(golden, "append_sidecar", tmp_path)
    if trouble == "damage":
        for side in table.directory.glob("**/*.index"):
            side.write_bytes(b"no index")

    snapshot = table.service.pruned_snapshot(
        table.ref, PlanRequest(filter=SESSION), budget_ms=0 if trouble == "time" else None
    )

    assert snapshot.files_named
    assert not without_index(table, snapshot)


@pytest.mark.parametrize("selects_rows", [True, False])
def test_a_large_file_keeps_an_index_that_may_select_rows(
    golden: GoldenWarehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, selects_rows: bool
) -> None:
    monkeypatch.setattr(pruned, "LARGE_BYTES", 1)
    table = CopiedTable.copy(golden, "append_sidecar", tmp_path)
    if not selects_rows:
        options = {"file-index.bloom-filter.columns": "session_no", "bucket": "-1"}
        table.change_schema(lambda schema: schema.update(options=options))

    snapshot = table.service.pruned_snapshot(table.ref, PlanRequest(filter=SESSION))

    assert bool(without_index(table, snapshot)) != selects_rows


def test_files_that_merge_stay_together(golden: GoldenWarehouse, tmp_path: Path) -> None:
    """A plan leaves out files of a unit that lack the keys that are asked for; another query needs them."""
    table = CopiedTable.copy(golden, "pk_merge", tmp_path)
    units: dict[int | None, set[str]] = {}
    for file in table.service.plan(table.ref, PlanRequest()).files:
        units.setdefault(file.merge_group, set()).add(file.path)
    units.pop(None, None)
    grown = 0

    for condition in conditions("pk_merge"):
        snapshot = table.service.pruned_snapshot(table.ref, PlanRequest(filter=condition))
        write_tag(table, snapshot)

        found = table.service.plan(table.ref, PlanRequest(tag=TAG))
        table.service.caches.clear()
        named = {file.path for file in found.files}
        assert all(unit <= named or not unit & named for unit in units.values())
        grown += snapshot.files_named > len(snapshot.plan.files)
    assert grown


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(pruned_files=3), "at most 3: read the table itself"),
        (Limits(pruned_bytes=100), "takes more than .*: read the table itself"),
    ],
)
def test_answers_that_take_longer_to_send_than_to_plan_are_refused(
    golden: GoldenWarehouse, limits: Limits, says: str
) -> None:
    with (
        closing(limited_service(golden.root, limits)) as service,
        pytest.raises(LimitExceededError, match=says),
    ):
        service.pruned_snapshot(golden_ref("append_sidecar"), PlanRequest())


@pytest.fixture(scope="module")
def root_of_indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse of tables with global indexes."""
    return unpack(tmp_path_factory.mktemp("indexed"))


@pytest.fixture(scope="module")
def indexed(root_of_indexed: Path) -> Iterator[IndexService]:
    with closing(open_service(root_of_indexed)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "condition", "files", "ranges"),
    [
        pytest.param("small_blocks", "i64 = -29000000000000000", 1, [[1, 1]], id="of a file alone"),
        pytest.param("updated", "n = 13", 1, [[13, 13]], id="of one file of two"),
        pytest.param("updated", "n IN (3, 13)", 3, [[3, 3], [13, 13]], id="of files of the same rows"),
        pytest.param("parts", "n = 3", 3, [[3, 3], [40, 59]], id="beside rows that no index covers"),
        pytest.param("updated", "n > 10", 1, None, id="most rows"),
        pytest.param("updated", "n = 3 OR s = 'x'", 3, None, id="all rows of files"),
    ],
)
def test_row_ids_to_read_are_named(
    indexed: IndexService, name: str, condition: str, files: int, ranges: list[list[int]] | None
) -> None:
    snapshot = indexed.pruned_snapshot(TableRef("golden", "pypaimon", name), PlanRequest(filter=condition))

    found = snapshot.row_ranges
    named = None if found is None else [list(each) for each in zip(found.first, found.last, strict=True)]
    assert (snapshot.files_named, named) == (files, ranges)


def test_rows_of_a_plan_are_held_once(indexed: IndexService) -> None:
    asked = PlanRequest(filter="n = 3", selection=SelectionForm.RANGES)

    plan = indexed.plan(TableRef("golden", "pypaimon", "updated"), asked)

    assert plan.files.joined_rows
    assert not plan.skipped_files.joined_rows


def test_few_rows_of_most_files_are_named(indexed: IndexService) -> None:
    table = TableRef("golden", "pypaimon", "small_blocks")
    asked = PlanRequest(
        filter="i64 IN (-29000000000000000, 31000000000000000, 91000000000000000, 151000000000000000)"
    )

    snapshot = indexed.pruned_snapshot(table, asked, most_share=0.5)

    assert snapshot.files_named == snapshot.plan.summary.files_total == 4
    assert snapshot.document is not None
    assert snapshot.row_ranges is not None
    assert snapshot.row_ranges.count == 4


def test_more_ranges_than_readers_take_are_not_named(root_of_indexed: Path) -> None:
    table = TableRef("golden", "pypaimon", "parts")

    with closing(limited_service(root_of_indexed, Limits(pruned_ranges=1))) as service:
        snapshot = service.pruned_snapshot(table, PlanRequest(filter="n = 3"))

    assert (snapshot.files_named, snapshot.row_ranges) == (3, None)


def test_files_of_the_same_rows_stay_together(golden: GoldenWarehouse, tmp_path: Path) -> None:
    table = CopiedTable.copy(golden, "data_evolution", tmp_path)
    groups: dict[int | None, set[str]] = {}
    for file in table.service.plan(table.ref, PlanRequest()).files:
        groups.setdefault(file.merge_group, set()).add(file.path)
    groups.pop(None, None)
    pruned_away = 0

    for condition in conditions("data_evolution"):
        snapshot = table.service.pruned_snapshot(table.ref, PlanRequest(filter=condition))
        write_tag(table, snapshot)

        found = {file.path for file in table.service.plan(table.ref, PlanRequest(tag=TAG)).files}
        table.service.caches.clear()
        assert found == {file.path for file in snapshot.plan.files}
        assert all(group <= found or not group & found for group in groups.values())
        pruned_away += snapshot.plan.summary.files_skipped
    assert groups
    assert pruned_away


def test_tables_with_other_manifests_are_refused(golden: GoldenWarehouse, tmp_path: Path) -> None:
    table = CopiedTable.copy(golden, "append_sidecar", tmp_path)
    table.change_schema(lambda schema: schema["options"].update({"manifest.format": "orc"}))

    with pytest.raises(UnsupportedFormatError, match=r"manifest\.format=orc"):
        table.service.pruned_snapshot(table.ref, PlanRequest())


def test_a_table_that_was_never_written_to_has_no_files(golden: GoldenWarehouse, tmp_path: Path) -> None:
    table = CopiedTable.copy(golden, "empty", tmp_path)

    snapshot = table.service.pruned_snapshot(table.ref, PlanRequest())

    assert (snapshot.files_named, snapshot.document, snapshot.delta_manifest_list) == (0, None, None)
    assert not snapshot.metadata_files


ID = DataField(0, "id", parse_type("BIGINT"))
ONE_ROW = serialize_row([7], [ID.type])


@pytest.mark.parametrize(
    ("mode", "has_primary_key", "min_key", "counts"),
    [
        ("change-log", False, ONE_ROW, True),
        ("Change-Log ", False, ONE_ROW, True),
        ("change-log", False, EMPTY_ROW, False),
        ("change-log", True, ONE_ROW, False),
        ("append-only", False, EMPTY_ROW, False),
        (None, False, EMPTY_ROW, False),
    ],
)
def test_rows_are_counted_by_the_option_and_keys_of_files_together(
    tmp_path: Path, mode: str | None, has_primary_key: bool, min_key: bytes, counts: bool
) -> None:
    options = {} if mode is None else {"write-mode": mode}
    table = MadeTable.make(tmp_path, [ID], primary_key=[ID] if has_primary_key else [], options=options)
    table.commit([entry(min_key=min_key, max_key=min_key)])
    service = open_service(tmp_path)
    try:
        if counts:
            with pytest.raises(UnsupportedFormatError, match="value_count"):
                service.plan(table.ref, PlanRequest())
        else:
            assert len(service.plan(table.ref, PlanRequest()).files) == 1
    finally:
        service.close()


def test_only_files_that_the_engine_would_plan_are_spared(tmp_path: Path) -> None:
    column = DataField(0, "n", parse_type("INT"))
    table, service = MadeTable.make(tmp_path, [column]), open_service(tmp_path)
    matching, beside, embedded = (
        file_of(f"data-{at}.parquet", {column: rows}, BITMAP)
        for at, rows in enumerate(([1, 5, 9], [1, 2, 9], [1, 3, 9]))
    )
    out_of_bounds = file_of("data-3.parquet", {column: [7, 8]}, BITMAP)
    table.commit([matching, table.beside(beside), embedded, out_of_bounds])

    snapshot = service.pruned_snapshot(table.ref, PlanRequest(filter="n = 5"))

    assert snapshot.plan.summary.files_kept == 1
    assert snapshot.plan.spared == {"files": 1, "rows": 3, "bytes": beside.file.file_size}
    service.close()
