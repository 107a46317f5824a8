import re

import numpy as np
import pytest

from app.errors import DeadlineExceededError, FilterError, LimitExceededError
from app.predicates.binding.binding import bind
from app.predicates.binding.names import Relation
from app.predicates.model import Unknown
from app.predicates.sql.reader import read_sql
from app.predicates.unbound import FilterLimits
from app.predicates.verdicts import Verdict, evaluate_bounds
from app.types import DataField, parse_type
from app.work import time_limit
from tests.file_bounds import FileBounds, column_bounds
from tests.row_matches import matches
from tests.sessions import bind_sql
from tests.tables import columns_of

FIELDS = columns_of(
    """
    x: INT; y: INT; flag: BOOLEAN; name: STRING; price: DECIMAL(9, 2); ratio: FLOAT; score: DOUBLE;
    raw: BYTES; day: DATE; at: TIMESTAMP(6); instant: TIMESTAMP(6) WITH LOCAL TIME ZONE;
    m: MAP<STRING, INT>; m[a]: BIGINT; person: ROW<first STRING>; items: ARRAY<INT>; two words: INT;
    back`tick: INT
    """
)


def meaning(condition: str) -> str:
    return str(bind_sql(condition, FIELDS))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x == 5", "x = 5"),
        ("x != 5", "x <> 5"),
        ("5 < x", "x > 5"),
        ("5 >= x", "x <= 5"),
        ("x !> 5", "x <= 5"),
        ("x !< 5", "x >= 5"),
        ("((x)) = (5)", "x = 5"),
        ("X = 5", "x = 5"),
        ("`two words` = 5 AND `back``tick` = 6", "two words = 5 AND back`tick = 6"),
        ("x <=> 5", "x = 5"),
        ("NOT x <=> 5", "x <> 5 OR x IS NULL"),
        ("x <=> NULL", "x IS NULL"),
        ("NOT (NULL <=> x)", "x IS NOT NULL"),
        ("x IS DISTINCT FROM 5", "x <> 5 OR x IS NULL"),
        ("x IS NOT DISTINCT FROM 5", "x = 5"),
        ("isnull(x) OR isnotnull(y)", "x IS NULL OR y IS NOT NULL"),
        ("x = NULL", "FALSE"),
        ("NOT (x = NULL)", "FALSE"),
        ("x IN (3, 1, 3, NULL)", "x IN (1, 3)"),
        ("x NOT IN (3, NULL)", "FALSE"),
        ("x BETWEEN 1 AND 5 AND y = 2", "x BETWEEN 1 AND 5 AND y = 2"),
        ("NOT (x BETWEEN NULL AND 5)", "x > 5"),
        ("x BETWEEN 5 AND 1", "FALSE"),
        ("5 BETWEEN x AND y", "x <= 5 AND y >= 5"),
        ("flag", "flag = TRUE"),
        ("NOT flag", "flag = FALSE"),
        ("!flag", "flag = FALSE"),
        ("flag IS TRUE", "flag = TRUE"),
        ("flag IS NOT TRUE", "flag = FALSE OR flag IS NULL"),
        ("flag IS FALSE", "flag = FALSE"),
        ("flag IS UNKNOWN", "flag IS NULL"),
        ("TRUE", "TRUE"),
        ("NULL", "FALSE"),
        ("NOT NULL", "FALSE"),
        ("1 = 1 AND x = 5", "x = 5"),
        ("'a' > 'b' OR x = 5", "x = 5"),
        ("NULL = NULL", "FALSE"),
        ("NULL <=> NULL", "TRUE"),
        ("x = 1 OR y = 2 AND flag", "x = 1 OR (y = 2 AND flag = TRUE)"),
        ("x = 1 OR x = 2 OR x IN (2, 3)", "x IN (1, 2, 3)"),
        ("x <> 1 AND x NOT IN (1, 2)", "x NOT IN (1, 2)"),
        ("x = 5 -- all\n AND y = 6 /* of /* this */ */", "x = 5 AND y = 6"),
        ("m['a'] = 5", "m[a] = 5"),
        ("M['it''s'] = 5", "(m[its] = 5 OR m[it's] = 5) AND M['it''s'] = 5"),
        # Two quotes in a row are one within the string to Spark from 4.1 on, and nothing before.
        ("name = 'it''s'", "name IN ('it's', 'its') AND name = 'it''s'"),
        ('name = "a""b"', """name IN ('a"b', 'ab') AND name = "a""b\""""),
        ("name <> 'it''s'", "(name <> 'its' OR name <> 'it's') AND name <> 'it''s'"),
        ("NOT name = 'it''s'", "(name <> 'its' OR name <> 'it's') AND NOT (name = 'it''s')"),
        (
            "x = 1 AND name IN ('it''s', 'b')",
            "x = 1 AND name IN ('b', 'it's', 'its') AND name IN ('it''s', 'b')",
        ),
        ("name = 'it' 's'", "name = 'its'"),
        ("name = r'it''s'", "name = 'its'"),
        ("name = 'a'\"b\"", "name = 'ab'"),
        ("m['b[c]'] IS NULL", "m[b[c]] IS NULL"),
        ("name LIKE 'abc'", "name = 'abc'"),
        ("name LIKE ''", "name = ''"),
        ("name LIKE '%'", "name IS NOT NULL"),
        ("name LIKE 'abc%'", "name STARTS WITH 'abc'"),
        ("name LIKE '%abc'", "name ENDS WITH 'abc'"),
        ("name LIKE '%abc%'", "name CONTAINS 'abc'"),
        ("name LIKE 'a%c'", "name LIKE 'a%c'"),
        ("name LIKE 'a_c'", "name LIKE 'a_c'"),
        (r"name LIKE '100\%%'", "name STARTS WITH '100%'"),
        (r"name LIKE '100\\%%'", "name STARTS WITH '100%'"),
        ("name LIKE '100#%%' ESCAPE '#'", "name STARTS WITH '100%'"),
        ("name NOT LIKE '%'", "FALSE"),
        ("name NOT LIKE NULL", "FALSE"),
        ("startswith(name, 'a')", "name STARTS WITH 'a'"),
        ("endswith(name, 'a')", "name ENDS WITH 'a'"),
        ("contains(name, 'a')", "name CONTAINS 'a'"),
        ("raw = X'0aFF'", "raw = X'0aff'"),
        ("raw = x'aff'", "raw = X'0aff'"),
        ("day = DATE '2025-08-01'", "day = '2025-08-01'"),
        ("at = TIMESTAMP_NTZ '2025-08-01 12:30:15.25'", "at = '2025-08-01T12:30:15.25'"),
        ("instant = TIMESTAMP '2025-08-01 12:30:15+02:00'", "instant = '2025-08-01T10:30:15Z'"),
        ("instant = TIMESTAMP_LTZ '2025-08-01'", "instant = '2025-08-01T00:00:00Z'"),
    ],
)
def test_conditions(condition: str, expected: str) -> None:
    assert meaning(condition) == expected


