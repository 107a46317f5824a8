"""Filters that pin keys, on tables whose rows are known to be in certain buckets."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.planning.plan.answers import Plan
from app.planning.plan.file_plan import SkipStep
from app.planning.request.requests import PlanRequest
from app.planning.scan.bucket_pruning import MAX_KEYS, pinned_keys
from app.planning.service import IndexService
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    BoundAnd,
    BoundLeaf,
    BoundOr,
    BoundPredicate,
    Operator,
    Unknown,
)
from app.types import DataField, Value
from tests.copied_tables import CopyTable
from tests.examples import share
from tests.golden_cases import expected
from tests.planning.strategies import FIELDS, NAME, NUMBER, RATIO, leaf, pool, predicates
from tests.row_matches import matches
from tests.tables import all_files, either, equals, golden_ref

_BUCKET_KEYS = {"append_bucketed": "order_id", "bucketed_dv": "txn"}
_DYNAMIC_TABLES = ("dyn_bucket", "dyn_bucket_max", "dyn_bucket_two")


def written_keys(table: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield first and the last key of each data file, with the file: rows that are surely in its bucket."""
    for file in expected(table)["versions"][0]["files"]:
        if table in _BUCKET_KEYS:
            column = _BUCKET_KEYS[table]
            for end in ("min", "max"):
                yield {column: file["value_stats"][column][end]}, file
        else:
            yield file["min_key"], file
            yield file["max_key"], file


def plan(service: IndexService, table: str, written: dict[str, Any]) -> Plan:
    return service.plan(golden_ref(table), PlanRequest(filter=written, explain=True))


def pruned_buckets(plan: Plan) -> dict[tuple[str, int], bool]:
    """Whether the files of a bucket were left out by the bucket step; one answer a bucket."""
    found: dict[tuple[str, int], bool] = {}
    for file in all_files(plan):
        if file.reason is SkipStep.PARTITION:
            continue
        place = (str(dict(file.partition)), file.bucket)
        pruned = file.reason is SkipStep.BUCKET
        assert found.setdefault(place, pruned) == pruned, f"bucket {place} was pruned in part"
    return found


@pytest.mark.parametrize("table", ["pk_merge", "append_bucketed", "bucketed_dv", "dyn_index_in_dir"])
def test_a_filter_that_pins_a_written_key_reads_its_bucket_alone(service: IndexService, table: str) -> None:
    for key, holder in written_keys(table):
        answer = plan(service, table, equals(key))

        for (_, bucket), pruned in pruned_buckets(answer).items():
            assert pruned == (bucket != holder["bucket"]), key
        if table != "bucketed_dv":  # the rows at its files' ends may be deleted
            assert holder["file"] in {file.file_name for file in answer.files}


def test_a_filter_that_pins_half_a_key_prunes_no_bucket(service: IndexService) -> None:
    for key, _ in written_keys("pk_merge"):
        answer = plan(service, "pk_merge", equals({"key_a": key["key_a"]}))

        assert not any(pruned_buckets(answer).values())


@pytest.mark.parametrize("table", _DYNAMIC_TABLES)
def test_a_pinned_key_is_looked_for_where_the_hash_index_has_it(service: IndexService, table: str) -> None:
    recorded = expected(table)["dynamic_bucket"]
    for written in share(recorded["keys"][::5], 4):
        answer = plan(service, table, equals(written["key"]))

        holding = {
            (str(index["partition"]), index["bucket"])
            for index in recorded["buckets"]
            if written["hash"] in index["hashes"]
        }
        assert (str(written["partition"]), written["bucket"]) in holding
        for place, pruned in pruned_buckets(answer).items():
            assert pruned == (place not in holding), written
        kept = {(str(dict(file.partition)), file.bucket) for file in answer.files}
        assert (str(written["partition"]), written["bucket"]) in kept


