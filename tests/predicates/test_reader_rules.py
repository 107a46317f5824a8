"""Readers that go by other rules of a zone than the service: no row of theirs is lost."""

import datetime as dt
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.types import DataField, parse_type
from app.types.reader_rules import OWN_RELEASE
from app.types.session_zone import Instants, clocks_of_instants, session_zone
from app.types.zone_revisions import LAST_RELEASE
from tests.examples import examples
from tests.session_meaning import (
    COLUMNS,
    COMPARISONS,
    ask,
    in_list,
    literals,
    meanings,
    to_instant,
    truth,
    values_near,
)
from tests.sessions import bind_json, bind_sql
from tests.time_zone_files import zone_of_rules

PACIFIC: Final = "PST8PDT,M3.2.0,M11.1.0"
READERS: Final = (
    # What the caller says, the rules that he goes by, and where these are others.
    ("America/Vancouver", PACIFIC, dt.datetime(2026, 12, 1)),  # noqa: DTZ001 - clocks, here and below
    ("America/Vancouver@2025a", PACIFIC, dt.datetime(2026, 11, 1, 2)),  # noqa: DTZ001
    ("Canada/Pacific", PACIFIC, dt.datetime(2027, 3, 14, 2)),  # noqa: DTZ001
    ("Africa/Casablanca", "<+01>-1", dt.datetime(2026, 12, 1)),  # noqa: DTZ001
    ("Asia/Tehran@2021a", "<+0330>-3:30<+0430>,J79/24,J263/24", dt.datetime(2025, 7, 1)),  # noqa: DTZ001
    ("Antarctica/Casey", "<+11>-11", dt.datetime(2018, 3, 12)),  # noqa: DTZ001
    ("America/New_York", "EDT4", dt.datetime(2027, 1, 15)),  # noqa: DTZ001 - a law that is not made yet
    ("America/New_York@2031b", "EST5", dt.datetime(2025, 7, 1)),  # noqa: DTZ001 - a later release
    ("America/New_York@2015a", "EST5", dt.datetime(2010, 7, 1)),  # noqa: DTZ001 - an earlier one
    ("Europe/Amsterdam", "<+0020>-0:19:32", dt.datetime(1930, 6, 1)),  # noqa: DTZ001 - zones that were merged
)
READ: Final = st.sampled_from(READERS).flatmap(
    lambda reader: st.tuples(st.just(reader), literals(reader[2]), literals(reader[2]))
)
LTZ: Final = DataField(0, "c", parse_type("TIMESTAMP_LTZ(6)"))
NEGATIONS: Final = st.sampled_from(["", "NOT "])


def ours(name: str) -> ZoneInfo:
    """Those of the service, which does not go by the files of the machine."""
    region = session_zone(name).region
    assert region is not None
    return region


@examples(200)
@given(st.sampled_from(COLUMNS), READ, st.sampled_from(sorted(COMPARISONS)), NEGATIONS)
def test_comparisons(column: Any, read: Any, symbol: str, negation: str) -> None:
    (name, rules, around), literal, _ = read
    condition = f"{negation}c {symbol} {literal.sql}"
    bound = bind_sql(condition, [DataField(0, "c", column)], session_zone(name))

    for zone in (zone_of_rules(rules), ours(name)):
        for value in values_near(column.root, zone, around):
            for found in meanings(column.root, value, symbol, literal, zone):
                expected = found is not bool(negation)
                assert ask(bound, value) in (None, expected), (condition, name, value)


@examples(200)
@given(st.sampled_from(COLUMNS), READ, st.sampled_from(["BETWEEN", "IN", "NOT IN"]))
def test_ranges_and_lists(column: Any, read: Any, test: str) -> None:
    (name, rules, around), first, second = read
    listed = (
        f"BETWEEN {first.sql} AND {second.sql}"
        if test == "BETWEEN"
        else f"{test} ({first.sql}, {second.sql})"
    )
    bound = bind_sql(f"c {listed}", [DataField(0, "c", column)], session_zone(name))
    for zone in (zone_of_rules(rules), ours(name)):
        for value in values_near(column.root, zone, around):
            if test == "BETWEEN":
                expected = truth(column.root, value, ">=", first, zone) and truth(
                    column.root, value, "<=", second, zone
                )
            else:
                expected = in_list(column.root, value, (first, second), zone) is (test == "IN")
            assert ask(bound, value) in (None, expected), (listed, name, value)


