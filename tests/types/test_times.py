"""Calendar arithmetic for any year, held to ``datetime.date`` in its years and to the cycle elsewhere."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.types.civil_time import (
    NANOS_PER_SECOND,
    TimestampText,
    civil_date,
    date_text,
    epoch_days,
    offset_nanos,
    read_date,
    read_timestamp,
)

EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
CYCLE_YEARS, CYCLE_DAYS = 400, 146_097
ANY_DAY = st.integers(-(1 << 38), 1 << 38)


@given(st.dates())
def test_days_are_those_of_python(day: dt.date) -> None:
    days = day.toordinal() - EPOCH_ORDINAL

    assert epoch_days(day.year, day.month, day.day) == days
    assert civil_date(days) == (day.year, day.month, day.day)
    assert date_text(days) == day.isoformat()


@given(ANY_DAY)
def test_every_day_has_one_date_and_the_next_day_follows(days: int) -> None:
    date = civil_date(days)

    assert epoch_days(*date) == days
    assert civil_date(days + 1) > date
    assert civil_date(days + CYCLE_DAYS) == (date[0] + CYCLE_YEARS, *date[1:])


def test_a_whole_cycle_has_pythons_days() -> None:
    start = dt.date(2000, 1, 1).toordinal()

    for ordinal in range(start, start + CYCLE_DAYS):
        day = dt.date.fromordinal(ordinal)
        assert civil_date(ordinal - EPOCH_ORDINAL) == (day.year, day.month, day.day)
        assert epoch_days(day.year, day.month, day.day) == ordinal - EPOCH_ORDINAL


@given(st.integers(-10_000, 10_000), st.integers(-1, 14), st.integers(-1, 33))
def test_a_day_is_refused_where_python_refuses_it(year: int, month: int, day: int) -> None:
    try:
        dt.date(2000 + year % CYCLE_YEARS, month, day)
    except ValueError:
        with pytest.raises(ValueError, match="no such day"):
            epoch_days(year, month, day)
    else:
        assert civil_date(epoch_days(year, month, day)) == (year, month, day)


@given(ANY_DAY)
def test_text_reads_back(days: int) -> None:
    text = date_text(days)

    assert read_date(text) == days
    assert read_timestamp(f"{text}T00:00:00Z") == TimestampText(days * 86_400 * 10**9, "Z")


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (-719_162, "0001-01-01"),
        (-719_163, "0000-12-31"),
        (-719_529, "-0001-12-31"),
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
        ((1 << 31) - 1, "+5881580-07-11"),
    ],
)
def test_years_of_other_than_four_digits_have_a_sign(days: int, text: str) -> None:
    assert date_text(days) == text


def test_a_day_alone_has_no_zone() -> None:
    assert read_timestamp("1970-01-01") == TimestampText(0, None)
    with pytest.raises(ValueError, match="not of the form"):
        read_timestamp("1970-01-01+05:30")


@pytest.mark.parametrize(
    ("zone", "hours"),
    [
        *(("Z", 0), ("z", 0), ("UTC", 0), ("GMT", 0), ("+5", 5), ("-5:30", -5.5), ("+0530", 5.5)),
        *(("+05:30", 5.5), ("-18:00", -18), ("+01:00:36", 1.01)),
    ],
)
def test_offsets_are_numbers_or_z(zone: str, hours: float) -> None:
    assert offset_nanos(zone) == hours * 3_600 * NANOS_PER_SECOND


@pytest.mark.parametrize("zone", [None, "", "Europe/Vienna", "PST", "+19", "+05:60", "+1:2:3", "UTC+5"])
def test_other_zones_have_no_offset_of_their_own(zone: str | None) -> None:
    assert offset_nanos(zone) is None
