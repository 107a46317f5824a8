"""Indexes that nobody has built: what is promised is what a plan finds once they are built."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.advice.what_if import Effect, IndexRequest, WhatIf, WhatIfRequest, try_indexes
from app.building.columns import DataFormat
from app.observation import Observer, StorageCall, observed_by
from app.planning.plan import PlanState
from app.planning.request.limits import Limits
from app.work.ledger import LEDGER
from tests.advice.indexed_tables import IndexedTable, events, indexed_table
from tests.examples import share

FILES = [events(300, first, cities=2 + first // 300) for first in range(0, 6_000, 300)]
KINDS = {"bitmap": "city", "range-bitmap": "amount", "bsi": "at", "bloom-filter": "id"}
FILTERS = {
    "bitmap": ["city = 'city 9'", "city IN ('city 3', 'city 19') OR city IS NULL"],
    "range-bitmap": ["amount = 17", "amount BETWEEN 3 AND 4", "amount > 998"],
    "bsi": ["at = TIMESTAMP '1970-01-01 00:10:00'", "at > TIMESTAMP '1970-01-01 01:00:00'"],
    "bloom-filter": ["id = 4_000".replace("_", ""), "id IN (1, 2)"],
}


def tried(table: IndexedTable, *indexes: IndexRequest, filters: list[str], **how: Any) -> WhatIf:
    request = WhatIfRequest(indexes=indexes, filters=filters, **how)
    return try_indexes(table.version, request, Limits())


def alone(found: WhatIf, at: int = 0) -> Effect:
    return found.filters[at].effects[0]


@pytest.mark.parametrize("data_format", share([DataFormat.PARQUET, DataFormat.ORC], 2))
@pytest.mark.parametrize("kind", KINDS)
def test_the_effect_is_that_of_the_built_index(tmp_path: Path, kind: str, data_format: DataFormat) -> None:
    bare = indexed_table(tmp_path, FILES, {}, data_format=data_format)
    parameters = {"items": "300"} if kind == "bloom-filter" else {}
    option = f"file-index.{kind}.{KINDS[kind]}"
    options = {f"file-index.{kind}.columns": KINDS[kind]} | {
        f"{option}.{name}": value for name, value in parameters.items()
    }
    built = indexed_table(tmp_path, FILES, options, data_format=data_format)

    found = tried(
        bare,
        IndexRequest(column=KINDS[kind], index=kind, options=parameters),
        filters=FILTERS[kind],
        files=1_000,
    )

    assert found.warnings == []
    assert found.files_read == 20
    assert found.indexes[0].index_bytes == built.advice().index_bytes
    for at, written in enumerate(FILTERS[kind]):
        plan = built.made.plan(built.service, written)
        effect = alone(found, at)
        assert effect.files == plan.summary.files_skipped
        assert effect.bytes == plan.summary.bytes_total - plan.summary.bytes_kept
        assert found.filters[at].files_kept == 20


def test_files_that_no_memory_can_be_claimed_for_are_not_read(
    tmp_path: Path, limit_memory: Callable[[int], None]
) -> None:
    table = indexed_table(tmp_path, FILES[:2], {})
    limit_memory(20_000)

    found = tried(table, IndexRequest(column="city", index="bitmap", options={}), filters=["city = 'city 9'"])

    assert (found.files_read, found.bytes_read, alone(found).files) == (0, 0, 0)
    assert len(found.warnings) == 2
    assert all("PAIMON_INDEX_MEMORY_BYTES" in warning for warning in found.warnings)


@pytest.mark.parametrize("data_format", [DataFormat.PARQUET, DataFormat.ORC])
def test_memory_is_claimed_before_a_file_is_read(tmp_path: Path, data_format: DataFormat) -> None:
    table = indexed_table(tmp_path, FILES[:2], {}, data_format=data_format)
    claims: list[int] = []

    class Claims(Observer):
        def storage_called(self, call: StorageCall) -> None:
            if call.path.endswith(data_format):
                claims.append(LEDGER.claimed["decoding"])

    with observed_by(Claims()):
        tried(table, IndexRequest(column="id", index="bitmap", options={}), filters=["id = 7"])

    assert len(claims) == 2
    assert min(claims) > 32 << 20


def test_plans_of_filters_are_not_kept_while_files_are_tried(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES[:2], {})
    states: list[int] = []

    class States(Observer):
        def storage_called(self, call: StorageCall) -> None:
            if call.path.endswith("parquet"):
                states.append(sum(isinstance(each, PlanState) for each in gc.get_objects()))

    with observed_by(States()):
        index = IndexRequest(column="id", index="bitmap", options={})
        tried(table, index, filters=[f"id = {number}" for number in range(3)])

    assert states == [0, 0]


def test_indexes_that_are_there_take_part(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {"file-index.bitmap.columns": "city"})
    # Each alone keeps every file with such a row; together they know that it is not the same one.
    written = "city = 'city 1' AND amount = 17"
    both = {"file-index.bitmap.columns": "city", "file-index.range-bitmap.columns": "amount"}
    built = indexed_table(tmp_path, FILES, both)

    found = tried(
        table, IndexRequest(column="amount", index="range-bitmap", options={}), filters=[written], files=1_000
    )

    kept = built.made.plan(built.service, written).summary.files_kept
    assert found.filters[0].files_kept - alone(found).files == kept


def test_damaged_indexes_of_the_table_are_told(tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": "city", "file-index.in-manifest-threshold": "1 b"}
    table = indexed_table(tmp_path, FILES[:2], options)
    damaged = table.made.side_file("data-1.parquet")
    damaged.write_bytes(b"no index" + damaged.read_bytes())

    found = tried(
        table, IndexRequest(column="amount", index="range-bitmap", options={}), filters=["city = 'city 1'"]
    )

    assert any(damaged.name in warning for warning in found.warnings)


def test_several_indexes_alone_and_together(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {})
    indexes = [
        IndexRequest(column="city", index="bitmap", options={}),
        IndexRequest(column="amount", index="range-bitmap", options={}),
    ]

    [effect] = tried(table, *indexes, filters=["city = 'city 9' AND amount = 17"], files=1_000).filters

    by_index = {each.column: each.files for each in effect.effects}
    assert list(by_index) == ["city", "amount", None]
    assert by_index[None] >= max(by_index["city"], by_index["amount"])


def test_what_is_told_is_of_the_files_that_were_tried(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {})
    index = IndexRequest(column="city", index="bitmap", options={})

    [effect] = tried(table, index, filters=["city = 'what?'"], files=10, seed=3).filters

    assert (effect.files_kept, effect.files_tried, effect.effects[0].files) == (20, 10, 10)
    assert 0 < effect.effects[0].bytes < effect.bytes_kept


def test_what_the_plan_warns_of_is_told(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {"file-index.bitmap.columns": "city"})
    path = table.made.directory / "bucket-0" / "data-4.parquet.index"
    path.write_bytes(b"\xff" * path.stat().st_size)

    found = tried(
        table, IndexRequest(column="amount", index="bsi", options={}), filters=["city = 'city 9'"], files=1
    )

    assert any("data-4.parquet.index" in warning for warning in found.warnings)


def test_an_index_that_is_larger_than_the_data_is_warned_of(tmp_path: Path) -> None:
    """Without ``items`` a bloom filter has room for a million values."""
    table, filters = indexed_table(tmp_path, FILES[:2], {}), ["city = 'city 1'"]

    roomy = tried(table, IndexRequest(column="city", index="bloom-filter", options={}), filters=filters)
    fitting = tried(
        table, IndexRequest(column="city", index="bloom-filter", options={"items": "300"}), filters=filters
    )

    assert ["the bloom-filter of 'city' would be larger than" in each for each in roomy.warnings] == [True]
    assert fitting.warnings == []


def test_a_question_mark_of_a_name_or_text_is_no_placeholder(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {})
    index = IndexRequest(column="city", index="bitmap", options={})

    assert alone(tried(table, index, filters=["city = 'what?'"], files=1_000)).files == 20


def test_bytes_are_bounded(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {})

    found = tried(
        table,
        IndexRequest(column="city", index="bitmap", options={}),
        filters=["city = 'city 9'"],
        bytes=10_000,
    )

    assert 0 < found.files_read < 20
    assert found.bytes_read <= 10_000
    assert len(found.warnings) == 1


def test_a_damaged_data_file_is_not_tried(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, FILES, {})
    path = table.made.directory / "bucket-0" / "data-4.parquet"
    path.write_bytes(b"PAR1" + path.read_bytes()[4:-8] + b"\xff" * 8)

    found = tried(
        table,
        IndexRequest(column="city", index="bitmap", options={}),
        filters=["city = 'city 9'"],
        files=1_000,
    )

    assert found.filters[0].files_tried == 19
    assert "data-4.parquet" in found.warnings[0]
