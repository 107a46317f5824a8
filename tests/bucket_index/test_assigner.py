"""The assigners, key by key and in batches: against traces of the Java engine and the plain definition."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bucket_index import HashBucketAssigner, KeyBatch, PartitionIndex, assigners_of, hash_index
from app.bucket_index.key_batch import SEED as HASH_SEED
from app.bucket_index.key_batch import hash_rows
from app.bucket_index.partition_buckets import Assignment, Strategy, owns
from app.errors import FilterError, RequestError
from app.options.table_options import AssignerOptions
from app.types import parse_json, parse_type
from app.types.binary_row.row import row_hash, write_row
from tests import golden_cases
from tests.bucket_index.plain_assigners import Files, NoBucketError, PlainHashAssigner
from tests.bucket_index.plain_buckets import key_hash
from tests.examples import examples

INT = [parse_type("INT")]
TRACES = [
    trace
    for trace in golden_cases.document("assigner", "traces")["traces"]
    if trace["assigner"] == "HashBucketAssigner"
]
CHANNELS = golden_cases.document("assigner", "channels")


def row_of(partition: int) -> bytes:
    return write_row((partition,), INT)


class Table:
    """The hash indexes of a table of one INT partition column, and this writer's latest commit."""

    def __init__(self, files: list[dict[str, Any]]) -> None:
        self.files = {(file["partition"], file["bucket"]): file["hashes"] for file in files}
        self.committed: int | None = None

    def commit(self, identifier: int, files: list[dict[str, Any]]) -> None:
        self.committed = identifier
        self.files |= {(file["partition"], file["bucket"]): file["hashes"] for file in files}

    def load(self, row: bytes) -> PartitionIndex:
        return PartitionIndex.merge(
            [
                (bucket, hash_index.read(hash_index.write(hashes)))
                for (partition, bucket), hashes in self.files.items()
                if row_of(partition) == row
            ]
        )


def assigner_for(trace: dict[str, Any], table: Table) -> HashBucketAssigner:
    options = AssignerOptions(
        trace["num_channels"],
        trace["num_assigners"],
        trace["assign_id"],
        trace["target_bucket_row_number"],
        trace["max_buckets_num"],
    )
    return HashBucketAssigner(options, table.load, np.random.default_rng(1))


def follow(table: Table, step: dict[str, Any]) -> None:
    match step:
        case {"op": "commit"}:
            table.commit(step["identifier"], step["index_files"])
        case {"op": "prepare_commit"}:
            # The engine may forget idle partitions here, which it would load anew.
            return
        case _:
            raise AssertionError(step)


def replay(trace: dict[str, Any]) -> list[int | None]:
    """Take all steps one by one; the buckets of assignments, None where there is none."""
    table = Table(trace["initial_index"])
    assigner = assigner_for(trace, table)
    buckets: list[int | None] = []
    for number, step in enumerate(trace["steps"]):
        match step:
            case {"op": "assign", "error": _}:
                with pytest.raises(FilterError):
                    assigner.assign(row_of(step["partition"]), [step["hash"]])
                buckets.append(None)
            case {"op": "assign"}:
                (found,) = assigner.assign(row_of(step["partition"]), [step["hash"]]).tolist()
                expected = buckets[step["same_as"]] if "same_as" in step else step.get("bucket", found.bucket)
                assert found.bucket == expected, (number, step)
                if "permitted" in step:
                    assert found.permitted == tuple(step["permitted"]), (number, step)
                    assert found.bucket in found.permitted
                buckets.append(found.bucket)
            case _:
                follow(table, step)
                buckets.append(None)
    return buckets


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace["name"])
def test_traces_replay_as_in_the_engine(trace: dict[str, Any]) -> None:
    buckets = replay(trace)
    assert len(buckets) == len(trace["steps"])


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace["name"])
def test_batches_of_a_trace_go_where_its_keys_go(trace: dict[str, Any]) -> None:
    one_by_one = replay(trace)
    table = Table(trace["initial_index"])
    assigner = assigner_for(trace, table)
    steps = [step for step in enumerate(trace["steps"]) if "error" not in step[1]]
    for operation, group in groupby(steps, lambda step: step[1]["op"]):
        numbers, members = zip(*group, strict=True)
        if operation != "assign":
            for step in members:
                follow(table, step)
            continue
        partitions = [row_of(step["partition"]) for step in members]
        batch = KeyBatch.of(partitions, range(len(members)), [step["hash"] for step in members])
        assert assigner.assign_batch(batch).buckets.tolist() == [one_by_one[number] for number in numbers]


def test_routing_is_that_of_the_engine() -> None:
    for case in CHANNELS["channels"]:
        hashes = (np.array([case["partition_hash"]], np.int32), np.array([case["key_hash"]], np.int32))
        routes = (case["num_channels"], case["num_assigners"])
        assert assigners_of(*hashes, *routes).tolist() == [case["assigner"]], case
    for case in CHANNELS["my_bucket"]:
        assert owns(case["assign_id"], case["bucket"], case["num_assigners"]) == case["mine"], case