@pytest.mark.parametrize(("name", "rules", "around"), READERS)
def test_text_in_json_and_in_the_zone_of_a_literal(name: str, rules: str, around: dt.datetime) -> None:
    reader = zone_of_rules(rules)
    zone, _, release = name.partition("@")
    column = {"name": "FIELD_REF", "fieldRef": {"name": "c"}}
    text = around.isoformat(" ")
    written = {"kind": "LEAF", "transform": column, "function": "EQUAL", "literals": [text]}
    session = f"UTC@{release}" if release else "UTC"
    for bound in (
        bind_json(written, [LTZ], session_zone(name)),
        bind_sql(f"c = '{text} {zone}'", [LTZ], session_zone(session)),
        bind_sql(f"c IN ('{text}')", [LTZ], session_zone(name)),
    ):
        assert ask(bound, to_instant(around, reader)) in (None, True)


@pytest.mark.parametrize(
    ("zone", "clock"),
    [
        ("UTC", "2031-01-01 00:00:00"),
        ("UTC@2031a", "1900-01-01 00:00:00"),
        ("-07:00", "2031-01-01 00:00:00"),
        ("Etc/GMT+7", "2031-01-01 00:00:00"),
        ("America/New_York", "1970-01-05 00:00:00"),
        ("America/New_York", "2026-06-27 00:00:00"),
        ("America/New_York@2025a", "2031-01-01 00:00:00"),
        (f"America/Vancouver@{OWN_RELEASE}", "2031-01-01 00:00:00"),
        ("America/Vancouver@2025a", "2025-11-02 03:00:00"),
    ],
)
def test_where_rules_cannot_differ_a_clock_is_one_instant(zone: str, clock: str) -> None:
    bound = bind_sql(f"c = '{clock}'", [LTZ], session_zone(zone))

    known = session_zone(zone).region or dt.timezone(dt.timedelta(hours=-7 if zone == "-07:00" else 0))
    instant = dt.datetime.fromisoformat(clock).replace(tzinfo=known).astimezone(dt.UTC)
    assert str(bound) == f"c = '{instant:%Y-%m-%dT%H:%M:%SZ}'"


@pytest.mark.parametrize(
    ("zone", "earliest", "latest"),
    [
        # An hour beyond what New York has around the year, and three where releases contradict each other.
        ("America/New_York", "2027-01-01T03:00:00Z", "2027-01-01T06:00:00Z"),
        ("America/Vancouver@2025a", "2027-01-01T04:00:00Z", "2027-01-01T10:00:00Z"),
        ("America/New_York@2031a", "2027-01-01T01:00:00Z", "2027-01-01T08:00:00Z"),
    ],
)
def test_how_far_a_clock_is_in_doubt(zone: str, earliest: str, latest: str) -> None:
    bound = bind_sql("c = '2027-01-01 00:00:00'", [LTZ], session_zone(zone))

    ends = [int(dt.datetime.fromisoformat(text).timestamp()) * 1_000_000_000 for text in (earliest, latest)]
    assert [ask(bound, end) for end in ends] == [None, None]
    assert [ask(bound, end + aside) for end, aside in zip(ends, (-1_000, 1_000), strict=True)] == [False] * 2


@pytest.mark.parametrize(
    ("zone", "instant", "clock"),
    [
        ("Asia/Singapore@2022f", "1981-12-31T16:00:00Z", "1981-12-31T23:30:00"),
        ("Asia/Kuala_Lumpur", "1981-12-31T16:10:00Z", "1981-12-31T23:40:00"),
        ("Atlantic/Azores@2024a", "1984-03-25T01:00:00Z", "1984-03-25T00:00:00"),
        ("Europe/Kiev@2021e", "1992-03-28T22:00:00Z", "1992-03-29T01:00:00"),
        ("America/Rainy_River@2022e", "1990-10-28T07:00:00Z", "1990-10-28T01:00:00"),
        ("Asia/Gaza@2020c", "2015-10-22T21:00:00Z", "2015-10-22T23:00:00"),
    ],
)
def test_a_change_that_was_revised_by_less_than_six_hours_is_in_doubt(
    zone: str, instant: str, clock: str
) -> None:
    at = int(dt.datetime.fromisoformat(instant).timestamp()) * 1_000_000_000
    shown = int(dt.datetime.fromisoformat(f"{clock}Z").timestamp()) * 1_000_000_000

    first, last = clocks_of_instants(Instants(at, at), session_zone(zone))

    assert first <= shown <= last
    bound = bind_sql(f"c = TIMESTAMP_NTZ '{clock}'", [LTZ], session_zone(zone))
    assert ask(bound, at) is None


def test_summer_time_of_a_week_counts() -> None:
    """Recife had one in October 2000, and none else within half a year."""
    at = int(dt.datetime(2001, 1, 15, tzinfo=dt.UTC).timestamp()) * 1_000_000_000
    hour = 3_600_000_000_000

    assert session_zone("America/Recife@2031a").offsets(at) == (-6 * hour, 1 * hour)


def test_the_table_of_revisions_is_of_the_release_of_our_rules() -> None:
    """Else make it again: tests/golden/zone_revisions/make.py."""
    assert LAST_RELEASE == OWN_RELEASE
