"""The assigners against traces of the Java engine, and over random histories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.bucket_index import PartitionIndex, hash_index, key_hash
from app.bucket_index.assigner import AssignerOptions, HashBucketAssigner, Strategy
from app.bucket_index.channels import assigner_of, owns, routing_key
from app.bucket_index.overwrite_assigner import SimpleHashBucketAssigner
from app.errors import FilterError
from app.types import parse_json, parse_type
from app.types.binary_row import row_hash, write_row
from tests import golden_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

INT = [parse_type("INT")]
TRACES = golden_unit.document("assigner", "traces")["traces"]
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


def options_of(trace: dict[str, Any]) -> AssignerOptions:
    return AssignerOptions(
        trace["num_channels"],
        trace["num_assigners"],
        trace["assign_id"],
        trace["target_bucket_row_number"],
        trace["max_buckets_num"],
    )


def assigner_for(trace: dict[str, Any], table: Table) -> HashBucketAssigner | SimpleHashBucketAssigner:
    match trace["assigner"]:
        case "HashBucketAssigner":
            return HashBucketAssigner(options_of(trace), table.load)
        case "SimpleHashBucketAssigner":
            return SimpleHashBucketAssigner(options_of(trace))
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace["name"])
def test_traces_replay_as_in_the_engine(trace: dict[str, Any]) -> None:
    table = Table(trace["initial_index"])
    assigner = assigner_for(trace, table)
    answers: dict[int, int] = {}
    for number, step in enumerate(trace["steps"]):
        match step:
            case {"op": "assign", "error": _}:
                with pytest.raises(FilterError):
                    assigner.assign(row_of(step["partition"]), step["hash"])
            case {"op": "assign"}:
                found = assigner.assign(row_of(step["partition"]), step["hash"])
                answers[number] = found.bucket
                expected = answers[step["same_as"]] if "same_as" in step else step.get("bucket", found.bucket)
                assert found.bucket == expected, (number, step)
                if "permitted" in step:
                    assert found.permitted == tuple(step["permitted"]), (number, step)
                    assert found.bucket in found.permitted
            case {"op": "commit"}:
                table.commit(step["identifier"], step["index_files"])
            case {"op": "prepare_commit"}:
                assert isinstance(assigner, HashBucketAssigner)
                assigner.prepare_commit(step["identifier"], lambda: table.committed)
                assert set(assigner.cached_partitions) == set(map(row_of, step["cached_partitions"])), number
            case _:
                raise AssertionError(step)


def test_routing_is_that_of_the_engine() -> None:
    for case in CHANNELS["channels"]:
        asked = (case["partition_hash"], case["key_hash"], case["num_channels"], case["num_assigners"])
        assert routing_key(*asked) == case["hash_key"], case
        assert assigner_of(*asked) == case["assigner"], case
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
        assert assigner_of(*hashes, case["num_channels"], case["num_assigners"]) == case["channel"]


BUCKETS = st.lists(
    st.fixed_dictionaries(
        {
            "partition": st.integers(0, 2),
            "bucket": st.integers(0, 9),
            "hashes": st.lists(st.integers(-40, 40), max_size=5),
        }
    ),
    max_size=8,
)


@settings(deadline=None)
@given(
    BUCKETS,
    st.integers(1, 4),
    st.sampled_from([-1, 1, 2, 3, 8]),
    st.lists(st.tuples(st.integers(0, 2), st.integers(-60, 60)), max_size=60),
)
def test_assignments_keep_their_promises(
    files: list[dict[str, Any]], target: int, bound: int, keys: list[tuple[int, int]]
) -> None:
    table = Table(files)
    assigner = HashBucketAssigner(AssignerOptions(target_rows=target, max_buckets=bound), table.load)
    remembered: dict[tuple[int, int], int] = {}
    rows = {place: len(hashes) for place, hashes in table.files.items() if hashes}
    for partition, key in keys:
        found = assigner.assign(row_of(partition), key)
        place = (partition, found.bucket)
        match found.strategy:
            case Strategy.EXISTING:
                loaded = table.load(row_of(partition)).find(key)
                assert found.bucket == remembered.get((partition, key), loaded)
            case Strategy.NON_FULL:
                assert rows[place] < target
            case Strategy.NEW:
                assert place not in rows
                assert bound == -1 or found.bucket < bound
                assert all(count >= target for (where, _), count in rows.items() if where == partition)
            case Strategy.RANDOM:
                used = tuple(sorted(bucket for where, bucket in rows if where == partition))
                assert found.permitted == used
                assert found.bucket in used
        if found.strategy in (Strategy.NON_FULL, Strategy.NEW):
            rows[place] = rows.get(place, 0) + 1
        remembered[partition, key] = found.bucket


def test_the_caller_chooses_where_the_choice_is_free() -> None:
    full = [{"partition": 1, "bucket": bucket, "hashes": [bucket]} for bucket in (4, 0, 2)]
    options = AssignerOptions(target_rows=1, max_buckets=1)
    for choose, expected in ((min, 0), (max, 4)):
        assigner = HashBucketAssigner(options, Table(full).load, choose)
        assignment = assigner.assign(row_of(1), 99)
        assert (assignment.bucket, assignment.permitted) == (expected, (0, 2, 4))


def test_without_a_bound_the_last_bucket_is_32766() -> None:
    assigner = HashBucketAssigner(AssignerOptions(target_rows=1), Table([]).load)
    for key in range(32767):
        assert assigner.assign(row_of(1), key).bucket == key
    # The highest bucket is handed out: what follows is a free choice, as at a bound.
    assert assigner.assign(row_of(1), -1).strategy is Strategy.RANDOM


def test_the_commit_history_is_not_looked_for_before_the_first_commit() -> None:
    assigner = HashBucketAssigner(AssignerOptions(), Table([]).load)
    assigner.assign(row_of(1), 1)
    asked = []
    for identifier in (0, 1):
        assigner.prepare_commit(identifier, lambda: asked.append(True))
    assert asked == [True]
    assert assigner.cached_partitions == (row_of(1),)
