"""The assigners against traces of the Java engine, key by key and in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from app.bucket_index import HashBucketAssigner, PartitionIndex, Strategy, hash_index, key_hash
from app.bucket_index.key_batch import KeyBatch
from app.bucket_index.partition_buckets import assigners_of, owns, routing_keys
from app.errors import FilterError
from app.options.dynamic_buckets import AssignerOptions
from app.types import parse_json, parse_type
from app.types.binary_row.row import row_hash, write_row
from tests import golden_unit

INT = [parse_type("INT")]
TRACES = [
    trace
    for trace in golden_unit.document("assigner", "traces")["traces"]
    if trace["assigner"] == "HashBucketAssigner"
]
CHANNELS = golden_unit.document("assigner", "channels")


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
    """Takes all steps one by one; the buckets of assignments, None where there is none.

    Buckets with room are filled in another order than the engine's, with as many keys each.
    """
    table = Table(trace["initial_index"])
    assigner = assigner_for(trace, table)
    buckets: list[int | None] = []
    keys: Counter[tuple[int, int]] = Counter()
    recorded: Counter[tuple[int, int]] = Counter()
    for number, step in enumerate(trace["steps"]):
        match step:
            case {"op": "assign", "error": _}:
                with pytest.raises(FilterError):
                    assigner.assign(row_of(step["partition"]), [step["hash"]])
                buckets.append(None)
            case {"op": "assign"}:
                (found,) = assigner.assign(row_of(step["partition"]), [step["hash"]]).tolist()
                expected = buckets[step["same_as"]] if "same_as" in step else step.get("bucket", found.bucket)
                assert found.bucket == expected or found.strategy is Strategy.NON_FULL, (number, step)
                keys[step["partition"], found.bucket] += 1
                recorded[step["partition"], expected] += 1
                if "permitted" in step:
                    assert found.permitted == tuple(step["permitted"]), (number, step)
                    assert found.bucket in found.permitted
                buckets.append(found.bucket)
            case _:
                follow(table, step)
                buckets.append(None)
    assert keys == recorded
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
        assert routing_keys(*hashes, *routes).tolist() == [case["hash_key"]], case
        assert assigners_of(*hashes, *routes).tolist() == [case["assigner"]], case
    for case in CHANNELS["my_bucket"]:
        assert owns(case["assign_id"], case["bucket"], case["num_assigners"]) == case["mine"], case


def test_rows_of_a_table_are_hashed_and_routed_as_in_the_engine() -> None:
    table = golden_unit.document("assigner", "rows")
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
