"""Advice about whole tables: each piece is followed, and what it promised is measured."""

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.advice.answers import Advice, AdviceSubject, Prices, TableAdvice
from app.advice.table_advice import advise_table
from app.advice.what_if import IndexRequest, WhatIfRequest, try_indexes
from app.errors import PaimonIndexError
from app.file_index.bloom_filter.bloom_filter import payload_bytes as bloom_filter_bytes
from app.file_index.index_kinds import KINDS
from app.file_index.stacked_index import FileIndex
from app.planning.request.limits import Limits
from app.planning.request.requests import PlanRequest, SelectionForm, SnapshotSelector
from app.planning.service import IndexService
from app.planning.side_files.file_indexes import FileIndexes
from app.planning.usage import TableUsage
from app.planning.version.version import Version
from app.table.manifests.index_manifest import IndexEntry
from app.table.manifests.manifest_entry import FileKind
from app.types import DataField, parse_type
from app.types.index_files import GlobalIndex, IndexFileMeta
from tests import golden_cases
from tests.advice.indexed_tables import IndexedTable, events, grown, indexed_table
from tests.copied_tables import CopiedTable
from tests.examples import share
from tests.golden_cases import GoldenWarehouse
from tests.golden_checks import for_each
from tests.tables import EMPTY_ROW, MadeTable, entry, file_of, golden_ref, open_service

FILES = [events(300, first) for first in range(0, 3_000, 300)]
ID, NAME = (DataField(at, name, parse_type("BIGINT")) for at, name in enumerate(("id", "name")))
THRESHOLD = "file-index.in-manifest-threshold"


def piece(found: TableAdvice, subject: AdviceSubject) -> Advice:
    [advice] = [each for each in found.advice if each.subject is subject]
    return advice


def followed(options: Mapping[str, str], found: TableAdvice) -> dict[str, str]:
    merged = {**options, **found.options}
    return {name: value for name, value in merged.items() if value is not None}


def index_bytes(table: IndexedTable) -> int:
    return table.advice().index_bytes


def check_promise(
    tmp_path: Path, options: Mapping[str, str], subject: AdviceSubject, indexed: list[int] | None = None
) -> IndexedTable:
    """Take the advice; the indexes must then take what was promised, and the advice must be gone."""
    before = indexed_table(tmp_path, FILES, options, indexed=indexed)
    advice = piece(before.advice(), subject)
    after = indexed_table(tmp_path, FILES, followed(options, before.advice()))
    assert advice.bytes_saved is not None
    assert index_bytes(before) - index_bytes(after) == pytest.approx(advice.bytes_saved, rel=0.1)
    assert subject not in {each.subject for each in after.advice().advice}
    return after


def test_bloom_filters_for_a_million_values_beside_small_files(tmp_path: Path) -> None:
    after = check_promise(
        tmp_path, {"file-index.bloom-filter.columns": "city"}, AdviceSubject.BLOOM_FILTER_ITEMS
    )

    kept = after.made.plan(after.service, "city = 'nowhere'").summary.files_kept
    assert kept <= 5  # of ten, by filters of ten percent


