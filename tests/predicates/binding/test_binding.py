import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.predicates.binding.binding import bind, day_of_request, today
from app.predicates.model import Unknown
from app.predicates.sql.reader import read_sql
from app.types import DataField, parse_type
from app.types.civil_time import NANOS_PER_DAY, NANOS_PER_SECOND, add_months, epoch_days
from app.types.session_zone import session_zone
from tests.row_matches import matches
from tests.session_meaning import COMPARISONS

FIELDS = (
    DataField(0, "d", parse_type("DATE")),
    DataField(1, "z", parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE")),
    DataField(2, "name", parse_type("STRING")),
)
DAY = epoch_days(2025, 3, 9)
ZONES = ("UTC", "America/New_York", "Pacific/Kiritimati", "Pacific/Apia@2025b")
HOUR = 3_600 * NANOS_PER_SECOND


@example(-24 * 60, "America/New_York", "=", 0, "current_date", "{}")
@example(48 * 60 - 1, "Pacific/Kiritimati", "=", 0, "current_date", "{}")
@given(
    st.integers(-24 * 60, 48 * 60 - 1),
    st.sampled_from(ZONES),
    st.sampled_from(sorted(COMPARISONS)),
    st.integers(-40, 40),
    st.sampled_from(["current_date", "current_date()", "curdate()"]),
    st.sampled_from(["{}", "NOT ({})"]),
)
def test_no_day_is_left_out_whatever_time_the_reader_has(
    minute: int, zone_name: str, symbol: str, moved: int, today_is: str, form: str
) -> None:
    zone = session_zone(zone_name)
    condition = f"d {symbol} {today_is} + INTERVAL '{moved}' DAY"
    bound = bind(read_sql(form.format(condition), zone=zone), FIELDS, zone=zone, day=DAY)

    now = DAY * NANOS_PER_DAY + minute * 60 * NANOS_PER_SECOND
    literal = zone.to_clock(now) // NANOS_PER_DAY + moved
    for day in range(DAY - 45, DAY + 46):
        if COMPARISONS[symbol](day, literal) is (form == "{}"):
            assert matches(bound, {0: day}) is None


@example(-24 * 60, "America/New_York", "=")
@example(48 * 60 - 1, "Pacific/Kiritimati", "=")
@given(st.integers(-24 * 60, 48 * 60 - 1), st.sampled_from(ZONES), st.sampled_from(sorted(COMPARISONS)))
def test_without_a_zone_no_day_is_left_out_of_any_zone(minute: int, zone: str, symbol: str) -> None:
    bound = bind(read_sql(f"d {symbol} current_date"), FIELDS, day=DAY)

    literal = (
        session_zone(zone).to_clock(DAY * NANOS_PER_DAY + minute * 60 * NANOS_PER_SECOND) // NANOS_PER_DAY
    )
    for day in range(DAY - 5, DAY + 6):
        if COMPARISONS[symbol](day, literal):
            assert matches(bound, {0: day}) is None


@given(st.integers(-24 * 60, 48 * 60 - 1), st.integers(-72, 72), st.sampled_from(sorted(COMPARISONS)))
def test_no_instant_is_left_out_whatever_time_the_reader_has(minute: int, hours: int, symbol: str) -> None:
    bound = bind(read_sql(f"z {symbol} now() + INTERVAL '{hours}' HOUR"), FIELDS, day=DAY)

    now = DAY * NANOS_PER_DAY + minute * 60 * NANOS_PER_SECOND + hours * HOUR
    for aside in range(-5, 6):
        if COMPARISONS[symbol](aside, 0):
            assert matches(bound, {1: now + aside * HOUR}) is None


@pytest.mark.parametrize(
    ("condition", "left", "out"),
    [
        ("d > current_date - INTERVAL 3 DAYS", (DAY - 3, DAY, DAY + 900), (DAY - 6, DAY - 900)),
        ("d >= date_sub(current_date(), 3)", (DAY - 3, DAY), (DAY - 7,)),
        ("d = current_date", (DAY - 1, DAY, DAY + 1), (DAY - 3, DAY + 4)),
        ("current_date - 7 <= d", (DAY - 7,), (DAY - 11,)),
        ("d BETWEEN current_date - INTERVAL 1 WEEK AND current_date", (DAY - 7, DAY), (DAY - 11, DAY + 4)),
        ("NOT d BETWEEN current_date - 7 AND current_date()", (DAY - 8, DAY + 1), (DAY - 3,)),
        ("d >= add_months(current_date, -1)", (epoch_days(2025, 2, 9),), (epoch_days(2025, 2, 5),)),
        ("year(d) = 2025 AND d < current_date", (DAY - 1,), (DAY + 4, DAY - 400)),
    ],
)
def test_the_time_of_the_query_leaves_out_what_is_days_away(
    condition: str, left: tuple[int, ...], out: tuple[int, ...]
) -> None:
    zone = session_zone("America/New_York")
    bound = bind(read_sql(condition, zone=zone), FIELDS, zone=zone, day=DAY)

    assert [matches(bound, {0: day}) for day in left] == [None] * len(left)
    assert [matches(bound, {0: day}) for day in out] == [False] * len(out)


def test_a_column_that_is_called_so_goes_before_the_time_of_the_query() -> None:
    fields = [*FIELDS, DataField(9, "current_date", parse_type("DATE"))]

    assert isinstance(bind(read_sql("d > current_date"), fields), Unknown)
    assert isinstance(bind(read_sql("d > current_date - 3"), fields), Unknown)
    assert str(bind(read_sql("current_date = '2025-03-09'"), fields)) == "current_date = '2025-03-09'"


@pytest.mark.parametrize(
    "condition", ["d IN (current_date(), '2025-03-09')", "name > current_date()", "d > localtimestamp()"]
)
def test_other_tests_by_the_clock_say_why_they_are_not_decided(condition: str) -> None:
    bound = bind(read_sql(condition), FIELDS)

    assert isinstance(bound, Unknown)
    assert bound.reason is not None


def test_answers_to_filters_that_ask_the_clock_hold_for_a_day() -> None:
    for text in ("d > CURRENT_DATE", "d > Now() - INTERVAL 1 DAY", "d = curdate()", "z < current_timestamp"):
        before = int(time.time()) * NANOS_PER_SECOND // NANOS_PER_DAY
        assert before <= (day_of_request(text) or 0) <= today()
    for other in ("d > '2025-03-09'", "nowhere = 1", None, {"kind": "LEAF"}):
        assert day_of_request(other) is None


def test_months_end_at_their_last_day() -> None:
    assert add_months(epoch_days(2024, 1, 31), 1) == epoch_days(2024, 2, 29)
    assert add_months(epoch_days(2024, 3, 31), -13) == epoch_days(2023, 2, 28)
    assert add_months(epoch_days(2024, 12, 5), 1) == epoch_days(2025, 1, 5)


@pytest.mark.parametrize(
    ("written", "does_ask"),
    [
        ("ts < now()", True),
        ("d = Current_Date", True),
        ("d = current_timestamp()", True),
        ("d < CURDATE()", True),
        ("a.NOW > 1", True),
        ("snow = 1", False),
        ("now_ = 1", False),
        ("known IN ('current')", False),
        ("d = DATE '2026-01-01'", False),
    ],
)
def test_an_answer_has_a_day_where_a_filter_may_name_the_clock(written: str, does_ask: bool) -> None:
    assert (day_of_request(written) is not None) is does_ask