@pytest.mark.parametrize(
    ("column", "literal", "shown"),
    [
        *(
            ("x", literal, "5")
            for literal in ("5", "- -5", "+5", "5L", "5S", "5.0BD", "5.", "50e-1", "5D", "5F")
        ),
        *(("x", literal, "-5") for literal in ("-5", "-5Y", "CAST('-5' AS BIGINT)", "-CAST(5 AS INT)")),
        *(("x", f"CAST({cast})", "5") for cast in ("5 AS INT", "5 AS DOUBLE", "4.5 AS DECIMAL(2)")),
        ("x", "TRY_CAST('5' AS TINYINT)", "5"),
        ("x", "CAST('5.00' AS DECIMAL(12, 2))", "5"),
        *(("name", literal, "'abc'") for literal in ("'abc'", '"abc"')),
        ("name", "'a' 'b'", "'ab'"),
        ("name", r"'it\'s'", "'it's'"),
        ("name", "CAST('a' AS STRING)", "'a'"),
        ("name", r"'\n\t\r\b\0\Z'", "'\n\t\r\b\0\x1a'"),
        ("name", r"'\u0041\U0001F600\101'", "'A😀A'"),
        ("name", r"'\uD83D\uDE00'", "'😀'"),
        ("name", r"'\%\_\q\8'", r"'\%\_q8'"),
        ("name", r"r'\n'", r"'\n'"),
        ("name", r'R"\n"', r"'\n'"),
        ("score", "1.5", "1.5"),
        ("score", "1.5D", "1.5"),
        ("score", "CAST('NaN' AS DOUBLE)", "NaN"),
        ("score", "CAST('-Infinity' AS DOUBLE)", "-Infinity"),
        ("score", "-0.0D", "-0.0"),
        ("score", "CAST(0.1 AS FLOAT)", "0.10000000149011612"),
    ],
)
def test_literals(column: str, literal: str, shown: str) -> None:
    assert meaning(f"{column} = {literal}") == f"{column} = {shown}"