def test_rows_of_a_table_are_hashed_and_routed_as_in_the_engine() -> None:
    table = golden_cases.document("assigner", "rows")
    columns = dict(column.split(" ") for column in table["columns"].split(", "))
    types = {name: parse_type(text) for name, text in columns.items()}

    def project(row: list[Any], names: Sequence[str]) -> tuple[list[Any], list[Any]]:
        values = [parse_json(row[list(columns).index(name)], types[name]) for name in names]
        return values, [types[name] for name in names]

    for case in table["rows"]:
        partition = write_row(*project(case["row"], table["partition_keys"]))
        key = project(case["row"], table["trimmed_primary_key"])
        assert write_row(*key).hex() == case["trimmed_key_hex"]
        hashes = (row_hash(partition), key_hash(*key))
        assert hashes == (case["partition_hash"], case["key_hash"])
        partitions, keys = (np.array([hashed], np.int32) for hashed in hashes)
        routed = assigners_of(partitions, keys, case["num_channels"], case["num_assigners"])
        assert routed.tolist() == [case["channel"]]


def test_without_a_bound_the_last_bucket_is_32766() -> None:
    assigner = HashBucketAssigner(AssignerOptions(target_rows=1), Table([]).load)
    found = assigner.assign(row_of(1), [*range(32767), -1])
    assert found.buckets[:-1].tolist() == [*range(32767)]
    # The highest bucket is handed out: what follows is a free choice, as at a bound.
    assert found.tolist()[-1].strategy is Strategy.RANDOM


PARTITIONS = [write_row((number,), [parse_type("INT")]) for number in range(3)]
SEED = 20

PLACES = st.integers(0, 2)


# Bucket 32766 is the last one; a known key there ends the creation of buckets everywhere.
BUCKETS = st.integers(0, 6) | st.just(32766)
FILES = st.dictionaries(st.tuples(PLACES, BUCKETS), st.lists(st.integers(-30, 30), max_size=6), max_size=9)
KEYS = st.lists(st.tuples(PLACES, st.integers(-60, 60)), max_size=80)
CUTS = st.lists(st.integers(1, 40), max_size=6)
OPTIONS = st.builds(
    lambda channels, assigners, number, target, bound: AssignerOptions(
        channels, min(assigners, channels), number % channels, target, bound
    ),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(1, 4),
    st.sampled_from([-1, 1, 2, 3, 5, 8]),
)


def loader(files: Files) -> Callable[[bytes], PartitionIndex]:
    def load(row: bytes) -> PartitionIndex:
        return PartitionIndex.merge(
            [
                (bucket, hash_index.as_hashes(hashes))
                for (partition, bucket), hashes in files.items()
                if PARTITIONS[partition] == row
            ]
        )

    return load


def batch_of(keys: Sequence[tuple[int, int]]) -> KeyBatch:
    return KeyBatch.of(PARTITIONS, [code for code, _ in keys], [hashed for _, hashed in keys])


def expect(
    plain: PlainHashAssigner, keys: Sequence[tuple[int, int]]
) -> tuple[list[Assignment], tuple[int, int] | None]:
    """Where keys go one by one, and the first key that goes nowhere."""
    expected: list[Assignment] = []
    for key in keys:
        try:
            expected.append(plain.assign(*key))
        except NoBucketError:
            return expected, key
    return expected, None


def assign_in_batches(
    assigner: HashBucketAssigner, keys: list[tuple[int, int]], sizes: list[int]
) -> list[Assignment]:
    found: list[Assignment] = []
    for size in [*sizes, len(keys)]:
        found += assigner.assign_batch(batch_of(keys[len(found) : len(found) + size])).tolist()
    return found


@examples(400)
@given(OPTIONS, FILES, KEYS, CUTS)
def test_batches_go_where_their_keys_go_one_by_one(
    options: AssignerOptions, files: Files, keys: list[tuple[int, int]], sizes: list[int]
) -> None:
    batch = batch_of(keys)
    routed = assigners_of(batch.partition_hashes, batch.hashes, options.channels, options.assigners)
    own = [key for key, assigner in zip(keys, routed, strict=True) if assigner == options.assign_id]
    plain = PlainHashAssigner(options, files, np.random.default_rng(SEED))
    expected, refused = expect(plain, own)

    assigner = HashBucketAssigner(options, loader(files), np.random.default_rng(SEED))
    served = own[: len(expected)]
    assert assign_in_batches(assigner, served, sizes) == expected
    if refused is not None:
        # A batch that cannot be assigned leaves no trace.
        with pytest.raises(FilterError, match="no bucket"):
            assigner.assign_batch(batch_of([*served[:3], refused]))
        known = assigner.assign_batch(batch_of(served))
        assert known.buckets.tolist() == [found.bucket for found in expected]
        assert {found.strategy for found in known.tolist()} <= {Strategy.EXISTING}


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.long), 7, 10_000])
def test_free_choices_spread_evenly_over_the_permitted_buckets(size: int) -> None:
    files = {(0, bucket): [bucket] for bucket in range(10)}
    options = AssignerOptions(target_rows=1, max_buckets=1)
    assigner = HashBucketAssigner(options, loader(files), np.random.default_rng(7))
    keys = 10_000
    counts: Counter[int] = Counter()
    for start in range(100, 100 + keys, size):
        found = assigner.assign(PARTITIONS[0], range(start, min(start + size, 100 + keys)))
        assert found.permitted == {PARTITIONS[0]: tuple(range(10))}
        counts.update(found.buckets.tolist())
    # The 99.9th percentile of chi-squared with 9 degrees of freedom.
    assert sum((counts[bucket] - keys / 10) ** 2 / (keys / 10) for bucket in range(10)) < 27.9


