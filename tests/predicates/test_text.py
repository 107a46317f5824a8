"""Filters as people write them: the grammar, where unknown tests end, and refusals with their place."""

import re

import numpy as np
import pytest

from app.errors import DeadlineExceededError, FilterError, LimitExceededError
from app.planning.request.filters import filter_warnings
from app.predicates import Relation, bind, evaluate_bounds, read_text
from app.predicates.model import Unknown, leaves
from app.predicates.unbound import FilterLimits
from app.predicates.verdicts import Verdict
from app.types import DataField, parse_type
from app.work import time_limit
from tests.bound_filters import bind_text
from tests.file_bounds import FileBounds, column_bounds
from tests.row_matches import matches
from tests.tables import columns_of

FIELDS = columns_of(
    """
    x: INT; y: INT; flag: BOOLEAN; name: STRING; price: DECIMAL(9, 2); ratio: FLOAT; score: DOUBLE;
    raw: BYTES; day: DATE; at: TIMESTAMP(6); instant: TIMESTAMP(6) WITH LOCAL TIME ZONE; clock: TIME(3);
    m: MAP<STRING, INT>; m[a]: BIGINT; person: ROW<first STRING>; items: ARRAY<INT>; two words: INT;
    back`tick: INT
    """
)


def meaning(condition: str) -> str:
    return str(bind_text(condition, FIELDS))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x == 5", "x = 5"),
        ("x != 5", "x <> 5"),
        ("5 < x", "x > 5"),
        ("5 >= x", "x <= 5"),
        ("5 <=> x", "x = 5"),
        ("((x = 5))", "x = 5"),
        ("X = 5", "x = 5"),
        ("`two words` = 5 AND `back``tick` = 6", "two words = 5 AND back`tick = 6"),
        ("x <=> 5", "x = 5"),
        ("NOT x <=> 5", "x <> 5 OR x IS NULL"),
        ("x <=> NULL", "x IS NULL"),
        ("NOT (NULL <=> x)", "x IS NOT NULL"),
        ("x = NULL", "FALSE"),
        ("NOT (x = NULL)", "FALSE"),
        ("x IN (3, 1, 3, NULL)", "x IN (1, 3)"),
        ("x NOT IN (3, NULL)", "FALSE"),
        ("x between 1 and 5 and y = 2", "x BETWEEN 1 AND 5 AND y = 2"),
        ("NOT (x BETWEEN NULL AND 5)", "x > 5"),
        ("x NOT BETWEEN 1 AND 5", "x < 1 OR x > 5"),
        ("x BETWEEN 5 AND 1", "FALSE"),
        ("flag", "flag = TRUE"),
        ("NOT flag", "flag = FALSE"),
        ("!flag", "flag = FALSE"),
        ("NOT NOT flag", "flag = TRUE"),
        ("flag IS TRUE", "flag = TRUE"),
        ("flag IS NOT TRUE", "flag = FALSE OR flag IS NULL"),
        ("flag IS FALSE", "flag = FALSE"),
        ("flag = FALSE", "flag = FALSE"),
        ("TRUE", "TRUE"),
        ("NULL", "FALSE"),
        ("NOT NULL", "FALSE"),
        ("x = 1 OR y = 2 AND flag", "x = 1 OR (y = 2 AND flag = TRUE)"),
        ("x = 1 OR x = 2 OR x IN (2, 3)", "x IN (1, 2, 3)"),
        ("x <> 1 AND x NOT IN (1, 2)", "x NOT IN (1, 2)"),
        ("x = 5 -- all\n AND y = 6 /* of this */", "x = 5 AND y = 6"),
        ("m['a'] = 5", "m[a] = 5"),
        ("m['b[c]'] IS NULL", "m[b[c]] IS NULL"),
        ("name LIKE 'abc'", "name = 'abc'"),
        ("name LIKE ''", "name = ''"),
        ("name LIKE '%'", "name IS NOT NULL"),
        ("name LIKE 'abc%'", "name STARTS WITH 'abc'"),
        ("name LIKE '%abc'", "name ENDS WITH 'abc'"),
        ("name LIKE '%abc%'", "name CONTAINS 'abc'"),
        ("name LIKE 'a_c'", "name LIKE 'a_c'"),
        (r"name LIKE '100\%%'", "name STARTS WITH '100%'"),
        (r"name LIKE '100\\%%'", "name STARTS WITH '100%'"),
        ("name NOT LIKE '%'", "FALSE"),
        ("name NOT LIKE 'abc'", "name <> 'abc'"),
    ],
)
def test_conditions(condition: str, expected: str) -> None:
    assert meaning(condition) == expected