@pytest.mark.parametrize("table", _DYNAMIC_TABLES)
def test_several_pinned_keys_keep_the_buckets_of_all(service: IndexService, table: str) -> None:
    written = expected(table)["dynamic_bucket"]["keys"][::40]
    by_partition: dict[str, set[int]] = defaultdict(set)
    for each in written:
        by_partition[str(each["partition"])].add(each["bucket"])

    answer = plan(service, table, either(*(equals(each["key"] | each["partition"]) for each in written)))

    pruned = pruned_buckets(answer)
    for partition, buckets in by_partition.items():
        assert not any(pruned[partition, bucket] for bucket in buckets)


@pytest.mark.parametrize("table", _DYNAMIC_TABLES)
def test_a_key_that_was_never_written_is_in_no_bucket(service: IndexService, table: str) -> None:
    recorded = expected(table)["dynamic_bucket"]
    hashes = {hashed for index in recorded["buckets"] for hashed in index["hashes"]}
    new = next(each for each in recorded["new_keys"] if each["hash"] not in hashes)

    answer = plan(service, table, equals(new["key"]))

    assert not answer.files
    assert all(pruned_buckets(answer).values())


def _cut(count: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes()[:-count])


@pytest.mark.parametrize("damage", [Path.unlink, _cut(4), _cut(1)], ids=["gone", "cut", "cut within a hash"])
def test_a_bucket_whose_hash_index_cannot_be_used_is_kept(
    copy_table: CopyTable, damage: Callable[[Path], None]
) -> None:
    copied = copy_table("dyn_bucket")
    recorded = expected("dyn_bucket")["dynamic_bucket"]
    written = recorded["keys"][0]
    broken = next(
        index
        for index in recorded["buckets"]
        if index["partition"] == written["partition"] and index["bucket"] != written["bucket"]
    )
    place = (str(broken["partition"]), broken["bucket"])
    intact = copied.plan(equals(written["key"]))
    assert pruned_buckets(intact)[place]

    damage(copied.directory / "index" / str(broken["index_file"]))
    damaged = copied.plan(equals(written["key"]))

    assert pruned_buckets(damaged) == pruned_buckets(intact) | {place: False}
    assert {file.file_name for file in intact.files} <= {file.file_name for file in damaged.files}
    assert [str(broken["index_file"]) in warning for warning in damaged.warnings] == [True]


def test_buckets_without_a_hash_index_are_kept(copy_table: CopyTable) -> None:
    copied = copy_table("dyn_bucket")
    written = expected("dyn_bucket")["dynamic_bucket"]["keys"][0]
    for path in copied.directory.glob("snapshot/snapshot-*"):
        snapshot = json.loads(path.read_text())
        path.write_text(json.dumps(snapshot | {"indexManifest": None}))

    assert not any(pruned_buckets(copied.plan(equals(written["key"]))).values())


def test_keys_that_move_between_partitions_prune_no_bucket(copy_table: CopyTable) -> None:
    copied = copy_table("dyn_bucket")
    copied.change_schema(lambda schema: schema.update(primaryKeys=["uid"]))

    answer = copied.plan(equals(expected("dyn_bucket")["dynamic_bucket"]["keys"][0]["key"]))

    assert not any(pruned_buckets(answer).values())


@pytest.mark.parametrize(
    ("table", "options"),
    [("pk_merge", {"bucket": "-2"}), ("append_bucketed", {"bucket-function.type": "modern"})],
    ids=["postponed buckets", "a function that nobody knows"],
)
def test_buckets_that_no_key_leads_to_are_not_pruned(
    copy_table: CopyTable, table: str, options: dict[str, str]
) -> None:
    copied = copy_table(table)
    copied.change_schema(lambda schema: schema["options"].update(options))

    for key, _ in written_keys(table):
        assert not any(pruned_buckets(copied.plan(equals(key))).values())


_ALL_ROWS = [
    dict(zip((field.id for field in FIELDS), values, strict=True))
    for values in product(*((None, *pool(field.type)) for field in FIELDS))
]


