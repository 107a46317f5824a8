from __future__ import annotations

import pytest

from app.errors import RequestError
from app.options.dynamic_buckets import UNBOUNDED, AssignerOptions, DynamicBucketOptions

TARGET = "dynamic-bucket.target-row-num"
BOUND = "dynamic-bucket.max-buckets"
INITIAL = "dynamic-bucket.initial-buckets"
PARALLELISM = "dynamic-bucket.assigner-parallelism"


def test_options_are_read_by_their_table_names() -> None:
    assert DynamicBucketOptions.parse({"bucket": "-1"}) == DynamicBucketOptions(
        2_000_000, UNBOUNDED, None, None
    )
    written = {TARGET: " 1000 ", BOUND: "7", INITIAL: "3", PARALLELISM: "4"}
    assert DynamicBucketOptions.parse(written) == DynamicBucketOptions(1000, 7, 3, 4)
    assert DynamicBucketOptions.parse({BOUND: "-1"}).max_buckets == UNBOUNDED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (TARGET, "0"),
        (TARGET, "-1"),
        (TARGET, str(2**63)),
        (TARGET, "1e6"),
        (BOUND, "0"),
        (BOUND, "-2"),
        (BOUND, ""),
        (BOUND, str(2**31)),
        (INITIAL, "0"),
        (PARALLELISM, "-1"),
        (PARALLELISM, "many"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_may_be(name: str, value: str) -> None:
    with pytest.raises(RequestError, match=rf"{name} must be (-1 or )?(a number|from 1 to \d+), found"):
        DynamicBucketOptions.parse({name: value})


@pytest.mark.parametrize(
    ("initial", "parallelism", "writer", "channels", "assigners"),
    [
        (None, None, 4, 4, 4),
        (3, None, 4, 4, 3),
        (9, None, 4, 4, 4),
        (None, 2, 4, 2, 2),
        (3, 2, 4, 2, 2),
        (2, 8, 4, 8, 2),
    ],
)
def test_a_partition_has_as_many_assigners_as_initial_buckets(
    initial: int | None, parallelism: int | None, writer: int, channels: int, assigners: int
) -> None:
    options = DynamicBucketOptions(50, 7, initial, parallelism)
    assert options.assigners(writer) == tuple(
        AssignerOptions(channels, assigners, number, 50, 7) for number in range(channels)
    )


def test_assigners_share_all_buckets_out() -> None:
    shares = [[*options.own_buckets()] for options in DynamicBucketOptions(max_buckets=8).assigners(3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]
    (only,) = DynamicBucketOptions().assigners(1)
    assert only.own_buckets() == range(32767)
    # Buckets are kept in 16 bits, whatever the option says.
    assert AssignerOptions(max_buckets=100_000).highest_allowed == 32766
