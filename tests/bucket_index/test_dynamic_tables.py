"""Keys of the golden dynamic-bucket tables: where the index says they are, where new ones would go."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from app.bucket_index import PartitionIndex, hash_index
from app.bucket_index.assigner import AssignerOptions, HashBucketAssigner, Strategy
from app.bucket_index.channels import assigner_of
from app.types import parse_type
from app.types.binary_row import row_hash, write_row
from tests import golden_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TABLES = ("dyn_bucket", "dyn_bucket_two", "dyn_bucket_max")


def partition_row(entry: dict[str, Any]) -> bytes:
    """The partition's row; each of these tables is partitioned by one STRING column."""
    (value,) = entry["partition"].values()
    return write_row((value.encode(),), [parse_type("STRING")])


class Index:
    """The hash indexes of one table as the engine wrote them."""

    def __init__(self, name: str) -> None:
        self.golden = golden_tables.expected(name)["dynamic_bucket"]

    def load(self, row: bytes) -> PartitionIndex:
        return PartitionIndex.merge(
            [
                (entry["bucket"], hash_index.read(hash_index.write(entry["hashes"])))
                for entry in self.golden["buckets"]
                if partition_row(entry) == row
            ]
        )


@pytest.mark.parametrize("name", TABLES)
def test_written_keys_are_found_in_their_buckets(name: str) -> None:
    index = Index(name)
    for row in set(map(partition_row, index.golden["keys"])):
        keys = [key for key in index.golden["keys"] if partition_row(key) == row]
        assert {key["partition_hash"] for key in keys} == {row_hash(row)}
        assert [row_hash(bytes.fromhex(key["key_row_hex"])) for key in keys] == [key["hash"] for key in keys]
        found = index.load(row).lookup([key["hash"] for key in keys])
        assert found.tolist() == [key["bucket"] for key in keys]


@pytest.mark.parametrize("name", TABLES)
def test_new_keys_go_where_the_engine_sent_them(name: str) -> None:
    index = Index(name)
    golden = index.golden
    chosen_by_engine: Iterator[int] = iter(())

    def follow(permitted: Sequence[int]) -> int:
        """Chooses as the engine did: later buckets depend on its choices."""
        bucket = next(chosen_by_engine)
        assert bucket in permitted
        return bucket

    assigners = [
        HashBucketAssigner(
            AssignerOptions(
                golden["channels"],
                golden["assigners"],
                number,
                golden["target_row_num"],
                golden["max_buckets"],
            ),
            index.load,
            follow,
        )
        for number in range(golden["channels"])
    ]
    strategies: Counter[Strategy] = Counter()
    for key in golden["new_keys"]:
        row = partition_row(key)
        responsible = assigner_of(row_hash(row), key["hash"], golden["channels"], golden["assigners"])
        assert responsible == key["assigner"]
        chosen_by_engine = iter((key["bucket"],))
        found = assigners[responsible].assign(row, key["hash"])
        assert found.bucket == key["bucket"], key
        strategies[found.strategy] += 1
    assert (Strategy.RANDOM in strategies) == (golden["max_buckets"] > 0)
    assert strategies[Strategy.NON_FULL] > 0
    assert strategies[Strategy.NEW] > 0