def is_one_of(field: DataField, *values: Value) -> BoundLeaf:
    return leaf(Operator.IN, field, values)


def stored(key: Sequence[object]) -> tuple[str, ...]:
    """Return a key as its bytes tell it apart: the two zeros differ."""
    return tuple(repr(value) for value in key)


def matching_keys(predicate: BoundPredicate, fields: Sequence[DataField]) -> Iterator[tuple[str, ...]]:
    for row in _ALL_ROWS:
        if matches(predicate, row) is not False:
            yield stored([row[field.id] for field in fields])


@given(
    predicate=predicates(with_unknown=True),
    fields=st.lists(st.sampled_from(FIELDS), min_size=1, unique_by=lambda field: field.id),
)
def test_every_matching_row_has_a_pinned_key(predicate: BoundPredicate, fields: list[DataField]) -> None:
    keys = pinned_keys(predicate, fields)

    if keys is not None:
        assert set(matching_keys(predicate, fields)) <= {stored(key) for key in keys}


@given(
    per_field=st.tuples(
        *(st.lists(st.sampled_from(pool(field.type)), min_size=1, max_size=3) for field in (NUMBER, NAME))
    )
)
def test_equalities_of_every_column_pin_just_their_product(per_field: tuple[list[Value], ...]) -> None:
    predicate = BoundAnd((is_one_of(NUMBER, *per_field[0]), is_one_of(NAME, *per_field[1])))

    keys = pinned_keys(predicate, (NUMBER, NAME))

    assert keys is not None
    assert set(keys) == set(product(*per_field))
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("literal", [0.0, -0.0])
def test_zero_pins_both_of_its_stored_forms(literal: float) -> None:
    keys = pinned_keys(is_one_of(RATIO, literal), (RATIO,))

    assert keys is not None
    assert sorted(map(stored, keys)) == [("-0.0",), ("0.0",)]


@pytest.mark.parametrize("others", [(), (1.5,)])
def test_nan_pins_nothing(others: tuple[float, ...]) -> None:
    assert pinned_keys(is_one_of(RATIO, math.nan, *others), (RATIO,)) is None


def test_a_contradiction_pins_no_key() -> None:
    assert pinned_keys(BoundAnd((is_one_of(NUMBER, 1), is_one_of(NUMBER, 2))), (NUMBER,)) == []
    assert pinned_keys(ALWAYS_FALSE, FIELDS) == []


@pytest.mark.parametrize(
    "predicate",
    [
        ALWAYS_TRUE,
        Unknown("f(number) = 1"),
        BoundLeaf(Operator.BETWEEN, NUMBER, (1, 2)),
        BoundLeaf(Operator.IS_NULL, NUMBER),
        is_one_of(NAME, b"a"),
        BoundOr((is_one_of(NUMBER, 1), is_one_of(NAME, b"a"))),
        BoundOr((is_one_of(NUMBER, 1), Unknown("f(number)"))),
    ],
    ids=str,
)
def test_what_leaves_a_column_open_pins_nothing(predicate: BoundPredicate) -> None:
    assert pinned_keys(predicate, (NUMBER,)) is None


def test_an_unknown_part_beside_an_equality_leaves_the_equality_to_pin() -> None:
    assert pinned_keys(BoundAnd((is_one_of(NUMBER, 1), Unknown("f(name)"))), (NUMBER,)) == [(1,)]


def test_more_keys_than_are_worth_trying_pin_nothing() -> None:
    many = BoundLeaf(Operator.IN, NUMBER, tuple(range(MAX_KEYS)))
    too_many = BoundLeaf(Operator.IN, NUMBER, tuple(range(MAX_KEYS + 1)))
    too_large_a_product = BoundAnd((many, is_one_of(NAME, b"a", b"ab")))

    assert pinned_keys(many, (NUMBER,)) == [(number,) for number in range(MAX_KEYS)]
    assert pinned_keys(too_many, (NUMBER,)) is None
    assert pinned_keys(too_large_a_product, (NUMBER, NAME)) is None
