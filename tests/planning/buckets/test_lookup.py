"""Look-ups, buckets and assignments against what the engine wrote and would write."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from app.errors import CorruptIndexError, FileMissingError, FilterError
from app.planning.buckets.answers import BucketLookup
from app.planning.request.requests import AssignRequest, BucketsRequest, LookupRequest
from app.planning.service import IndexService
from tests.copied_tables import CopyTable
from tests.golden_cases import expected
from tests.tables import golden_ref

_DYNAMIC_TABLES = ("dyn_bucket", "dyn_bucket_max", "dyn_bucket_two")
_FIXED_TABLES = {"append_bucketed": "order_id", "bucketed_dv": "txn", "pk_merge": None}


def by_partition(keys: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], list[Any]]]:
    found: dict[str, list[Any]] = {}
    for each in keys:
        found.setdefault(str(each["partition"]), []).append(each)
    for members in found.values():
        yield members[0]["partition"], members


def lookup(service: IndexService, table: str, **asked: Any) -> BucketLookup:
    return service.lookup(golden_ref(table), LookupRequest(**asked))


@pytest.mark.parametrize("table", _DYNAMIC_TABLES)
def test_hashes_and_whole_keys_are_answered_alike(service: IndexService, table: str) -> None:
    for partition, keys in by_partition(expected(table)["dynamic_bucket"]["keys"]):
        by_hash = lookup(service, table, partition=partition, hashes=tuple(each["hash"] for each in keys))
        whole_keys = tuple(each["key"] | partition for each in keys)

        assert by_hash == lookup(service, table, partition=partition, keys=whole_keys)


@pytest.mark.parametrize("table", _DYNAMIC_TABLES)
def test_new_keys_are_assigned_as_the_engine_assigns_them(service: IndexService, table: str) -> None:
    recorded = expected(table)["dynamic_bucket"]
    strategies = set()
    for partition, keys in by_partition(recorded["new_keys"]):
        if recorded["max_buckets"] != -1 and partition != recorded["new_keys"][0]["partition"]:
            continue  # a bounded assigner counts buckets of the partitions that it met before
        for assigner in range(recorded["assigners"]):
            own = [each for each in keys if each["assigner"] == assigner]
            asked = AssignRequest(
                partition=partition,
                keys=tuple(each["key"] for each in own),
                assign_id=assigner,
                num_assigners=recorded["assigners"],
                num_channels=recorded["channels"],
            )
            answer = service.assign(golden_ref(table), asked)

            for ours, engine in zip(answer.buckets, own, strict=True):
                strategies.add(ours.strategy)
                assert ours.key_hash == engine["hash"]
                if ours.strategy == "random":
                    assert ours.bucket in engine["permitted"]
                    assert sorted(ours.permitted or ()) == sorted(engine["permitted"])
                else:
                    assert ours.bucket == engine["bucket"]
                    assert ours.permitted is None
    assert strategies & {"new", "random"}


@pytest.mark.parametrize("table", _DYNAMIC_TABLES)
def test_a_written_key_is_assigned_to_where_it_is(service: IndexService, table: str) -> None:
    recorded = expected(table)["dynamic_bucket"]
    for partition, keys in by_partition(recorded["keys"]):
        for assigner in range(recorded["assigners"]):
            own = [each for each in keys if each["assigner"] == assigner]
            asked = AssignRequest(
                partition=partition,
                hashes=tuple(each["hash"] for each in own),
                assign_id=assigner,
                num_assigners=recorded["assigners"],
                num_channels=recorded["channels"],
            )
            answer = service.assign(golden_ref(table), asked)

            assert [(each.bucket, each.strategy) for each in answer.buckets] == [
                (each["bucket"], "existing") for each in own
            ]


def test_a_key_of_another_assigner_is_refused(service: IndexService) -> None:
    recorded = expected("dyn_bucket_two")["dynamic_bucket"]
    foreign = next(each for each in recorded["new_keys"] if each["assigner"] == 1)
    asked = AssignRequest(
        partition=foreign["partition"], hashes=(foreign["hash"],), num_assigners=2, num_channels=2
    )

    with pytest.raises(FilterError):
        service.assign(golden_ref("dyn_bucket_two"), asked)


@pytest.mark.parametrize("table", _DYNAMIC_TABLES)
def test_buckets_tell_their_index_and_their_files(service: IndexService, table: str) -> None:
    document = expected(table)
    recorded = document["dynamic_bucket"]
    rows: dict[tuple[str, int], list[int]] = defaultdict(list)
    for file in document["versions"][0]["files"]:
        rows[str(file["partition"]), file["bucket"]].append(file["row_count"])

    answer = service.buckets(golden_ref(table), BucketsRequest())

    found = {(str(dict(each.partition)), each.bucket): each for each in answer.buckets}
    assert set(found) == set(rows)
    for index in recorded["buckets"]:
        ours = found[str(index["partition"]), index["bucket"]]
        assert str(ours.index_file).endswith(index["index_file"])
        assert ours.index_rows == index["row_count"]
        assert ours.full == (index["row_count"] >= recorded["target_row_num"])
    for place, counts in rows.items():
        assert (found[place].data_files, found[place].rows) == (len(counts), sum(counts))


@pytest.mark.parametrize("table", ["bucketed_dv", "dyn_bucket"])
def test_buckets_of_one_partition_are_a_part_of_all(service: IndexService, table: str) -> None:
    every = service.buckets(golden_ref(table), BucketsRequest()).buckets
    partitions = {str(dict(each.partition)): each.partition for each in every}.values()
    assert len(partitions) > 1

    for partition in partitions:
        answer = service.buckets(golden_ref(table), BucketsRequest(partition=partition))

        assert answer.buckets == tuple(each for each in every if each.partition == partition)


@pytest.mark.parametrize("table", _FIXED_TABLES)
def test_fixed_buckets_are_where_the_files_lie(service: IndexService, table: str) -> None:
    column = _FIXED_TABLES[table]
    for file in expected(table)["versions"][0]["files"]:
        keys: tuple[dict[str, Any], ...]
        if column is None:
            keys = (file["min_key"], file["max_key"])
        else:
            keys = tuple({column: file["value_stats"][column][end]} for end in ("min", "max"))

        answer = lookup(service, table, partition=file["partition"], keys=keys)

        assert answer.bucket_mode == "hash_fixed"
        assert [each.bucket for each in answer.buckets] == [file["bucket"]] * 2
        hashes = tuple(each.key_hash for each in answer.buckets)
        assert lookup(service, table, partition=file["partition"], hashes=hashes) == answer


@pytest.mark.parametrize("table", _FIXED_TABLES)
def test_fixed_buckets_have_files_and_no_index(service: IndexService, table: str) -> None:
    files = expected(table)["versions"][0]["files"]
    counts = Counter((str(file["partition"]), file["bucket"]) for file in files)

    answer = service.buckets(golden_ref(table), BucketsRequest())

    assert {(str(dict(each.partition)), each.bucket): each.data_files for each in answer.buckets} == counts
    assert sum(each.rows for each in answer.buckets) == sum(file["row_count"] for file in files)
    assert {(each.index_file, each.index_rows, each.full) for each in answer.buckets} == {(None, None, None)}


@pytest.mark.parametrize(
    ("table", "mode"), [("append_embedded", "bucket_unaware"), ("pk_postpone", "postpone_mode")]
)
def test_modes_without_an_index_say_why(service: IndexService, table: str, mode: str) -> None:
    answer = lookup(service, table, hashes=(1, -2))

    assert answer.bucket_mode == mode
    assert [(each.key_hash, each.bucket) for each in answer.buckets] == [(1, None), (-2, None)]
    assert answer.detail
    with pytest.raises(FilterError, match=mode):
        service.assign(golden_ref(table), AssignRequest(hashes=(1,)))


def test_keys_that_move_between_partitions_have_no_bucket_to_look_up(copy_table: CopyTable) -> None:
    copied = copy_table("dyn_bucket")
    copied.change_schema(lambda schema: schema.update(primaryKeys=["uid"]))
    written = expected("dyn_bucket")["dynamic_bucket"]["keys"][0]

    answer = copied.service.lookup(
        copied.ref, LookupRequest(partition=written["partition"], keys=(written["key"],))
    )

    assert answer.bucket_mode == "cross_partition"
    assert [each.bucket for each in answer.buckets] == [None]
    assert answer.detail


@pytest.mark.parametrize(
    ("partition", "key"),
    [
        ({}, {"uid": 1}),
        ({"dte": "2024-01-01"}, {"uid": 1, "lane": 2}),
        ({"dte": "2024-01-01"}, {"uid": 1, "dte": "2024-01-02"}),
    ],
    ids=["no partition", "no key column", "another partition"],
)
def test_a_key_that_does_not_fit_the_table_is_refused(
    service: IndexService, partition: dict[str, Any], key: dict[str, Any]
) -> None:
    with pytest.raises(FilterError):
        lookup(service, "dyn_bucket", partition=partition, keys=(key,))


def test_a_damaged_hash_index_is_an_error_and_no_missing_key(copy_table: CopyTable) -> None:
    copied = copy_table("dyn_bucket")
    recorded = expected("dyn_bucket")["dynamic_bucket"]
    index, written = recorded["buckets"][0], recorded["keys"][0]
    path = copied.directory / "index" / index["index_file"]
    asked = LookupRequest(partition=index["partition"], keys=(written["key"],))

    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(CorruptIndexError, match=path.name):
        copied.service.lookup(copied.ref, asked)

    path.unlink()
    with pytest.raises(FileMissingError, match=path.name):
        copied.service.lookup(copied.ref, asked)


@pytest.mark.parametrize("others", [(), ({"uid": "2"}, {"uid": 3.0}, {"uid": "+4"})])
def test_keys_hash_together_as_each_alone_in_whatever_form(
    service: IndexService, others: tuple[dict[str, Any], ...]
) -> None:
    partition = expected("dyn_bucket")["dynamic_bucket"]["keys"][0]["partition"]
    keys = ({"uid": 1}, *others, {"uid": -(2**63)}, {"uid": 2**63 - 1})

    together = lookup(service, "dyn_bucket", partition=partition, keys=keys)

    alone = [lookup(service, "dyn_bucket", partition=partition, keys=(key,)) for key in keys]
    assert together.buckets == tuple(answer.buckets[0] for answer in alone)
    assert lookup(service, "dyn_bucket", partition=partition, keys=()).buckets == ()


@pytest.mark.parametrize(
    "wrong",
    [{"uid": 2**63}, {"uid": -(2**63) - 1}, {"uid": True}, {"uid": 1.5}, {"uid": "one"}, {}],
    ids=repr,
)
def test_one_key_among_many_that_is_no_value_is_refused(service: IndexService, wrong: Any) -> None:
    partition = expected("dyn_bucket")["dynamic_bucket"]["keys"][0]["partition"]

    with pytest.raises(FilterError) as refused:
        lookup(service, "dyn_bucket", partition=partition, keys=({"uid": 1}, wrong, {"uid": 2}))

    assert refused.value.column == "uid"