@pytest.mark.parametrize(
    ("column", "literal", "shown"),
    [
        *(("x", literal, "5") for literal in ("5", "+5", "5.0", "5.")),
        ("x", "-5", "-5"),
        ("name", "'abc'", "'abc'"),
        ("name", '"abc"', "'abc'"),
        ("name", "'it''s'", "'it's'"),
        ("name", '"it\'s ""so"""', "'it's \"so\"'"),
        ("name", r"'it\'s'", "'it's'"),
        ("name", r"'\n\t\r\\'", "'\n\t\r\\'"),
        ("name", r"'\%\_\!'", r"'\%\_!'"),
        ("price", "1.5", "1.50"),
        ("ratio", "1.5", "1.5"),
        ("score", "0.1", "0.1"),
        ("score", "+1.5e3", "1500.0"),
        ("score", "'NaN'", "NaN"),
        ("score", "'-Infinity'", "-Infinity"),
        ("score", "-0.0", "-0.0"),
        ("raw", "X'0aFF'", "X'0aff'"),
        ("day", "'2025-08-01'", "'2025-08-01'"),
        ("day", "DATE '2025-8-1'", "'2025-08-01'"),
        ("at", "'2025-08-01 12:30:15.25'", "'2025-08-01T12:30:15.25'"),
        ("at", "TIMESTAMP '2025-08-01'", "'2025-08-01T00:00:00'"),
        ("at", "DATE '2025-08-01'", "'2025-08-01T00:00:00'"),
        ("instant", "TIMESTAMP '2025-08-01 12:30:15+02:00'", "'2025-08-01T10:30:15Z'"),
        ("instant", "'2025-08-01T12:30:15Z'", "'2025-08-01T12:30:15Z'"),
        ("clock", "'12:30'", "'12:30:00'"),
    ],
)
def test_literals_are_read_in_the_type_of_the_column(column: str, literal: str, shown: str) -> None:
    assert meaning(f"{column} = {literal}") == f"{column} = {shown}"
    assert meaning(f"{literal} = {column}") == f"{column} = {shown}"


NOT_READ = r"""
x < y
x + 1 = 5
-x = 5
x::INT = 5
x = 5L
x = 5 6
x = 5, y
(x) = 5
x !< 5
name = 'a' || 'b'
name = 'a' 'b'
name = r'a'
name COLLATE UTF8_LCASE = 'a'
name RLIKE 'a.*'
name NOT ILIKE 'a%'
name LIKE ANY ('a', 'b')
name LIKE 'a!%' ESCAPE '!'
name LIKE name
name SIMILAR TO 'a'
upper(name) = 'A'
startswith(name, 'a')
m[x] = 5
items[0].first = 'a'
x IN (1, y)
x IN (1, , 2)
x IN (1) = FALSE
x IN (SELECT id FROM elsewhere)
EXISTS (SELECT id FROM elsewhere WHERE b OR c)
(x, y) IN ((1, 2))
x = 1 IS NOT NULL
x IS DISTINCT FROM 5
flag IS UNKNOWN
x BETWEEN y AND 5
x BETWEEN CASE WHEN flag AND y = 1 THEN 1 ELSE 2 END AND 5
5 BETWEEN x AND y
1 = 1
day = current_date
day >= current_date() - INTERVAL 7 DAYS
CASE WHEN flag AND x = 1 THEN TRUE ELSE y = 1 END
exists(items, v -> v > y AND flag)
CAST(x AS TEXT) = '1'
x ISNULL
x AS y
"""