def test_bitmaps_of_values_that_hardly_repeat(tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": "id,city"}

    found = indexed_table(tmp_path, FILES, options).advice()

    advice = piece(found, AdviceSubject.BITMAP_OF_MANY_VALUES)
    assert (advice.column, advice.files) == ("id", 10)
    assert found.options.items() >= {
        ("file-index.bitmap.columns", "city"),
        ("file-index.range-bitmap.columns", "id"),
    }
    after = indexed_table(tmp_path, FILES, followed(options, found))
    assert [(each.column, each.index) for each in after.advice().indexes] == [
        ("city", "bitmap"),
        ("id", "range-bitmap"),
    ]
    assert after.made.plan(after.service, "id = 299").summary.files_kept == 1


def test_a_bsi_where_a_range_bitmap_serves(tmp_path: Path) -> None:
    options = {"file-index.bsi.columns": "amount"}
    found = indexed_table(tmp_path, FILES, options).advice()

    after = indexed_table(tmp_path, FILES, followed(options, found))

    assert piece(found, AdviceSubject.RANGE_BITMAP_FOR_BSI).column == "amount"

    assert [each.index for each in after.advice().indexes] == ["range-bitmap"]


def test_a_bsi_beside_a_range_bitmap_goes(tmp_path: Path) -> None:
    options = {"file-index.bsi.columns": "amount", "file-index.range-bitmap.columns": "amount"}

    found = indexed_table(tmp_path, FILES, options).advice()

    assert piece(found, AdviceSubject.RANGE_BITMAP_FOR_BSI).column == "amount"
    assert "file-index.range-bitmap.columns" not in found.options
    assert found.options["file-index.bsi.columns"] is None


def test_files_without_the_indexes_that_options_name(tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": "city"}
    table = indexed_table(tmp_path, FILES, options, indexed=[0, 1, 2, 3])
    found = table.advice()
    [use] = found.indexes

    assert (use.files, use.files_without, found.files_without_index) == (4, 6, 6)
    assert piece(found, AdviceSubject.INDEX_MISSING).files == 6
    check_promise(tmp_path, options, AdviceSubject.INDEX_MISSING, indexed=[0, 1, 2, 3])


def test_indexes_that_are_large_beside_their_data_stay_until_somebody_decides(tmp_path: Path) -> None:
    """Nobody knows what it spares those whose plans were not counted."""
    options = {"file-index.range-bitmap.columns": "amount", THRESHOLD: "1 mb"}
    table = indexed_table(tmp_path, FILES, options)

    found = table.advice()

    large = piece(found, AdviceSubject.LARGE_INDEX)
    assert (large.column, large.bytes_saved) == ("amount", found.index_bytes)
    assert found.options == {}


def test_a_large_index_that_helped_is_no_matter_for_advice(tmp_path: Path) -> None:
    options = {"file-index.range-bitmap.columns": "amount", THRESHOLD: "1 mb"}
    table = indexed_table(tmp_path, FILES, options)
    table.made.plan(table.service, "amount >= 0")
    idle = piece(table.advice(table.usage()), AdviceSubject.LARGE_INDEX)
    table.made.plan(table.service, "amount = 17")

    found = table.advice(table.usage())

    assert "helped none of 1 plans" in idle.detail
    assert [(each.plans_asked, each.plans_useful) for each in found.indexes] == [(2, 1)]
    assert found.advice == []


def test_a_bitmap_that_helped_does_not_give_way_to_a_bloom_filter(tmp_path: Path) -> None:
    """A bitmap answers more: which rows, and which not."""
    table = indexed_table(tmp_path, FILES, {"file-index.bitmap.columns": "exact"})
    before = table.advice()

    table.made.plan(table.service, None, in_lists={"exact": ["1970-01-01T00:00:05"]})
    after = table.advice(table.usage())

    assert piece(before, AdviceSubject.BITMAP_OF_MANY_VALUES).column == "exact"
    assert before.options.keys() >= {"file-index.bitmap.columns", "file-index.bloom-filter.columns"}
    assert after.options.keys() == {THRESHOLD}


def test_missing_bloom_filters_get_room_for_the_rows_that_there_are(tmp_path: Path) -> None:
    """Without ``items`` each has room for a million values: their size is known before they are built."""
    options = {"file-index.bloom-filter.columns": "city"}

    after = check_promise(tmp_path, options, AdviceSubject.INDEX_MISSING, indexed=[])

    assert after.advice().index_bytes == pytest.approx(10 * bloom_filter_bytes(300, 0.1))
    found = indexed_table(tmp_path, FILES, options, indexed=[]).advice()
    assert "make room for 300 values, not 1,000,000" in piece(found, AdviceSubject.INDEX_MISSING).detail


def test_small_index_files_belong_into_manifests(tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": "city"}
    table = indexed_table(tmp_path, FILES, options)
    advice = piece(table.advice(), AdviceSubject.EMBED_INDEXES)

    after = indexed_table(tmp_path, FILES, followed(options, table.advice()))

    assert advice.files == 10
    assert list(table.made.directory.glob("bucket-0/*.index"))
    assert not list(after.made.directory.glob("bucket-0/*.index"))
    assert after.advice().index_bytes == table.advice().index_bytes


def test_what_plans_never_needed(tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": "city,amount", THRESHOLD: "1 mb"}
    table = indexed_table(tmp_path, FILES, options)
    for number in range(30):
        table.made.plan(table.service, f"city = 'city {number % 5}' AND id > {number}")

    found = table.advice(table.usage())

    idle = piece(found, AdviceSubject.INDEX_WITHOUT_EFFECT)
    assert (idle.column, "30 of the last 30 plans" in idle.detail) == ("city", True)
    assert found.options == {"file-index.bitmap.columns": None, "file-index.range-bitmap.columns": "amount"}
    assert piece(found, AdviceSubject.COLUMN_WITHOUT_INDEX).column == "id"
    assert [(each.filter, each.plans) for each in found.shapes] == [("`city` = ? AND `id` > ?", 30)]


def test_only_plans_in_which_nothing_was_skipped_ask_for_an_index(tmp_path: Path) -> None:
    """Bounds answer look-ups by id; amounts are spread over all files."""
    made = MadeTable.make(tmp_path, [ID, NAME])
    made.commit([file_of(f"data-{at}", {ID: [at, at], NAME: [0, 9]}, bounded=True) for at in range(3)])
    with closing(open_service(tmp_path)) as service:
        for _ in range(20):
            made.plan(service, "id = 1 AND name >= 0")
            made.plan(service, "name = 5")
        usage = service.usage.of_table(made.version(service))

        found = advise_table(made.version(service), usage)

    advised = piece(found, AdviceSubject.COLUMN_WITHOUT_INDEX)
    assert (advised.column, "20 of the last 40 plans" in advised.detail) == ("name", True)


def test_a_bloom_filter_that_lists_pass_is_told_the_rate_that_they_need(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {"file-index.bloom-filter.columns": "city"})
    for number in range(20):
        table.made.plan(table.service, f"city IN ('city {number % 5}', 'city 0', 'city 1')")

    idle = piece(table.advice(table.usage()), AdviceSubject.INDEX_WITHOUT_EFFECT)

    assert "set its fpp to 0.1 divided by the number of values" in idle.detail


def test_indexes_that_outweigh_the_data_have_a_warning(tmp_path: Path) -> None:
    files = grown([events(300, first) for first in (0, 300)])
    table = indexed_table(tmp_path, files, {"file-index.bloom-filter.columns": "city,id,amount"})

    warnings = table.advice().warnings

    assert any("beside" in each and "plans may read more than they spare" in each for each in warnings)


def test_a_column_with_a_global_index_has_one(tmp_path: Path) -> None:
    options = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    made = MadeTable.make(tmp_path, [ID, NAME], options=options)
    covered = GlobalIndex(0, 9, ID.id, None, None)
    file = IndexFileMeta("btree", "btree-1.index", 100, 10, global_index=covered)
    files = [entry(file_name="data-1.parquet", partition=EMPTY_ROW, row_count=10, first_row_id=0)]
    made.commit(files, index_entries=[IndexEntry(FileKind.ADD, EMPTY_ROW, 0, file)])
    service = open_service(tmp_path)
    usage = TableUsage(plans=30, columns=Counter({"id": 30, "name": 30}))

    found = advise_table(made.version(service), usage)

    service.close()
    assert piece(found, AdviceSubject.COLUMN_WITHOUT_INDEX).column == "name"
    assert "id: global indexes, which are not weighed here" in found.warnings


def test_what_was_spared(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {"file-index.range-bitmap.columns": "id"})
    sizes = [path.stat().st_size for path in sorted(table.made.directory.glob("bucket-0/*.parquet"))]
    table.made.plan(table.service, "id = 5")
    table.service.plan(table.made.ref, PlanRequest(filter="id = 5"), is_counted=False)

    usage = table.usage()

    assert (usage.plans, usage.files, usage.bytes) == (1, 9, sum(sizes) - sizes[0])
    assert Prices(5.0, 0.4).of(2 * 10**12, 3_000) == pytest.approx(11.2)
    assert Prices().of(1, 1) is None


def test_a_part_of_the_files_stands_for_all(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {"file-index.bitmap.columns": "city"})

    some, whole = table.advice(most_files=5), table.advice()

    assert (some.files, some.files_examined) == (10, 5)
    assert some.index_bytes == pytest.approx(whole.index_bytes, rel=0.1)
    assert [each.files for each in some.indexes] == [10]


def test_a_table_that_needs_nothing(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {"file-index.bitmap.columns": "city", THRESHOLD: "1 mb"})

    assert table.advice().advice == []


def test_a_damaged_index_is_told(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {"file-index.bitmap.columns": "amount"})
    table.made.side_file("data-3.parquet").unlink()

    found = table.advice()

    assert [each.files for each in found.indexes] == [9]
    damaged, too_small = found.warnings
    assert "data-3.parquet.index" in damaged
    assert "too little for any index to matter" in too_small


def test_usage_of_several_processes_adds_up(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {"file-index.bitmap.columns": "city"})
    for _ in range(3):
        table.made.plan(table.service, "city = 'city 1'")
    usage = table.usage()

    other = TableUsage.of_json(usage.to_json())  # type: ignore[arg-type]
    other.merge(usage)

    assert (other.plans, other.asked["city", "bitmap"], other.shapes["`city` = ?"]) == (6, 6, 6)


def test_all_advice_is_one_set_of_options_with_one_verdict_an_index(tmp_path: Path) -> None:
    options = {"file-index.bsi.columns": "amount,at", "file-index.bitmap.columns": "id,city"}

    found = indexed_table(tmp_path, grown(FILES), options, indexed=[0, 1, 2]).advice()

    verdicts = [(each.column, each.index) for each in found.advice if each.index is not None]
    assert sorted(verdicts) == [("amount", "bsi"), ("at", "bsi"), ("city", "bitmap"), ("id", "bitmap")]
    assert found.statements[0].startswith("ALTER TABLE `golden`.`made0` SET TBLPROPERTIES (")
    assert "'file-index.range-bitmap.columns' = 'amount,at,id'" in found.statements[0]
    assert "ALTER TABLE `golden`.`made0` UNSET TBLPROPERTIES ('file-index.bsi.columns')" in found.statements
    assert found.command == (
        f"paimon-index job build-index golden.made0 --warehouse file://{tmp_path} "
        "--take-off amount=bsi --take-off at=bsi --take-off id=bitmap"
    )


def test_what_only_a_job_was_told_to_build_stays(tmp_path: Path) -> None:
    """Bitmaps and bloom filters of cities are in all files, and no option names them."""
    declared = {"file-index.bsi.columns": "amount"}
    built = {**declared, "file-index.bitmap.columns": "city", "file-index.bloom-filter.columns": "city"}

    found = indexed_table(tmp_path, grown(FILES), built, declared=declared).advice()

    assert {each.column: each.declared for each in found.indexes} == {"amount": True, "city": False}
    assert not any("city" in statement for statement in found.statements)
    assert found.command is not None
    assert found.command.partition(" --take-off ")[2] == "amount=bsi"


def test_a_bloom_filter_for_fewer_values_is_built_again(tmp_path: Path) -> None:
    """A job passes over files that have one, unless no option would tell it what to build."""
    options = {"file-index.bloom-filter.columns": "city"}

    named = indexed_table(tmp_path, grown(FILES), options).advice()
    unnamed = indexed_table(tmp_path, grown(FILES), options, declared={}).advice()

    for found in (named, unnamed):
        assert piece(found, AdviceSubject.BLOOM_FILTER_ITEMS).column == "city"
    assert named.command is not None
    assert named.command.endswith(" --rebuild")
    assert (unnamed.options, unnamed.command) == ({}, None)


def test_a_small_table_has_a_warning_and_nothing_to_paste(tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": "city"}

    small, large = (
        indexed_table(tmp_path, files, options, indexed=[]).advice() for files in (FILES, grown(FILES))
    )

    assert (small.statements, small.command) == ([], None)
    assert ["too little for any index to matter" in each for each in small.warnings] == [True]
    assert (large.command is None, large.warnings) == (False, [])


# Every file has just the indexes that the options name.
BUILT = ["append_sidecar", "append_embedded", "append_partitioned", "append_orc", "map_index", "all_types"]
PLAIN = ("append_sidecar", "append_orc")


@pytest.fixture(scope="module")
def service(golden: GoldenWarehouse) -> IndexService:
    return open_service(golden.root, golden.allow_external(), engine_writes_only=True)


def payload_bytes(version: Version) -> int:
    """Of every index of every file, file by file."""
    files, indexes = version.files().all(), FileIndexes(version)
    indexed = files[indexes.has_index(files)]
    wanted = frozenset((each.column, KINDS[each.kind]) for each in version.schema.options.file_indexes)
    total = 0
    for _, index in indexes.open(np.sort(indexed), wanted):
        assert isinstance(index, FileIndex)
        total += sum(entry.length for listed in index.entries.values() for entry in listed)
    return total


@for_each("name", golden_cases.tables())
def test_every_table_is_advised_on(service: IndexService, name: str) -> None:
    version = service.resolve(golden_ref(name), SnapshotSelector())
    try:
        files = len(version.files())
    except PaimonIndexError as error:
        with pytest.raises(type(error)):
            advise_table(version, TableUsage())
        return

    found = advise_table(version, TableUsage())

    assert found.files == files
    # Golden tables are small.
    assert all("too little for any index to matter" in each for each in found.warnings)
    assert len(found.warnings) == bool(found.advice)
    assert found.index_bytes >= sum(each.bytes for each in found.indexes if each.declared)
    assert all(each.files + each.files_without <= files for each in found.indexes)
    if name in BUILT:
        assert found.index_bytes == payload_bytes(version)
        assert found.files_without_index == 0


def conditions(name: str) -> list[Any]:
    queries = golden_cases.expected(name)["queries"]
    latest = [
        query["filter_sql"] or query["predicate"]
        for query in queries
        if not (query["tag"] or query["branch"] or query["topn"] or query["limit"] or query["snapshot_id"])
    ]
    return [each for each in latest if each]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in PLAIN else pytest.mark.long) for name in BUILT],
)
def test_what_if_says_what_the_engines_indexes_do(
    golden: GoldenWarehouse, tmp_path: Path, service: IndexService, name: str
) -> None:
    bare = CopiedTable.copy(golden, name, tmp_path)
    for path in bare.directory.glob("schema/schema-*"):
        schema = json.loads(path.read_text())
        schema["options"]["file-index.read.enabled"] = "false"
        path.write_text(json.dumps(schema))
    version = bare.service.resolve(bare.ref, SnapshotSelector())
    filters = share(conditions(name)[:40], 3)

    declared = [
        IndexRequest(column=index.column, index=index.kind, options=dict(index.parameters))
        for index in version.schema.options.file_indexes
    ]
    # More at once than a caller may ask.
    request = WhatIfRequest.model_construct(indexes=declared, filters=filters, files=1_000, bytes=1 << 30)
    found = try_indexes(version, request, Limits())

    left_out = 0
    for written, effect in zip(filters, found.filters, strict=True):
        asked = PlanRequest(filter=written, selection=SelectionForm.NONE)
        kept = service.plan(golden_ref(name), asked).summary.files_kept
        assert effect.files_kept - effect.effects[-1].files == kept, written
        left_out += effect.effects[-1].files > 0
    assert left_out > len(filters) / 10
