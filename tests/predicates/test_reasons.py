"""Whatever is not decided says why, and what to write instead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FilterError
from app.planning.request.filters import filter_warnings
from app.predicates.model import Unknown
from tests.examples import examples
from tests.sessions import bind_json, bind_sql
from tests.tables import columns_of

FIELDS = columns_of(
    """
    x: INT; score: BIGINT; balance: DECIMAL(20, 2); ratio: FLOAT; rate: DOUBLE; flag: BOOLEAN;
    owner: STRING; kind: CHAR(4); raw: BYTES; cutoff: DATE; moment: TIMESTAMP(6);
    instant: TIMESTAMP(6) WITH LOCAL TIME ZONE; clock: TIME; m: MAP<STRING, INT>; counts: MAP<INT, INT>;
    padded: MAP<CHAR(4), INT>; s: ROW<a INT>
    """
)
LITERALS = (
    *("5", "1.5", "1e3", "1e300", "0.1F", "12345678901234567890123456789012345678", "TRUE", "X'ab'", "NULL"),
    *("'5'", "'5.5'", "'a'", "'10:00'", "'2025-01-01'", "'2025-01-01T00:00:00Z'", "'2025-01-01 01:00:00'"),
    *("DATE '2025-01-01'", "TIMESTAMP '2025-01-01 01:00:00'", "TIMESTAMP_NTZ '2025-01-01 01:00:00'"),
    *("current_date()", "now() - INTERVAL 1 DAY", "20200101"),
)
FORMS = (
    *("{0} = {1}", "{0} <> {1}", "{0} < {1}", "{1} >= {0}", "{0} <=> {1}", "{0} IN ({1}, {2})"),
    *(
        "{0} BETWEEN {1} AND {2}",
        "{0} LIKE {1}",
        "startswith({0}, {1})",
        "date({0}) = {1}",
        "year({0}) > {1}",
    ),
    *("upper({0}) = {1}", "{0} + 1 = {1}", "{0} RLIKE {1}", "{0}['k'] = {1}", "{0}.a = {1}", "{1} = {2}"),
    *("{0} = owner", "{0} IN (SELECT 1)", "CASE WHEN {0} = {1} THEN TRUE END", "{0} || 'a' = {1}"),
)


@examples(400)
@given(
    st.sampled_from(FORMS),
    st.sampled_from(sorted(field.name for field in FIELDS)),
    st.tuples(*[st.sampled_from(LITERALS)] * 2),
)
def test_every_condition_that_is_not_decided_says_why(
    form: str, column: str, literals: tuple[str, str]
) -> None:
    condition = form.format(column, *literals)
    for text in (condition, f"NOT ({condition})"):
        try:
            bound = bind_sql(text, FIELDS)
        except FilterError:
            continue
        if isinstance(bound, Unknown):
            assert bound.reason, text
            assert len(filter_warnings(bound)) == 1


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("balance > 1e3", ("1000.0 is a DOUBLE", "balance, which is DECIMAL(20, 2)", "write 1000")),
        ("balance = 0.5F", ("is a FLOAT", "write 0.5")),
        ("cutoff = 20200101", ("no number with cutoff, which is DATE", "write '2020-01-01'")),
        ("cutoff = 5", ("write a date in quotes",)),
        ("moment > '2020-01-01 00:00:00.0000001Z'", ("has nanoseconds", "write its day, and microseconds")),
        ("instant > '10:00'", ("time of today", "write its day")),
        ("score LIKE '5%'", ("tests text, and score is BIGINT", "compare it by =")),
        ("owner = 5", ("compares text with a number", "in quotes")),
        ("owner = DATE '2020-01-01'", ("compares text with a DATE", "in quotes")),
        ("owner NOT LIKE 'a%b'", ("opposite of a test of text",)),
        ("x = '5.5'", ("depends on settings of Spark", "without quotes")),
        ("x NOT IN (1, '5.5')", ("'5.5'", "without quotes")),
        ("raw = 'a'", ("raw is BYTES", "write X'..'")),
        ("clock = '10:00'", ("send the filter as JSON",)),
        ("m = 5", ("of which indexes know NULL alone",)),
        ("s.a = 5", ("something within s",)),
        ("counts['a'] = 5", ("something within counts",)),
        ("padded['k'] = 5", ("blanks behind it or without",)),
        ("user = 'a'", ("user is a function of Spark",)),
        ("date(owner) = '2020-01-01'", ("computes the date of each value of owner",)),
        ("cutoff IN (current_date(), '2020-01-01')", ("the time of the query",)),
        (
            "upper(owner) = 'A'",
            ("at position 0", "upper is a function", "write owner IN ('abc', 'Abc', 'ABC')"),
        ),
        ("trim(lower(t.owner)) = 'a'", ("write owner IN ('abc', ' abc')",)),
        ("coalesce(x, 0) = 0", ("write (x = 5 OR x IS NULL)",)),
        (
            "datediff('2025-03-01', `cutoff`) > 3",
            ("write `cutoff` >= '2026-11-03' AND `cutoff` < '2026-11-04'",),
        ),
        ("extract(DAY FROM cutoff) = 3", ("write cutoff >= '2026-11-03'",)),
        ("length(owner) = 3", ("write owner = ... or owner IN (...)",)),
        ("owner = upper('paid')", ("upper is computed of constants", "write the value that it comes to")),
        ("rand() < 5", ("rand is a function, and indexes hold the values of columns",)),
        (
            "month(cutoff) = 11",
            ("month of each value of cutoff", "write year(cutoff) = 2026 AND month(cutoff) = 11"),
        ),
        # Of text no year makes a range.
        ("month(owner) = 11", ("write owner = ... or owner IN (...)",)),
        ("left(cutoff, 4) = '2026'", ("write cutoff = ... or cutoff IN (...)",)),
        (
            "date_format(moment, 'yyyy-MM') = '2025-03'",
            ("write moment >= '2026-11-03' AND moment < '2026-11-04'",),
        ),
        ("date_format(cutoff, 'EEE') = 'Mon'", ("date_format of each value of cutoff",)),
        ("left(owner, 3) = 'abc'", ("substring of each value of owner", "write owner LIKE 'abc%'")),
        ("date_trunc('decade', moment) = '2020-01-01'", ("date_trunc of each value of moment",)),
        ("date_trunc('day', moment) IN ('2020-01-01', '2020-01-02')", ("write moment >= '2026-11-03' AND",)),
        ("x::decimal(5, 1) = 5", ("it casts: compare the column itself",)),
        (
            "x = 1 AND uper(owner) = 'A'",
            ("at position 10", "no function of Spark's own", "did you mean upper?"),
        ),
        ("my_udf(owner) = 'A'", ("my_udf is no function of Spark's own",)),
        (
            "CAST(owner AS INT) = 5",
            ("compare the column itself", "of casts"),
        ),
        ("x = CAST('5' AS BOOLEAN)", ("of casts", "a literal of its type")),
        ("owner = concat('a', 'b')", ("concat is computed of constants", "write the value that it comes to")),
        ("x + 1 = 5", ("let the column stand alone on one side",)),
        ("x < score", ("compares two columns",)),
        ("CASE WHEN x = 1 THEN TRUE END", ("write its branches with AND and OR",)),
        ("owner RLIKE 'a'", ("LIKE alone is decided",)),
        ("x IN (SELECT 1)", ("a query within a filter",)),
        ("x = INTERVAL 3 DAYS", ("intervals are added to a date",)),
        ("owner || 'a' = 'b'", ("joins texts",)),
        ("1 = '1'", ("two literals",)),
    ],
)
def test_a_reason_tells_what_to_write(condition: str, words: tuple[str, ...]) -> None:
    (warning,) = filter_warnings(bind_sql(condition, FIELDS))

    assert warning.startswith("nothing is left out for ")
    for each in words:
        assert each in warning


@pytest.mark.parametrize("name", ["uper", "upperr", "uppre", "UPPAR"])
def test_a_name_that_is_a_letter_away_from_a_function_may_be_meant_for_it(name: str) -> None:
    (warning,) = filter_warnings(bind_sql(f"{name}(owner) = 'A'", FIELDS))

    assert warning.endswith("did you mean upper?")


def test_names_that_are_like_no_function_suggest_none() -> None:
    for name in ("f", "abz", "score_of_customer", "my_upper"):
        (warning,) = filter_warnings(bind_sql(f"{name}(x) = 1", FIELDS))
        assert "did you mean" not in warning


@pytest.mark.parametrize("condition", ["ratio = 16777217", "owner = 'it''s'", "cutoff > current_date()"])
def test_what_is_covered_but_not_proven_is_no_matter_of_warnings(condition: str) -> None:
    assert filter_warnings(bind_sql(condition, FIELDS)) == ()


@pytest.mark.parametrize(
    ("function", "transform", "words"),
    [("SOUNDS_LIKE", "FIELD_REF", "no function that is known here"), ("EQUAL", "CAST", "it is no FIELD_REF")],
)
def test_predicates_as_json_say_why_as_well(function: str, transform: str, words: str) -> None:
    reference = {"index": 0, "name": "x", "type": "INT"}
    written = {
        "kind": "LEAF",
        "transform": {"name": transform, "fieldRef": reference},
        "function": function,
        "literals": [1],
    }

    (warning,) = filter_warnings(bind_json(written, FIELDS))

    assert words in warning