@pytest.mark.parametrize("condition", NOT_READ.strip().splitlines())
def test_any_other_test_is_unknown_and_told_with_its_place(condition: str) -> None:
    bound = bind_text(f"FALSE OR {condition}", FIELDS)

    assert isinstance(bound, Unknown)
    assert (bound.text, bound.position) == (condition, len("FALSE OR "))
    (warning,) = filter_warnings(bound)
    assert "an engine sends its predicate as JSON" in warning


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x = 1 AND CASE WHEN y = 1 OR flag THEN TRUE END OR y = 2", "(x = 1 AND {}) OR y = 2"),
        ("x = 1 AND CASE y WHEN 1 THEN flag AND TRUE END", "x = 1 AND {}"),
        ("x = 1 AND case = 1 OR y = 2", "(x = 1 AND case = 1) OR y = 2"),
        ("x = 1 AND `case` NOT IN (1) OR y = 2", "(x = 1 AND case <> 1) OR y = 2"),
        ("x = 1 AND end > 1", "x = 1 AND end > 1"),
        ("x = 1 AND CASE NOT flag WHEN TRUE THEN x = 1 AND y = 2 AND x = 3 ELSE flag END", "x = 1 AND {}"),
        ("x = 1 AND CASE WHEN y IS DISTINCT FROM end AND y = 2 AND x = 3 THEN 1 END = 1", "x = 1 AND {}"),
        ("x = 1 AND case BETWEEN 1 AND 2", "x = 1 AND case BETWEEN 1 AND 2"),
        ("x = 1 AND CASE WHEN end = 1 AND flag AND y = 1 THEN end ELSE end + 1 END = 2", "x = 1 AND {}"),
        ("x = 1 OR t.and = 1 AND t.or = 2", "x = 1 OR (and = 1 AND or = 2)"),
        ("x = 1 OR t.and + 1 = 2", "x = 1 OR {}"),
        ("upper(name) BETWEEN 'a' AND 'b' AND x = 1", "{} AND x = 1"),
        ("x = 1 OR upper(name) NOT BETWEEN 'a' AND 'b' OR y = 2", "x = 1 OR {} OR y = 2"),
        ("x BETWEEN y BETWEEN 1 AND 2 AND 3 AND y = 2", "{} AND y = 2"),
        ("NOT upper(name) = 'A' AND x = 1", "NOT ({}) AND x = 1"),
        ("NOT (upper(name) = 'A' OR x = 1)", "NOT ({}) AND x <> 1"),
        ("NOT (x = 1 OR x + 1 = 2 AND y = 1)", "x <> 1 AND (NOT ({}) OR y <> 1)"),
        ("x = 1 AND (y = 2) = flag", "x = 1 AND {}"),
        ("x = 1 AND NOT (y = 2) = flag", "x = 1 AND NOT ({})"),
        ("exists(items, v -> v > 1 OR v < 0) AND x = 1", "{} AND x = 1"),
        ("x IN (SELECT a FROM t WHERE b OR c) AND y = 1", "{} AND y = 1"),
        ("(SELECT b OR c FROM t) AND y = 1", "({} OR {}) AND y = 1"),
        ("items[if(flag OR y = 1, 0, 1)] = 1 AND x = 1", "{} AND x = 1"),
        ("upper(name) = ' OR ' AND x = 1 -- OR", "{} AND x = 1"),
        ("x = 1 AND NOT (x < y) AND y BETWEEN 1 AND 2", "x = 1 AND NOT ({}) AND y BETWEEN 1 AND 2"),
        ("x = 1 OR name NOT LIKE 'a%'", "x = 1 OR NOT (name LIKE 'a%')"),
    ],
)
def test_an_unknown_test_ends_where_the_next_begins(condition: str, expected: str) -> None:
    words = ("case", "end", "and", "or")
    fields = [*FIELDS, *(DataField(100 + at, word, parse_type("INT")) for at, word in enumerate(words))]

    bound = bind(read_text(condition), fields, Relation("t"))

    pattern = re.escape(expected).replace(re.escape("{}"), "(.+)")
    found = re.fullmatch(pattern, str(bound))
    assert found is not None, str(bound)
    unknown = [part.text for part in leaves(bound) if isinstance(part, Unknown)]
    assert all(any(text in whole for whole in unknown) for text in found.groups())


