from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptIndexError
from app.file_index.keys.keys import KeySpace, after, key_space
from app.types import parse_type, sql_key
from tests.file_index.strategies import TYPES, values


def _space(text: str) -> KeySpace:
    space = key_space(parse_type(text))
    assert space is not None
    return space


@pytest.mark.parametrize("data_type", TYPES, ids=str)
@given(data=st.data())
def test_keys_keep_the_order_and_survive_being_stored(data_type: object, data: st.DataObject) -> None:
    text = str(data_type)
    space, parsed = _space(text), parse_type(text)
    low, high = data.draw(values(parsed)), data.draw(values(parsed))
    order = sql_key(parsed)

    assert (order(low) < order(high)) <= (space.key(low) <= space.key(high))  # type: ignore[operator] # one type's keys
    if text != "DECIMAL(38, 10)":
        stored = space.write(space.key(low))
        assert space.read(b"." + stored + b".", 1) == (space.key(low), 1 + len(stored))
    if not space.lossy:
        assert order(space.value(space.key(low))) == order(low)


@pytest.mark.parametrize(
    ("text", "value", "stored"),
    [
        ("BOOLEAN", True, "01"),
        ("TINYINT", -2, "fe"),
        ("SMALLINT", -2, "fffe"),
        ("INT", -2, "fffffffe"),
        ("BIGINT", -2, "fffffffffffffffe"),
        ("DATE", 19_000, "00004a38"),
        ("TIME(3)", 86_399_999, "05265bff"),
        ("DECIMAL(9, 2)", -1, "ffffffffffffffff"),
        ("FLOAT", -0.0, "80000000"),
        ("DOUBLE", -1.5, "bff8000000000000"),
        ("TIMESTAMP(3)", -1_000_000, "ffffffffffffffff"),
        ("TIMESTAMP(6)", -1_000_000, "fffffffffffffc18"),
        ("TIMESTAMP(9)", -1, "ffffffffffffffff"),
        ("STRING", b"\xc3\xa9", "00000002c3a9"),
    ],
)
def test_stores_keys_as_the_engine_does(text: str, value: float | bytes, stored: str) -> None:
    space = _space(text)

    assert space.write(space.key(value)).hex() == stored


def test_takes_every_nan_for_the_same() -> None:
    space = _space("DOUBLE")
    patterns = ["7ff8000000000000", "7ff0000000000001", "fff8000000000000", "ffffffffffffffff"]

    keys = {space.read(bytes.fromhex(pattern), 0)[0] for pattern in patterns}

    assert keys == {space.key(math.nan)}
    assert space.key(math.nan) > space.key(math.inf)  # type: ignore[operator] # both are integers
    assert space.read(struct.pack(">d", -math.inf), 0)[0] == space.key(-math.inf)


def test_sql_holds_the_zeros_equal() -> None:
    space = _space("FLOAT")

    assert space.equal_keys(0.0) == space.equal_keys(-0.0) == (space.key(-0.0), space.key(0.0))
    assert after(space.key(-0.0)) == space.key(0.0)


@pytest.mark.parametrize(
    ("text", "value", "keys", "before", "behind"),
    [
        pytest.param("TIMESTAMP(6)", 2_000, (2,), (2, 2), (3, 3), id="on a microsecond"),
        pytest.param("TIMESTAMP(6)", 2_001, (), (3, 3), (3, 3), id="between two"),
        pytest.param("TIMESTAMP(9)", 2_000, (2,), (2, 2), (2, 3), id="first of a microsecond"),
        pytest.param("TIMESTAMP(9)", 2_001, (2,), (2, 3), (2, 3), id="within one"),
        pytest.param("TIMESTAMP(9)", 2_999, (2,), (2, 3), (3, 3), id="last of one"),
        pytest.param("TIMESTAMP(9)", -1, (-1,), (-1, 0), (0, 0), id="before the epoch"),
        pytest.param("DOUBLE", 0.0, (-1, 0), (-1, -1), (1, 1), id="both zeros"),
        pytest.param("STRING", b"a", (b"a",), (b"a", b"a"), (b"a\0", b"a\0"), id="text"),
    ],
)
def test_cuts_the_keys_beside_a_value(
    text: str, value: float | bytes, keys: object, before: object, behind: object
) -> None:
    space = _space(text)

    assert space.equal_keys(value) == keys
    assert space.edge(value, behind=False) == before
    assert space.edge(value, behind=True) == behind


@pytest.mark.parametrize(
    ("text", "stored", "at"),
    [
        ("INT", "000000", 0),
        ("INT", "00000000", 1),
        ("STRING", "00000002c3", 0),
        ("STRING", "ffffffff", 0),
        ("INT", "00000000", -1),
    ],
)
def test_refuses_keys_that_are_not_there(text: str, stored: str, at: int) -> None:
    with pytest.raises(CorruptIndexError):
        _space(text).read(bytes.fromhex(stored), at)


def test_knows_no_keys_of_nested_types() -> None:
    assert key_space(parse_type("ARRAY<INT>")) is None
