from __future__ import annotations

import json
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.strict_json import read_json, write_json
from app.errors import RequestError
from app.planning.request.requests import TableRef

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_json_is_read_as_it_was_written(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "text",
    ["12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678", "1e400", "1E-400"],
)
def test_numbers_keep_every_digit(text: str) -> None:
    number = read_json(text.encode())

    assert isinstance(number, int | Decimal)
    assert Decimal(number) == Decimal(text)


@pytest.mark.parametrize("text", ["0.1", "1e3", "-0.0", "123456789.25", "1.7976931348623157e308"])
def test_doubles_stay_doubles(text: str) -> None:
    number = read_json(text.encode())

    assert isinstance(number, float)
    assert number == float(text)
    assert math.copysign(1, number) == math.copysign(1, float(text))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{} x", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b"\xff{}", "not UTF-8"),
        (b"NaN", "NaN is no JSON number"),
        (b"[-Infinity]", "-Infinity is no JSON number"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b'["\\ud800"]', "half a surrogate pair"),
        (b'{"\\uDfff": 1}', "half a surrogate pair"),
        (b"[" * 100_000, "nests too deeply"),
        (b'{"a":' * 100_000, "nests too deeply"),
        (b"1" * 5_000, "not JSON"),
        (b"0." + b"1" * 5_000, "a number of 5002 characters"),
        (b"1e99999999999999999999", "exponent"),
    ],
)
def test_what_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        read_json(body)


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert read_json(b'"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


def test_arrays_are_written_as_lists() -> None:
    assert write_json({"ranges": np.array([[1, 2], [3, 4]], np.uint64)}) == b'{"ranges":[[1,2],[3,4]]}'


def test_names_that_are_not_unicode_are_still_written() -> None:
    table = TableRef("w", "caf\udce9", "plain")

    assert json.loads(write_json({"names": [table], "n": 1})) == {
        "names": [{"warehouse": "w", "database": "caf?", "table": "plain"}],
        "n": 1,
    }