@pytest.mark.parametrize(
    "condition", ["name NOT LIKE 'a%'", "person.first = 'a'", "items['a'] = 5", "items = 5"]
)
def test_tests_that_no_index_can_decide_are_unknown(condition: str) -> None:
    assert isinstance(bind_sql(condition, FIELDS), Unknown)


NOT_READ = r"""
x < y
x + 1 = 5
-x = 5
x << 1 = 2
x::INT = 5
x::DECIMAL(5, 1) = 5
x::INTERVAL DAY = y
name = 'a' || 'b'
name = 'a' COLLATE UTF8_LCASE
name = repeat('a', 3)
name = concat('a', 'b')
name = CAST(5 AS STRING)
flag = CAST('true' AS BOOLEAN)
name RLIKE 'a.*'
name NOT ILIKE 'a%'
name LIKE ANY ('a', 'b')
upper(name) = 'A'
upper(nowhere) = 'A'
m[x] = 5
items[0].first = 'a'
x IN (1, y)
x IN (1) = FALSE
x IN (SELECT id FROM elsewhere)
EXISTS (SELECT id FROM elsewhere)
(x, y) IN ((1, 2))
x = 1 = TRUE
x = 1 IS NOT NULL
x = 1 BETWEEN FALSE AND TRUE
(x IS NULL) = TRUE
1 = '1'
day = DATE 'today'
day + INTERVAL 1 DAY = DATE '2025-01-01'
x = CAST('5.5' AS INT)
price = CAST('12.5' AS DECIMAL(2, 1))
x BETWEEN upper(name) AND 5
x BETWEEN CASE WHEN flag AND y = 1 THEN 1 ELSE 2 END AND 5
CASE WHEN flag AND x = 1 THEN TRUE ELSE y = 1 END
exists(items, x -> x > y AND flag)
extract(YEAR FROM day) = 2025
x ** 2 = 4
x IS NULL = TRUE
CAST(x AS TEXT) = '1'
"""


@pytest.mark.parametrize("condition", NOT_READ.strip().splitlines())
def test_what_is_not_read_is_told_with_its_place(condition: str) -> None:
    bound = bind_sql(f"FALSE OR {condition}", FIELDS)

    assert isinstance(bound, Unknown)
    assert (bound.text, bound.position) == (condition, len("FALSE OR "))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x = 1 AND CASE WHEN y = 1 OR flag THEN TRUE END OR y = 2", "(x = 1 AND {}) OR y = 2"),
        ("x = 1 AND CASE y WHEN 1 THEN flag AND TRUE END", "x = 1 AND {}"),
        ("x = 1 AND case = 1 OR y = 2", "(x = 1 AND case = 1) OR y = 2"),
        ("x = 1 AND case NOT IN (1) OR y = 2", "(x = 1 AND case <> 1) OR y = 2"),
        ("x = 1 AND CASE WHEN end = 1 AND flag THEN end ELSE end + 1 END = 2", "x = 1 AND {}"),
        ("x = 1 AND between = 1 AND y = 2", "x = 1 AND between = 1 AND y = 2"),
        ("x = 1 AND end > 1", "x = 1 AND end > 1"),
        ("x = 1 OR t.and = 1 AND t.or = 2", "x = 1 OR (and = 1 AND or = 2)"),
        ("upper(name) BETWEEN 'a' AND 'b' AND x = 1", "{} AND x = 1"),
        ("x = 1 OR upper(name) NOT BETWEEN 'a' AND 'b' OR y = 2", "x = 1 OR {} OR y = 2"),
        ("x BETWEEN y BETWEEN 1 AND 2 AND 3 AND y = 2", "{} AND y = 2"),
        ("NOT upper(name) = 'A' AND x = 1", "NOT ({}) AND x = 1"),
        ("NOT (upper(name) = 'A' OR x = 1)", "NOT ({}) AND x <> 1"),
        ("NOT (x = 1 OR x + 1 = 2 AND y = 1)", "x <> 1 AND (NOT ({}) OR y <> 1)"),
        ("x = 1 AND (y = 2) = flag", "x = 1 AND {}"),
        ("exists(items, x -> x > 1 OR x < 0) AND x = 1", "{} AND x = 1"),
        ("x IN (SELECT a FROM t WHERE b OR c) AND y = 1", "{} AND y = 1"),
        ("(SELECT b OR c FROM t) AND y = 1", "{} AND y = 1"),
        ("items[if(flag OR y = 1, 0, 1)] = 1 AND x = 1", "{} AND x = 1"),
        ("upper(name) = ' OR ' AND x = 1 -- OR", "{} AND x = 1"),
    ],
)
def test_the_bounds_of_an_unknown_part(condition: str, expected: str) -> None:
    words = ("case", "end", "between", "and", "or")
    fields = [*FIELDS, *(DataField(100 + at, word, parse_type("INT")) for at, word in enumerate(words))]

    bound = bind(read_sql(condition), fields, Relation("t"))

    pattern = re.escape(expected).replace(re.escape("{}"), "(.+)")
    found = re.fullmatch(pattern, str(bound))
    assert found is not None, str(bound)
    assert all(text in condition for text in found.groups())


