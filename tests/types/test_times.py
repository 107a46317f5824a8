"""Calendar arithmetic for any year, held to ``datetime.date`` in its years and to the cycle elsewhere."""

import datetime as dt
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.types.civil_time import (
    NANOS_PER_SECOND,
    TimestampText,
    civil_date,
    date_text,
    epoch_days,
    read_date,
    read_timestamp,
)
from app.types.session_zone import session_zone

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


EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - wall clocks
HOUR = 3_600 * NANOS_PER_SECOND
REGIONS = ("America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia")


def nanos(*clock: int) -> int:
    return (dt.datetime(*clock) - EPOCH) // dt.timedelta(microseconds=1) * 1_000  # type: ignore[arg-type]  # noqa: DTZ001 - a wall clock


def day(*date: int) -> int:
    return (dt.date(*date) - EPOCH.date()).days


@given(
    st.sampled_from(REGIONS),
    st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9999, 12, 1)),  # noqa: DTZ001 - wall clocks
)
def test_clocks_and_instants_are_those_of_the_zone(name: str, clock: dt.datetime) -> None:
    zone, region = session_zone(name), ZoneInfo(name)
    written = (clock - EPOCH) // dt.timedelta(microseconds=1) * 1_000

    instant = zone.to_instant(written)

    offset = region.utcoffset(clock)
    assert offset is not None
    assert written - instant == offset // dt.timedelta(seconds=1) * NANOS_PER_SECOND
    shown = (clock.replace(tzinfo=dt.UTC)).astimezone(region).replace(tzinfo=None)
    assert zone.to_clock(written) == (shown - EPOCH) // dt.timedelta(microseconds=1) * 1_000


@given(st.sampled_from(REGIONS), st.integers(-(1 << 40), 1 << 40))
def test_an_instant_is_shown_by_its_clock(name: str, second: int) -> None:
    zone, instant = session_zone(name), second * NANOS_PER_SECOND

    assert instant in zone.to_instants(zone.to_clock(instant))


@given(st.sampled_from(REGIONS), st.integers(0, 4_000), st.integers(0, 86_399))
def test_rules_go_on_beyond_the_years_of_datetime(name: str, cycles: int, second: int) -> None:
    zone, clock = session_zone(name), nanos(2400, 7, 1) + second * NANOS_PER_SECOND
    later = clock + cycles * 146_097 * 24 * HOUR

    assert later - zone.to_instant(later) == clock - zone.to_instant(clock)


@given(st.sampled_from(REGIONS), st.integers(-150 * 366, 100 * 366))
def test_offsets_between_two_instants(name: str, first_day: int) -> None:
    zone, first = session_zone(name), first_day * 24 * HOUR
    last = first + 60 * 24 * HOUR

    shifts = zone.shifts(first, last)

    assert shifts[0].start <= first
    assert shifts[-1].end > last
    assert all(one.end == following.start for one, following in pairwise(shifts))
    for start, end, offset in shifts:
        for instant in (start, (start + end) // 2, end - 1):
            assert zone.to_clock(instant) - instant == offset


def test_a_clock_in_a_gap_moves_forward_by_its_length() -> None:
    zone = session_zone("America/New_York")

    assert zone.to_instants(nanos(2025, 3, 9, 2, 30)) == ()
    assert zone.to_clock(zone.to_instant(nanos(2025, 3, 9, 2, 30))) == nanos(2025, 3, 9, 3, 30)


def test_a_clock_in_an_overlap_is_the_earlier_instant() -> None:
    zone = session_zone("America/New_York")
    clock = nanos(2025, 11, 2, 1, 30)

    assert zone.to_instants(clock) == (clock + 4 * HOUR, clock + 5 * HOUR)
    assert zone.to_instant(clock) == clock + 4 * HOUR


@pytest.mark.parametrize(
    ("name", "date", "starts"),
    [
        ("America/New_York", (2025, 3, 9), (2025, 3, 9, 5)),
        ("America/Sao_Paulo", (2018, 11, 4), (2018, 11, 4, 3)),  # 00:00 was 01:00
        ("America/Havana", (2025, 11, 2), (2025, 11, 2, 4)),  # 01:00 was 00:00 again
        ("America/Toronto", (1919, 3, 31), (1919, 3, 31, 4, 30)),  # 23:30 was 00:30
        ("Pacific/Apia", (2011, 12, 30), (2011, 12, 30, 10)),  # the day was left out
        ("Pacific/Apia", (2011, 12, 31), (2011, 12, 30, 10)),
        ("+05:30", (2025, 1, 1), (2024, 12, 31, 18, 30)),
    ],
)
def test_a_day_starts_at_its_first_instant(name: str, date: tuple[int, ...], starts: tuple[int, ...]) -> None:
    assert session_zone(name).start_of_day(day(*date)) == nanos(*starts)


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        *(("UTC", 0), ("Z", 0), ("UT", 0), ("GMT0", 0), ("Etc/GMT+3", -3), ("+5", 5), ("-5:30", -5.5)),
        *(("+05:3", 5.05), ("+0530", 5.5), ("-18:00", -18), ("UTC+5", 5), ("GMT-03:30", -3.5), ("PST", -8)),
        *(("EST", -5), ("Asia/Kathmandu", 5.5)),
    ],
)
def test_names_are_those_that_spark_takes(name: str, hours: float) -> None:
    assert session_zone(name).to_clock(0) == hours * HOUR


@pytest.mark.parametrize(
    "name",
    ["", "America", "america/new_york", "../UTC", "right/UTC", "+19", "+05:60", "+1:2:3", "UTC5", "Zulu+1"],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"is no (time zone|offset)"):
        session_zone(name)
