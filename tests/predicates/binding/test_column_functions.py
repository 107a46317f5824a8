import pytest

from app.predicates.model import Unknown, leaves
from app.types.civil_time import NANOS_PER_DAY, epoch_days
from app.types.session_zone import session_zone
from tests.row_matches import matches
from tests.sessions import bind_sql
from tests.tables import columns_of

FIELDS = columns_of(
    """
    d: DATE; n: TIMESTAMP(6); z: TIMESTAMP(6) WITH LOCAL TIME ZONE; text: STRING; m: MAP<STRING, DATE>;
    x: INT; padded: CHAR(10)
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
        (
            "n::date = '2025-03-01'::date",
            "n BETWEEN '2025-03-01T00:00:00' AND '2025-03-01T23:59:59.999999999'",
        ),
        ("d::DATE < '2025-03-01'", "d < '2025-03-01'"),
        ("x IN (5, '6'::int)", "x IN (5, 6)"),
        ("x = -1::int", "x = -1"),
        (
            "date_trunc('day', n) = '2025-03-01'",
            "n BETWEEN '2025-03-01T00:00:00' AND '2025-03-01T23:59:59.999999999'",
        ),
        ("DATE_TRUNC('DAY', n) = '2025-03-01 00:00:01'", "FALSE"),
        ("date_trunc('day', n) <> '2025-03-01 00:00:01'", "n IS NOT NULL"),
        ("date_trunc('month', n) < '2025-03-15'", "n < '2025-04-01T00:00:00'"),
        ("date_trunc('month', d) <= DATE '2025-03-01'", "d < '2025-04-01'"),
        ("date_trunc('month', d) > '2025-03-01'", "d >= '2025-04-01'"),
        ("'2025-03-02' <= date_trunc('MON', d)", "d >= '2025-04-01'"),
        ("NOT (date_trunc('quarter', d) >= '2025-04-01')", "d < '2025-04-01'"),
        ("date_trunc('week', d) = '2025-03-03'", "d BETWEEN '2025-03-03' AND '2025-03-09'"),
        (
            "date_trunc('yyyy', d) BETWEEN '2024-01-01' AND '2025-02-01'",
            "d BETWEEN '2024-01-01' AND '2025-12-31'",
        ),
        (
            "date_trunc('day', z) = '2025-03-09'",
            "z BETWEEN '2025-03-09T05:00:00Z' AND '2025-03-10T03:59:59.999999999Z'",
        ),
        ("date_trunc('day', z) <=> NULL", "z IS NULL"),
        ("date_trunc('day', z) = NULL", "FALSE"),
        (
            "date_trunc('day', d) IN (TIMESTAMP '2025-03-01', DATE '2025-03-02')",
            "d BETWEEN '2025-03-01' AND '2025-03-02'",
        ),
        (
            "year(d) = 2025 AND month(d) = 11",
            "d BETWEEN '2025-01-01' AND '2025-12-31' AND d BETWEEN '2025-11-01' AND '2025-11-30'",
        ),
        (
            "MONTH(d) >= 11 AND Year(D) = 2025",
            "d BETWEEN '2025-11-01' AND '2025-12-31' AND d BETWEEN '2025-01-01' AND '2025-12-31'",
        ),
        (
            "year(n) = 2025 AND month(n) NOT IN (1, 12)",
            (
                "n BETWEEN '2025-01-01T00:00:00' AND '2025-12-31T23:59:59.999999999' AND "
                "n BETWEEN '2025-02-01T00:00:00' AND '2025-11-30T23:59:59.999999999'"
            ),
        ),
        ("year(d) = 2025 AND month(d) > 12", "FALSE"),
    ],
)
def test_dates_and_years_are_ranges_of_the_column(condition: str, meaning: str) -> None:
    assert str(bind_sql(condition, FIELDS, NEW_YORK)) == meaning


def test_the_year_of_one_column_is_not_that_of_another_whose_name_differs_in_case() -> None:
    bound = bind_sql("year(d) = 2025 AND month(D) = 11", columns_of("d: DATE; D: DATE"))

    assert matches(bound, {0: epoch_days(2025, 3, 1), 1: epoch_days(2024, 11, 1)}) is True


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
    "condition",
    [
        *(
            "date(text) = '2025-03-01'",
            "year(text) = 2025",
            "date(d)",
            "year(date(d)) = 2025",
            "month(d) = 11",
        ),
        *(
            "substring(padded, 1, 2) = 'ab'",
            "date_format(n, 'yyyy') = '2025'",
            "date_trunc('day', text) = '2025-01-01'",
        ),
        *(
            "date_trunc('hour', n) = '2025-03-05 07:00:00'",
            "date_trunc('decade', d) = '2025-03-01'",
            "date_trunc('day', n) = 5",
        ),
        *(
            "date_trunc('day', n) IN ('2025-03-01', '2025-03-02')",
            "x::bigint = 5",
            "x::string = '5'",
            "padded::string = 'a'",
        ),
        *(
            "substring(text FROM 1 FOR 2) = 'ab'",
            "substring(text, x) = 'ab'",
            "date_format(current_date, 'yyyy') = text",
        ),
        *("month(d) = 11 OR year(d) = 2025 AND x = 1", "NOT (year(d) <> 2025 OR month(d) <> 11)"),
    ],
)
def test_functions_of_other_columns_are_not_decided(condition: str) -> None:
    assert any(isinstance(part, Unknown) for part in leaves(bind_sql(condition, FIELDS, NEW_YORK)))


@pytest.mark.parametrize(
    "condition", ["date_trunc('day', z) = '2020-11-01'", "date_trunc('dd', n) < '2020-11-01'"]
)
def test_a_day_that_begins_twice_is_not_cut_to(condition: str) -> None:
    # At 01:00 of November 1 clocks of Havana went back to midnight, which Spark cuts the rest of the day to.
    assert isinstance(bind_sql(condition, FIELDS, session_zone("America/Havana@2025b")), Unknown)


def test_near_a_gap_across_midnight_more_is_covered() -> None:
    # Clocks of Apia left December 30 out.
    bound = bind_sql("date_trunc('day', n) = '2011-12-31'", FIELDS, session_zone("Pacific/Apia@2025b"))
    midnight = epoch_days(2011, 12, 31) * NANOS_PER_DAY
    hour = NANOS_PER_DAY // 24

    found = {each: matches(bound, {1: midnight + each * hour}) is not False for each in (-30, -20, 10, 50)}

    assert found == {-30: False, -20: True, 10: True, 50: False}
