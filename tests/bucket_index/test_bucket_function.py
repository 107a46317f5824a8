import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bucket_index import BucketFunction, buckets_of, hashed_buckets, key_hashes
from app.errors import FilterError
from app.types import parse_json, parse_type
from app.types.binary_row.rows import FieldValues, fields_of
from tests import golden_cases
from tests.bucket_index.plain_buckets import bucket_of, key_hash

KEYS = golden_cases.document("hash-index", "keys")["keys"]


def errors_or_buckets(
    function: BucketFunction, fields: tuple[FieldValues, ...], count: int, buckets: int
) -> list[int | None]:
    try:
        return [*buckets_of(function, fields, count, buckets).tolist()]
    except FilterError:
        return [None] * count


def error_or_bucket(
    function: BucketFunction, key: tuple[Any, ...], types: list[Any], buckets: int
) -> int | None:
    try:
        return bucket_of(function, key, types, buckets)
    except FilterError:
        return None


@pytest.mark.parametrize("group", KEYS, ids=lambda group: ",".join(group["types"][:4]))
def test_hashes_and_buckets_are_those_of_the_engine(group: dict[str, Any]) -> None:
    types = [parse_type(text) for text in group["types"]]
    keys = [
        tuple(parse_json(value, kind) for value, kind in zip(row["values"], types, strict=True))
        for row in group["rows"]
    ]
    fields, hashes = fields_of(keys, types), [row["hash"] for row in group["rows"]]
    assert key_hashes(fields, len(keys)).tolist() == hashes
    assert [key_hash(key, types) for key in keys] == hashes
    for key, row in zip(keys, group["rows"], strict=True):
        for buckets, expected in row["buckets"].items():
            found = {
                function.value: error_or_bucket(function, key, types, int(buckets))
                for function in BucketFunction
            }
            assert found == {
                name: None if isinstance(bucket, dict) else bucket for name, bucket in expected.items()
            }, (row["values"], buckets)


@pytest.mark.parametrize("group", KEYS, ids=lambda group: ",".join(group["types"][:4]))
def test_many_keys_go_where_each_goes(group: dict[str, Any]) -> None:
    types = [parse_type(text) for text in group["types"]]
    keys = [
        tuple(parse_json(value, kind) for value, kind in zip(row["values"], types, strict=True))
        for row in group["rows"]
    ]
    fields = fields_of(keys, types)
    for function in BucketFunction:
        one_by_one = [error_or_bucket(function, key, types, 7) for key in keys]
        # Hive refuses a value, the others refuse a type: many keys are refused if one of them is.
        expected = [None] * len(keys) if None in one_by_one else one_by_one
        assert errors_or_buckets(function, fields, len(keys), 7) == expected, function


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.integers(1, 2**31 - 1))
def test_many_integers_go_where_each_goes(numbers: list[int | None], buckets: int) -> None:
    types, keys = [parse_type("BIGINT")], [(number,) for number in numbers]
    for function in BucketFunction:
        found = buckets_of(function, fields_of(keys, types), len(keys), buckets)
        assert found.tolist() == [bucket_of(function, key, types, buckets) for key in keys]


@pytest.mark.parametrize(
    ("function", "types", "key", "complaint"),
    [
        (BucketFunction.MOD, ["INT", "INT"], (1, 2), "one key column, not 2"),
        (BucketFunction.MOD, ["STRING"], (b"a",), "INT or BIGINT, not STRING"),
        (BucketFunction.HIVE, ["TIMESTAMP(3)"], (0,), r"keys of type TIMESTAMP\(3\)"),
    ],
)
def test_refusals_name_the_function_and_the_type(
    function: BucketFunction, types: list[str], key: tuple[Any, ...], complaint: str
) -> None:
    with pytest.raises(FilterError, match=f"the {function} bucket function.*{complaint}"):
        bucket_of(function, key, [parse_type(text) for text in types], 4)
    with pytest.raises(FilterError, match=f"the {function} bucket function.*{complaint}"):
        buckets_of(function, fields_of([key], [parse_type(text) for text in types]), 1, 4)


def test_the_lowest_hash_has_a_bucket_though_its_magnitude_exceeds_32_bits() -> None:
    types, key = [parse_type("BIGINT")], (-9003943502026899456,)
    assert key_hash(key, types) == -(2**31)
    assert bucket_of(BucketFunction.DEFAULT, key, types, 7) == 2**31 % 7
    assert hashed_buckets(key_hashes(fields_of([key], types), 1), 7).tolist() == [2**31 % 7]


@pytest.mark.parametrize(
    ("column", "bits"), [("FLOAT", "7fc00001"), ("FLOAT", "ffc00000"), ("DOUBLE", "fff8000000000001")]
)
def test_hive_puts_every_nan_where_it_puts_one(column: str, bits: str) -> None:
    (other,) = struct.unpack(">f" if column == "FLOAT" else ">d", bytes.fromhex(bits))

    assert math.isnan(other)
    buckets = {
        bucket_of(BucketFunction.HIVE, (nan,), [parse_type(column)], 1_009) for nan in (other, math.nan)
    }
    assert len(buckets) == 1
