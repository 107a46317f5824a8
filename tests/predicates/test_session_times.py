"""Dates, clocks and instants in a session's time zone, held against every value near a change of clocks.

The truth is computed with ``datetime`` alone, by the rules of Spark's casts. Where the zone is known every
answer is exact; where it is not, no value is ruled out that matches in any zone.
"""

import datetime as dt
from dataclasses import replace
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.predicates.model import BoundPredicate, Unknown, leaves
from app.types import DataField, TypeRoot, parse_type
from app.types.civil_time import clock_text
from app.types.session_zone import SessionZone, session_zone
from app.types.values import to_float32
from tests.examples import examples
from tests.row_matches import matches
from tests.session_meaning import (
    COLUMNS,
    COMPARISONS,
    MICROS,
    ask,
    in_list,
    literals,
    meanings,
    nanos,
    to_instant,
    truth,
    values_near,
)
from tests.sessions import bind_json, bind_sql

CHANGES: Final = (
    ("America/New_York", dt.datetime(2025, 3, 9, 2)),  # noqa: DTZ001 - a gap
    ("America/New_York", dt.datetime(2025, 11, 2, 2)),  # noqa: DTZ001 - an overlap
    ("America/Sao_Paulo", dt.datetime(2018, 11, 4)),  # noqa: DTZ001 - a gap at midnight
    ("America/Sao_Paulo", dt.datetime(2018, 2, 18)),  # noqa: DTZ001 - an overlap at midnight
    ("Australia/Lord_Howe", dt.datetime(2025, 10, 5, 2)),  # noqa: DTZ001 - a gap of half an hour
    ("Pacific/Apia", dt.datetime(2011, 12, 30)),  # noqa: DTZ001 - a day is left out
    ("America/Toronto", dt.datetime(1919, 3, 30, 23, 30)),  # noqa: DTZ001 - midnight within a gap
    ("Asia/Kolkata", dt.datetime(2025, 3, 1)),  # noqa: DTZ001 - nothing changes
)


def settled(name: str) -> SessionZone:
    """A zone whose rules are the same for everybody."""
    return replace(session_zone(name), name=f"{name} by our rules", doubts=())


HOUR: Final = 3_600_000_000 * MICROS
OVERLAP: Final = nanos(dt.datetime(2025, 11, 2, 1, 30))  # noqa: DTZ001 - a wall clock
"""Which New York's clocks show twice."""
CASES: Final = st.sampled_from(CHANGES).flatmap(
    lambda change: st.tuples(st.just(change), literals(change[1]), literals(change[1]))
)


@examples(150)
@given(st.sampled_from(COLUMNS), CASES, st.sampled_from(sorted(COMPARISONS)), st.sampled_from(["", "NOT "]))
def test_a_comparison_is_exact_where_the_zone_is_known(
    column: Any, case: Any, symbol: str, negation: str
) -> None:
    (name, around), literal, _ = case
    condition = f"{negation}c {symbol} {literal.sql}"
    bound = bind_sql(condition, [DataField(0, "c", column)], settled(name))

    in_doubt = any(isinstance(leaf, Unknown) for leaf in leaves(bound))
    differ = False
    for value in values_near(column.root, ZoneInfo(name), around):
        found = {
            each is not bool(negation)
            for each in meanings(column.root, value, symbol, literal, ZoneInfo(name))
        }
        answer = ask(bound, value)
        assert answer is None if len(found) > 1 else answer in (None, *found), (condition, name, value)
        assert (answer is None) <= in_doubt
        differ |= len(found) > 1
    assert in_doubt <= differ


def test_a_text_that_clocks_show_twice_is_either_instant_to_the_microsecond() -> None:
    # Some of Spark's modes compare a list as text, in which an instant has six digits.
    column = DataField(0, "c", parse_type("TIMESTAMP(9) WITH LOCAL TIME ZONE"))
    zone = "America/New_York"
    bound = bind_sql("c IN ('2025-11-02 01:30:00.0000019')", [column], session_zone(zone))

    earlier = to_instant(dt.datetime(2025, 11, 2, 1, 30), ZoneInfo(zone))  # noqa: DTZ001 - a wall clock
    for instant in (earlier, earlier + 3_600_000_000 * MICROS):
        answers = [ask(bound, instant + digits) for digits in (999, 1_000, 1_999, 2_000)]
        assert answers == [False, None, None, False]


@examples(150)
@given(st.sampled_from(COLUMNS), CASES, st.sampled_from(["BETWEEN", "IN", "NOT IN"]))
def test_ranges_and_lists_are_exact_where_the_zone_is_known(column: Any, case: Any, test: str) -> None:
    (name, around), first, second = case
    zone = ZoneInfo(name)
    listed = (
        f"BETWEEN {first.sql} AND {second.sql}"
        if test == "BETWEEN"
        else f"{test} ({first.sql}, {second.sql})"
    )
    bound = bind_sql(f"c {listed}", [DataField(0, "c", column)], settled(name))
    in_doubt = any(isinstance(leaf, Unknown) for leaf in leaves(bound))
    for value in values_near(column.root, ZoneInfo(name), around):
        if test == "BETWEEN":
            expected = truth(column.root, value, ">=", first, zone) and truth(
                column.root, value, "<=", second, zone
            )
        else:
            expected = in_list(column.root, value, (first, second), zone) is (test == "IN")
        answer = ask(bound, value)
        assert answer in (None, expected), (listed, name, value)
        assert answer is expected or in_doubt, (listed, name, value)