def test_without_a_seed_choices_differ() -> None:
    files = {(0, bucket): [bucket] for bucket in range(10)}
    options = AssignerOptions(target_rows=1, max_buckets=1)
    runs = {
        bytes(HashBucketAssigner(options, loader(files)).assign(PARTITIONS[0], range(50, 100)).buckets)
        for _ in range(3)
    }
    assert len(runs) == 3


def test_partitions_are_loaded_when_a_key_of_theirs_comes() -> None:
    loaded: list[bytes] = []

    def load(row: bytes) -> PartitionIndex:
        loaded.append(row)
        return PartitionIndex.merge(())

    assigner = HashBucketAssigner(AssignerOptions(), load)
    assert assigner.assign_batch(KeyBatch.of(PARTITIONS, [], [])).tolist() == []
    found = assigner.assign_batch(KeyBatch.of([*PARTITIONS, *PARTITIONS], [1, 4, 1], [5, 5, 6]))
    assert [each.strategy for each in found.tolist()] == [Strategy.NEW, Strategy.EXISTING, Strategy.NON_FULL]
    assert loaded == [PARTITIONS[1]]


def test_keys_of_a_partition_keep_their_order() -> None:
    codes = np.arange(3_000) * 7 // 5 % 3
    batch = KeyBatch.of(PARTITIONS, codes, np.zeros(3_000, np.int32))
    assert [(row, positions.tolist()) for row, positions in batch.by_partition()] == [
        (row, np.flatnonzero(codes == code).tolist()) for code, row in enumerate(PARTITIONS)
    ]


def test_a_key_of_another_assigner_is_refused_before_anything_is_loaded() -> None:
    options = AssignerOptions(channels=2, assigners=2, assign_id=0)
    keys = np.arange(100, dtype=np.int32)
    partition_hash = np.int32(row_hash(PARTITIONS[0]))
    foreign = int(np.argmax(assigners_of(np.full(100, partition_hash), keys, 2, 2) == 1))
    loaded: list[bytes] = []

    def load(row: bytes) -> PartitionIndex:
        loaded.append(row)
        return PartitionIndex.merge(())

    assigner = HashBucketAssigner(options, load)
    with pytest.raises(FilterError, match=f"key hash {foreign} belongs to assigner 1, not to assigner 0"):
        assigner.assign(PARTITIONS[0], keys)
    assert loaded == []


@pytest.mark.parametrize(
    ("codes", "hashes", "complaint"),
    [
        ([0, 1], [1], "2 codes for 1 hashes"),
        ([3], [1], "0 to 2, found 3 to 3"),
        ([-1], [1], "0 to 2, found -1 to -1"),
        ([0], [2**31], "signed 32-bit integer, found 2147483648"),
        ([0], [0.5], "list of integers"),
    ],
)
def test_a_batch_that_is_none_is_refused(codes: list[int], hashes: Any, complaint: str) -> None:
    with pytest.raises(RequestError, match=complaint):
        KeyBatch.of(PARTITIONS, codes, hashes)


@examples(50)
@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_hashes_are_those_of_mmh3(words: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    # Few rows, many rows, and more than are hashed at once.
    for count in (0, 1, 1000, 17_000):
        rows = chance.integers(0, 256, (count, 4 * words), dtype=np.uint8)
        hashes = hash_rows(rows)
        assert hashes.dtype == np.int32
        looked_at = slice(None) if count <= 1000 else slice(-1000, None)
        assert hashes[looked_at].tolist() == [mmh3.hash(row.tobytes(), HASH_SEED) for row in rows[looked_at]]


@pytest.mark.parametrize("byte", [0, 0x7F, 0x80, 0xFF])
def test_extreme_words_wrap_as_in_java(byte: int) -> None:
    rows = np.full((2000, 16), byte, np.uint8)
    assert set(hash_rows(rows).tolist()) == {mmh3.hash(bytes([byte]) * 16, HASH_SEED)}