@pytest.mark.parametrize(
    ("condition", "position"),
    [
        *(("", 0), ("x = ", 3), ("x = 5 OR", 8), ("(x = 5", 0), ("x[5)", 3), ("x = 5)", 5)),
        *(
            ("()", 1),
            ("x IN ()", 6),
            ("x IN 5", 5),
            ("x = 'abc", 4),
            ("`x = 5", 0),
            ("x = 5 /* /", 6),
            ("x = 5 /* /* */ */", 6),
        ),
        *(("x = 5; DROP TABLE x", 5), ("SELECT * FROM x WHERE y = 1", 16), ("WHERE x = 1", 0)),
        *(("x = 5 LIMIT 1", 6), ("x IN (1, 2) ORDER BY x", 12), ("x = 1 GROUP BY x", 6)),
        *(("x BETWEEN 1 AND", 15), ("x IN (1, )", 9), ("x + 1 =", 7)),
        *(("x = = 5", 4), ("x < > 5", 4), ("x BETWEEN = 1 AND 2", 10)),
        *(("upper(x) = AND y = 1", 11), ("x = AND y = 1", 4), ("NOT", 3), ("CASE WHEN flag THEN x", 0)),
        *(
            ("upper(x]) = 1", 7),
            ("x => 5", 2),
            ("flag && flag", 5),
            ("x === 5", 2),
            ("flag OR\n  x = ", 13),
            (r"name = '\u0041'", 8),
        ),
    ],
)
def test_text_that_nobody_can_mean_is_refused_with_its_place(condition: str, position: int) -> None:
    with pytest.raises(FilterError) as caught:
        read_text(condition)

    assert caught.value.position == position


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("score =", "expected a value after =, found the end"),
        ("score => 5", "did you mean >=?"),
        ("hot && cold", "did you mean AND?"),
        ("owner IN 'a'", "expected a list in brackets after IN, found \"'a'\""),
        ("(score = 5", r"'\(' is never closed: add '\)'"),
        ("score = 5 ORDER BY score", "an order is the request's top_n"),
        ("score = 5 LIMIT 3", "how many rows are wanted is the request's limit"),
        ("WHERE score = 5", "give what follows WHERE"),
        ("score = 5;", "leave the semicolon away"),
        ("score = 'abc", "this string does not end: add '"),
    ],
)
def test_a_refusal_says_what_to_write(condition: str, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        read_text(condition)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("upper(name) = 'A'", "upper is a function or a query: compare the column itself"),
        ("name = Wien", "Wien is not a value: write text in quotes"),
        ("x + 1 = 5", "it is not a comparison of a column with values"),
    ],
)
def test_a_warning_says_what_to_write(condition: str, words: str) -> None:
    (warning,) = filter_warnings(bind_text(condition, FIELDS))

    assert warning.startswith(f"no file is pruned by {condition} (at position 0): {words}")


@pytest.mark.parametrize(
    ("condition", "column", "position"),
    [
        ("flag AND nowhere = 5", "nowhere", 9),
        ("nowhere.first = 'a'", "nowhere", 0),
        ("x", "x", 0),
        ("day = 'abc'", "day", 6),
        ("flag OR items = 5", "items", 8),
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
        read_text(opening * (times + 1) + "y = 5" + closing * (times + 1))
    assert caught.value.limit == 200


def test_the_deepest_filters_that_settings_allow_are_bound_and_evaluated() -> None:
    condition = "NOT (x = 1 OR NOT (y = 2 OR " * 200 + "y = 5" + "))" * 200

    bound = bind(read_text(condition, FilterLimits(depth=400)), FIELDS)

    assert matches(bound, {0: 1, 1: 5}) is not None
    known = column_bounds(parse_type("INT"), [FileBounds(0, 9, 0, 5)])
    assert evaluate_bounds(bound, lambda _, __: known, np.arange(1)).tolist() == [Verdict.SOME]


def test_brackets_that_turn_out_to_hold_operands_do_not_take_long() -> None:
    condition = "(" * 200 + "x" + ") = 1" * 200

    assert isinstance(bind_text(condition, FIELDS), Unknown)


def test_long_chains_are_not_deep() -> None:
    terms = [f"x = {number}" for number in range(10_000)]

    assert len(meaning(" OR ".join(terms))) < 100
    assert meaning("NOT " * 10_001 + "x = 5") == "x <> 5"


def test_unknown_tests_nest_as_deep_as_they_like() -> None:
    assert isinstance(bind_text("f(" * 5_000 + "x" + ")" * 5_000 + " = 5", FIELDS), Unknown)


def test_the_literals_of_all_tests_count() -> None:
    limits = FilterLimits(literals=3)

    read_text("x IN (1, 2) AND price = 120", limits)

    for condition in ("x IN (1, 2, 3, 4)", "x IN (1, 2) AND y BETWEEN 3 AND 4", "f(1, 2, '3') = 4"):
        with pytest.raises(LimitExceededError):
            read_text(condition, limits)
    with pytest.raises(LimitExceededError):
        read_text("x " * 10_000, limits)


def test_a_text_may_have_so_many_characters() -> None:
    limits = FilterLimits(characters=5_000)
    longest = f"name = '{'x' * 4_991}'"

    assert read_text(longest, limits) == read_text(longest)
    with pytest.raises(LimitExceededError, match="5001 characters, 5000 are") as caught:
        read_text(f"{longest} ", limits)
    assert caught.value.limit == 5_000


def test_a_long_filter_is_read_no_longer_than_the_request_may_take() -> None:
    with time_limit(0), pytest.raises(DeadlineExceededError):
        read_text(" AND ".join(["id = 1"] * 5_000))