@examples(150)
@given(st.sampled_from(COLUMNS), CASES, st.sampled_from(sorted(COMPARISONS)), st.sampled_from(["", "NOT "]))
def test_without_a_zone_nothing_is_ruled_out_that_matches_in_one(
    column: Any, case: Any, symbol: str, negation: str
) -> None:
    (name, around), literal, _ = case
    condition = f"{negation}c {symbol} {literal.sql}"
    bound = bind_sql(condition, [DataField(0, "c", column)], None)

    for value in values_near(column.root, ZoneInfo(name), around):
        for each in meanings(column.root, value, symbol, literal, ZoneInfo(name)):
            assert ask(bound, value) in (None, each is not bool(negation)), (condition, name, value)
    zones_matter = TypeRoot.TIMESTAMP_LTZ in (column.root, literal.of)
    lacking = any(isinstance(leaf, Unknown) and leaf.lacks_time_zone for leaf in leaves(bound))
    assert lacking is zones_matter


@pytest.mark.parametrize(
    ("condition", "meaning"),
    [
        ("c = '2025-03-01 03:00:00'", "c = '2025-03-01T08:00:00Z'"),
        ("c = '2025-03-01'", "c = '2025-03-01T05:00:00Z'"),
        ("c = '2025-07-01 03:00'", "c = '2025-07-01T07:00:00Z'"),
        ("c < '2025-03-01 03:00:00+05:30'", "c < '2025-02-28T21:30:00Z'"),
        ("c < '2025-03-01 03:00:00 Asia/Kolkata'", "c < '2025-02-28T21:30:00Z'"),
        ("c < TIMESTAMP '2025-03-01 03:00:00.5Asia/Kolkata'", "c < '2025-02-28T21:30:00.5Z'"),
        ("c = CAST(TIMESTAMP '2025-03-01 03:00:00Z' AS DATE)", "c = '2025-02-28T05:00:00Z'"),
        ("c = CAST(DATE '2025-03-09' AS TIMESTAMP)", "c = '2025-03-09T05:00:00Z'"),
        # Spark without ANSI compares such a list as text, so that it is covered and not proven.
        (
            "c IN (DATE '2025-03-01', '2025-03-02')",
            (
                "c IN ('2025-03-01T05:00:00Z', '2025-03-02T05:00:00Z') "
                "AND c IN (DATE '2025-03-01', '2025-03-02')"
            ),
        ),
    ],
)
def test_literals_in_new_york(condition: str, meaning: str) -> None:
    field = DataField(0, "c", parse_type("TIMESTAMP_LTZ(6)"))

    assert str(bind_sql(condition, [field], session_zone("America/New_York"))) == meaning


@pytest.mark.parametrize(
    ("literal", "meaning"),
    [
        ("2025-03-01T03:00", "c = '2025-03-01T08:00:00Z'"),
        ([2025, 3, 1, 3, 0], "c = '2025-03-01T08:00:00Z'"),
        ("2025-03-01T03:00Z", "c = '2025-03-01T03:00:00Z'"),
        ("2025-03-01 03:00 Europe/Paris", "c = '2025-03-01T02:00:00Z'"),
        ({"$ms": 0}, "c = '1970-01-01T00:00:00Z'"),
        (1.5, "c = '1970-01-01T00:00:01.5Z'"),
    ],
)
def test_json_literals_in_new_york(literal: object, meaning: str) -> None:
    field = DataField(0, "c", parse_type("TIMESTAMP_LTZ(6)"))
    column = {"name": "FIELD_REF", "fieldRef": {"name": "c"}}
    written = {"kind": "LEAF", "transform": column, "function": "EQUAL", "literals": [literal]}

    bound = bind_json(written, [field], session_zone("America/New_York"))

    assert str(bound) == meaning


def test_text_that_is_shown_twice_may_be_either_in_a_list() -> None:
    field = DataField(0, "c", parse_type("TIMESTAMP_LTZ(6)"))

    bound = bind_sql("c IN ('2025-11-02 01:30:00')", [field], session_zone("America/New_York"))

    first, second = (to_instant(dt.datetime(2025, 11, 2, hour, 30), ZoneInfo("UTC")) for hour in (5, 6))  # noqa: DTZ001 - a wall clock
    assert ask(bound, first) is None
    assert ask(bound, second) is None
    assert ask(bound, (first + second) // 2) is False


@pytest.mark.parametrize(
    ("data_type", "condition", "value"),
    [
        ("FLOAT", "c IN (0.1, '0.2')", to_float32(0.1)),
        ("FLOAT", "c IN (0.1D, '0.2')", to_float32(0.1)),
        ("TIMESTAMP(6)", "c IN (TIMESTAMP '2025-11-02 06:30:00Z', '2020-01-01')", OVERLAP),
        ("TIMESTAMP(9)", "c IN (TIMESTAMP '2025-11-02 06:30:00Z', '2020-01-01')", OVERLAP + 1),
        ("TIMESTAMP_LTZ(6)", "c IN (TIMESTAMP '2025-11-02 01:30:00', '2020-01-01')", OVERLAP + 5 * HOUR),
        ("TIMESTAMP_LTZ(6)", "c IN (TIMESTAMP_NTZ '2025-11-02 01:30:00', '2020-01-01')", OVERLAP + 5 * HOUR),
    ],
)
def test_a_list_with_text_keeps_what_equals_its_other_literals_as_text(
    data_type: str, condition: str, value: Any
) -> None:
    # So Spark 4.0 finds these values without ANSI.
    field = DataField(0, "c", parse_type(data_type))

    assert ask(bind_sql(condition, [field], session_zone("America/New_York")), value) is None


START: Final = 1_735_689_600_000_000_000
"""2025-01-01T00:00."""
MICRO: Final = 1_000
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
