from __future__ import annotations

import pytest

from app.predicates.model import Unknown, leaves
from app.types.civil_time import NANOS_PER_DAY, epoch_days
from app.types.session_zone import session_zone
from tests.columns import columns_of
from tests.row_matches import matches
from tests.sessions import bind_sql

FIELDS = columns_of(
    """
    d: DATE; n: TIMESTAMP(6); z: TIMESTAMP(6) WITH LOCAL TIME ZONE; text: STRING; m: MAP<STRING, DATE>
    """
)
NEW_YORK = session_zone("America/New_York")


@pytest.mark.parametrize(
    ("condition", "meaning"),
    [
        ("date(d) = '2025-03-01'", "d = '2025-03-01'"),
        ("CAST(d AS DATE) IN ('2025-03-01', '2025-03-02')", "d BETWEEN '2025-03-01' AND '2025-03-02'"),
        ("date(d) IS NULL", "d IS NULL"),
        ("date(n) < DATE '2025-03-01'", "n < '2025-03-01T00:00:00'"),
        ("date(n) <= '2025-03-01'", "n < '2025-03-02T00:00:00'"),
        ("to_date(n) > '2025-03-01'", "n >= '2025-03-02T00:00:00'"),
        ("'2025-03-01' <= TRY_CAST(n AS DATE)", "n >= '2025-03-01T00:00:00'"),
        ("NOT (date(n) >= '2025-03-01')", "n < '2025-03-01T00:00:00'"),
        ("date(n) <> '2025-03-01'", "n < '2025-03-01T00:00:00' OR n >= '2025-03-02T00:00:00'"),
        ("date(n) = '2025-03-01'", "n BETWEEN '2025-03-01T00:00:00' AND '2025-03-01T23:59:59.999999999'"),
        # Clocks go forward on March 9: the day has 23 hours.
        ("date(z) = '2025-03-09'", "z BETWEEN '2025-03-09T05:00:00Z' AND '2025-03-10T03:59:59.999999999Z'"),
        ("date(z) >= TIMESTAMP '2025-03-01 12:00:00'", "z >= '2025-03-02T05:00:00Z'"),
        ("year(d) = 2020", "d BETWEEN '2020-01-01' AND '2020-12-31'"),
        ("year(d) NOT IN (2020, 2021)", "d < '2020-01-01' OR d >= '2022-01-01'"),
        ("year(n) > 2020", "n >= '2021-01-01T00:00:00'"),
        (
            "year(z) BETWEEN 2019 AND 2020",
            "z BETWEEN '2019-01-01T05:00:00Z' AND '2021-01-01T04:59:59.999999999Z'",
        ),
        ("year(d) = 2020.5", "FALSE"),
        ("year(d) = NULL", "FALSE"),
        ("date(m['k']) = '2025-03-01'", "m[k] = '2025-03-01'"),
        ("d = date('2025-03-01')", "d = '2025-03-01'"),
    ],
)
def test_dates_and_years_are_ranges_of_the_column(condition: str, meaning: str) -> None:
    assert str(bind_sql(condition, FIELDS, NEW_YORK)) == meaning


def test_where_clocks_go_back_across_midnight_both_ways_of_spark_are_covered() -> None:
    # At 00:01 of October 29 clocks went back to 23:01.
    bound = bind_sql("date(z) = '2006-10-29'", FIELDS, session_zone("America/St_Johns@2025b"))

    first_midnight = epoch_days(2006, 10, 29) * NANOS_PER_DAY + 9_000 * 1_000_000_000
    minute = 60 * 1_000_000_000
    assert [matches(bound, {2: first_midnight + at * minute}) for at in (-1, 0, 30, 61)] == [
        False,
        None,
        None,
        None,
    ]


def test_without_a_zone_a_day_may_be_any_of_the_instants_that_it_has_in_one() -> None:
    bound = bind_sql("date(z) = '2025-03-01'", FIELDS, None)

    noon = epoch_days(2025, 3, 1) * NANOS_PER_DAY + NANOS_PER_DAY // 2
    assert [matches(bound, {2: noon + days * NANOS_PER_DAY}) for days in (-2, -1, 0, 1, 2)] == [
        False,
        None,
        None,
        None,
        False,
    ]
    assert any(isinstance(leaf, Unknown) and leaf.lacks_time_zone for leaf in leaves(bound))


def test_long_lists_of_days_are_one_range_that_proves_nothing() -> None:
    days = ", ".join(f"'20{year}-01-01'" for year in range(10, 99))

    bound = bind_sql(f"date(n) IN ({days})", FIELDS, NEW_YORK)

    (values, rest) = leaves(bound)
    assert str(values) == "n BETWEEN '2010-01-01T00:00:00' AND '2098-01-01T23:59:59.999999999'"
    assert isinstance(rest, Unknown)


@pytest.mark.parametrize("condition", ["year(d) = 400000", "year(d) < -400000", "year(n) <> 5000000"])
def test_years_that_no_timestamp_has_prove_nothing(condition: str) -> None:
    bound = bind_sql(condition, FIELDS, NEW_YORK)

    assert matches(bound, {0: 0, 1: 0}) is None


@pytest.mark.parametrize(
    "condition", ["date(text) = '2025-03-01'", "year(text) = 2025", "date(d)", "year(date(d)) = 2025"]
)
def test_functions_of_other_columns_are_not_decided(condition: str) -> None:
    assert isinstance(bind_sql(condition, FIELDS, NEW_YORK), Unknown)
