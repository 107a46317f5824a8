"""Digits behind the microsecond, which Spark cuts off and other engines may mean."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.predicates.model import BoundPredicate
from app.predicates.verdicts import matches
from app.types import DataField, parse_type
from app.types.civil_time import clock_text
from app.types.session_zone import session_zone
from tests.examples import examples
from tests.sessions import bind_json, bind_sql

START: Final = 1_735_689_600_000_000_000
"""2025-01-01T00:00."""
MICRO: Final = 1_000
COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TYPES: Final = ("TIMESTAMP({})", "TIMESTAMP({}) WITH LOCAL TIME ZONE")
UTC: Final = session_zone("UTC")


def bind(data_type: str, condition: str) -> BoundPredicate:
    return bind_sql(condition, [DataField(0, "c", parse_type(data_type))], UTC)


def in_spark(nanos: int) -> int:
    return nanos // MICRO


@examples(300)
@given(
    st.sampled_from(TYPES),
    st.sampled_from([3, 6, 7, 9]),
    st.sampled_from(["", "TIMESTAMP ", "TIMESTAMP_NTZ "]),
    st.sampled_from(sorted(COMPARISONS)),
    st.sampled_from(["", "NOT "]),
    st.integers(0, 3 * MICRO),
)
def test_a_value_that_matches_as_spark_cuts_it_or_as_it_is_written_is_never_ruled_out(
    data_type: str, precision: int, prefix: str, symbol: str, negation: str, digits: int
) -> None:
    literal = START + digits
    condition = f"{negation}c {symbol} {prefix}'2025-01-01 {clock_text(digits)}'"
    bound = bind(data_type.format(precision), condition)
    compare = COMPARISONS[symbol]

    step = 10 ** (9 - precision)
    for value in (START + at for at in range(0, 4 * MICRO, min(step, MICRO)) if at % step == 0):
        meanings = {
            compare(value, literal) is not bool(negation),
            compare(in_spark(value), in_spark(literal)) is not bool(negation),
        }
        answer = matches(bound, {0: value})
        assert answer is None if len(meanings) > 1 else answer in (None, *meanings), (condition, value)
        if digits % MICRO == 0 and precision <= 6:
            assert answer is not None


@pytest.mark.parametrize("data_type", [each.format(9) for each in TYPES])
@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("c IN ('2025-01-01 00:00:00.000001', '2024-01-01')", range(1000, 2000)),
        ("c BETWEEN '2025-01-01 00:00:00.000001' AND '2025-01-01 00:00:00.000001'", range(1000, 2000)),
        ("c <=> '2025-01-01 00:00:00.000001'", range(1000, 2000)),
    ],
)
def test_lists_and_ranges_have_whole_microseconds(data_type: str, condition: str, kept: range) -> None:
    bound = bind(data_type, condition)

    found = [at for at in range(4 * MICRO) if matches(bound, {0: START + at}) is not False]
    assert found == list(kept)


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("c = TIMESTAMP_NTZ '2025-01-01 00:00:00.0000009'", [0]),
        ("c >= TIMESTAMP '2025-01-01 00:00:00.0000009'", [0, 1]),
        ("c < TIMESTAMP '2025-01-01 00:00:00.0000009'", [-1, 0]),
        ("c > TIMESTAMP_NTZ '2025-01-01 00:00:00.000001'", [1]),
    ],
)
def test_a_date_is_the_midnight_that_spark_cuts_a_timestamp_to(condition: str, kept: list[int]) -> None:
    bound = bind("DATE", condition)

    day = START // 86_400_000_000_000
    assert [at for at in (-1, 0, 1) if matches(bound, {0: day + at}) is not False] == kept


def test_a_predicate_of_json_names_the_value_itself() -> None:
    field = DataField(0, "c", parse_type("TIMESTAMP(9)"))
    column = {"name": "FIELD_REF", "fieldRef": {"name": "c"}}
    predicate = {
        "kind": "LEAF",
        "transform": column,
        "function": "EQUAL",
        "literals": ["2025-01-01T00:00:00.123456789"],
    }

    bound = bind_json(predicate, [field])

    assert [matches(bound, {0: START + 123_456_789 + at}) for at in (-1, 0, 1)] == [False, True, False]