def test_unknown_parts_stay_among_known_ones() -> None:
    assert (
        meaning("x = 1 AND NOT (x < y) AND y BETWEEN 1 AND 2")
        == "x = 1 AND NOT (x < y) AND y BETWEEN 1 AND 2"
    )
    assert meaning("x = 1 OR name NOT LIKE 'a%'") == "x = 1 OR NOT (name LIKE 'a%')"


@pytest.mark.parametrize(
    ("condition", "position"),
    [
        *(("", 0), ("x = ", 3), ("x = 5 OR", 8), ("x = 5 y", 6), ("(x = 5", 0), ("x[5)", 3)),
        *(("x = 5, y", 5), ("()", 1), ("x IN ()", 0), ("x = 'abc", 4), ("`x = 5", 0)),
        *(("x = 5 /* /* */", 6), ("x = 5; DROP TABLE x", 5), ("SELECT * FROM x WHERE y = 1", 0)),
        *(("WHERE x = 1", 0), ("DROP TABLE x", 5), ("5", 0), ("flag AND 'abc'", 9), ("x AS y", 2)),
        *(("x = ?", 4), ("name SIMILAR TO 'a'", 5), ("x ISNULL", 2), ("x = 5 LIMIT 1", 6)),
        *(("x = 5 adn y = 6", 6), ("x betwen 1 AND 2", 2), ("(x + 1) y", 8)),
        *(("flag AND (SELECT 1) UNION SELECT 2", 20), ("x BETWEEN 1", 11), ("x BETWEEN 1 OR 2", 12)),
        *(("x IN (1, )", 9), ("x IS", 4), ("x + 1 =", 7), ("upper(x) = AND y = 1", 11)),
        *(("y = 1 OR upper(x) + AND y = 1", 20), ("x = AND y = 1", 4), ("NOT", 3)),
        *(("CASE WHEN flag THEN x", 0), ("upper(x]) = 1", 7), ("x IN (1, 2) ORDER BY x", 12)),
        *(("x = 300Y", 4), ("x = 1e999", 4), ("x = 1.5L", 4), ("x = 1e400F", 4), ("raw = X'0g'", 6)),
        *(("day = DATE '2025-13-01'", 6), ("at = TIMESTAMP 'yesterdays'", 5), ("flag OR\n  x = = 5", 14)),
        *(("x => 5", 2), ("flag AND x + y => 5", 15), ("name IN 'a'", 8), ("name NOT IN 'a'", 12)),
        *(("flag && flag", 6), ("x > = 5", 4), ("upper(name) > = 'A'", 14), ("name || || 'a' = 'b'", 8)),
        *(("EXISTS(1)", 7), ("NOT EXISTS (x)", 12), ("name = N'a'", 7), ("name = E'a'", 7)),
        (r"name = '\UFFFFFFFF'", 7),
    ],
)
def test_text_that_is_no_condition_is_refused_with_its_place(condition: str, position: int) -> None:
    with pytest.raises(FilterError) as caught:
        read_sql(condition)

    assert caught.value.position == position


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("score =", "expected a value, found the end"),
        ("score = 1 b", "expected AND, OR or the end, found 'b'"),
        ("score => 5", "expected an operator of Spark, AND, OR or the end, found '=>': did you mean >=?"),
        ("score > = 5", "expected a value, found '=': did you mean >=?"),
        ("score =< 5", "expected a value, found '<': did you mean <=?"),
        ("hot && cold", "expected a value behind '&', found '&': did you mean AND?"),
        ("owner IN 'a'", "expected a list in parentheses behind IN, found \"'a'\""),
        ("EXISTS(1)", "expected a query, or an array and a function, in EXISTS, found '1'"),
        ("owner = N'a'", "expected a string without a letter before its quotes, found 'N'"),
        ("score + OR", r"expected a value behind '\+', found 'OR'"),
        ("score DIV", r"expected a value behind 'DIV' \(as a name in backquotes\), found the end"),
        ("name LIKE 'a#b' ESCAPE '#'", "escapes neither"),
    ],
)
def test_a_refusal_tells_what_is_found_in_its_place(condition: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        read_sql(condition)


@pytest.mark.parametrize(
    ("condition", "column", "position"),
    [
        ("flag AND nowhere = 5", "nowhere", 9),
        ("flag AND x < nowhere", "nowhere", 13),
        ("x = 5a", "5a", 4),
        ("nowhere.first = 'a'", "nowhere", 0),
        ("x", "x", 0),
        ("x = 'abc'", "x", 4),
    ],
)
def test_what_does_not_fit_the_table_is_refused_with_its_place(
    condition: str, column: str, position: int
) -> None:
    with pytest.raises(FilterError) as caught:
        meaning(condition)

    assert (caught.value.column, caught.value.position) == (column, position)


@pytest.mark.parametrize(
    ("opening", "closing"), [("(", ")"), ("NOT (", ")"), ("(x = 1 AND (y = 2 OR ", "))"), ("(flag OR ", ")")]
)
def test_conditions_nest_up_to_the_limit(opening: str, closing: str) -> None:
    times = 200 // opening.count("(")

    assert meaning(opening * times + "y = 5" + closing * times)

    with pytest.raises(LimitExceededError) as caught:
        read_sql(opening * (times + 1) + "y = 5" + closing * (times + 1))
    assert caught.value.limit == 200


def test_the_deepest_filters_that_settings_allow_are_bound_and_evaluated() -> None:
    condition = "NOT (x = 1 OR NOT (y = 2 OR " * 200 + "y = 5" + "))" * 200

    bound = bind(read_sql(condition, FilterLimits(depth=400)), FIELDS)

    assert matches(bound, {0: 1, 1: 5}) is not None
    known = column_bounds(parse_type("INT"), [FileBounds(0, 9, 0, 5)])
    assert evaluate_bounds(bound, lambda _, __: known, np.arange(1)).tolist() == [Verdict.SOME]
    assert str(bound).count("x <> 1") == 200
    assert hash(bound) == hash(bind(read_sql(condition, FilterLimits(depth=400)), FIELDS))


def test_long_chains_are_not_deep() -> None:
    terms = [f"x = {number}" for number in range(10_000)]

    assert len(meaning(" OR ".join(terms))) < 100
    assert meaning("NOT " * 10_001 + "x = 5") == "x <> 5"


def test_unknown_parts_nest_up_to_the_limit() -> None:
    assert meaning("f(" * 200 + "x" + ")" * 200 + " = 5")
    with pytest.raises(LimitExceededError):
        read_sql("CASE WHEN flag THEN " * 201 + "TRUE" + " END" * 201)


def test_the_literals_of_all_tests_count() -> None:
    limits = FilterLimits(literals=3)

    read_sql("x IN (1, 2) AND price = CAST('120' AS INT)", limits)

    for condition in ("x IN (1, 2, 3, 4)", "x IN (1, 2) AND y BETWEEN 3 AND 4", "f(1, 2, '3') = 4"):
        with pytest.raises(LimitExceededError):
            read_sql(condition, limits)
    with pytest.raises(LimitExceededError):
        read_sql("x " * 10_000, limits)


def test_a_text_may_have_so_many_characters() -> None:
    limits = FilterLimits(characters=5_000)
    longest = f"name = '{'x' * 4_991}'"

    assert read_sql(longest, limits) == read_sql(longest)
    with pytest.raises(LimitExceededError, match="5001 characters, 5000 are") as caught:
        read_sql(f"{longest} ", limits)
    assert caught.value.limit == 5_000


def test_filters_are_remembered_by_their_text() -> None:
    assert read_sql("x = 5") is read_sql("x = 5")


def test_a_long_filter_is_read_no_longer_than_the_request_may_take() -> None:
    with time_limit(0), pytest.raises(DeadlineExceededError):
        read_sql(" AND ".join(["id = 1"] * 5_000))
