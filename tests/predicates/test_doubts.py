"""What readers may understand differently is unknown: it keeps every row, and says what to write."""

import pytest

from app.errors import FilterError
from app.planning.request.filters import filter_warnings
from app.predicates.model import Unknown, leaves
from tests.bound_filters import bind_json, bind_text
from tests.tables import columns_of

FIELDS = columns_of(
    """
    tiny: TINYINT; big: BIGINT; price: DECIMAL(9, 2); ratio: FLOAT; score: DOUBLE; flag: BOOLEAN;
    name: STRING; kind: CHAR(4); raw: BYTES; day: DATE; at: TIMESTAMP(6); nanos: TIMESTAMP(9);
    instant: TIMESTAMP(6) WITH LOCAL TIME ZONE; padded: MAP<CHAR(4), INT>; s: ROW<a INT>
    """
)


def leaf(column: str, function: str, *literals: object) -> object:
    transform = {"name": "FIELD_REF", "fieldRef": {"index": 0, "name": column, "type": "INT"}}
    return {"kind": "LEAF", "transform": transform, "function": function, "literals": list(literals)}


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("instant > '2025-08-01 12:00:00'", "give an offset, such as '2025-08-01T12:30:00Z'"),
        ("instant > '2025-08-01'", "give an offset"),
        ("instant = DATE '2025-08-01'", "give an offset"),
        ("instant IN ('2025-08-01T12:00:00Z', '2025-08-01 13:00')", "give an offset"),
        ("instant = '2025-08-01 12:00:00 Europe/Vienna'", "give an offset"),
        ("at > '2025-08-01 12:00:00Z'", "omit the offset"),
        ("day > TIMESTAMP '2025-08-01 12:00:00'", "write the day, '2025-08-01'"),
        ("day > '2025-08-01T12:00:00Z'", "write the day, '2025-08-01'"),
        ("at < '2025-08-01 12:00:00.0000001'", "Spark cuts timestamps to microseconds"),
        ("nanos = '2025-08-01 12:00:00'", "compare a finer column by >= or <"),
        ("big = '5'", "omit the quotes"),
        ("price BETWEEN 1 AND '2.5'", "omit the quotes"),
        ("score > '0.5'", "omit the quotes"),
        ("tiny IN (1, '2')", "omit the quotes"),
        ("big < 1e3", "a number with an exponent is a DOUBLE"),
        ("price IN (1, 1e3)", "a number with an exponent is a DOUBLE"),
        ("name = 5", "write the literal in quotes"),
        ("name > DATE '2025-08-01'", "write the literal in quotes"),
        ("raw = 'abc'", "write X'...'"),
        ("kind < 'c3'", "compare it by =, <> or IN"),
        ("kind LIKE 'c%'", "compare it by =, <> or IN"),
        ("kind <> 'abcdef'", "longer than the column's CHAR"),
        ("tiny < 1000", "beyond the column's type"),
        ("big >= -99999999999999999999", "beyond the column's type"),
        ("ratio IN (0.5, 0.1)", "FLOAT rounds"),
        ("name NOT LIKE 'a%b'", "the negation of a text test"),
        ("padded['k'] = 5", "with or without trailing blanks"),
        ("s.a = 5", "a part of s"),
    ],
)
def test_a_doubt_says_what_to_write(condition: str, words: str) -> None:
    bound = bind_text(condition, FIELDS)

    assert isinstance(bound, Unknown)
    (warning,) = filter_warnings(bound)
    assert words in warning


@pytest.mark.parametrize(
    ("condition", "meaning"),
    [
        ("tiny = 1000", "FALSE"),
        ("tiny <> 1000", "tiny IS NOT NULL"),
        ("tiny > 1000", "FALSE"),
        ("tiny >= 1.5", "tiny >= 2"),
        ("tiny BETWEEN 0.5 AND 3.5", "tiny BETWEEN 1 AND 3"),
        ("tiny NOT IN (1, 1000)", "tiny <> 1"),
        ("price = 1.005", "FALSE"),
        ("price < 1.005", "price <= 1.00"),
        ("ratio = 0.5", "ratio = 0.5"),
        ("score = 0.1", "score = 0.1"),
        ("nanos >= '2025-08-01 12:00:00'", "nanos >= '2025-08-01T12:00:00'"),
        ("flag <> TRUE", "flag = FALSE"),
        ("flag NOT IN (TRUE)", "flag = FALSE"),
    ],
)
def test_what_all_readers_understand_alike_is_decided(condition: str, meaning: str) -> None:
    assert str(bind_text(condition, FIELDS)) == meaning


@pytest.mark.parametrize(
    ("condition", "covered"),
    [
        ("ratio = 0.1", "ratio = 0.1"),
        ("ratio < 0.1", "ratio <= 0.1"),
        ("ratio >= 0.1", "ratio >= 0.1"),
        ("ratio <> 0.1", "ratio IS NOT NULL"),
    ],
)
def test_a_number_that_float_rounds_is_covered_and_not_proven(condition: str, covered: str) -> None:
    bound = bind_text(condition, FIELDS)

    assert str(bound).startswith(covered)
    assert any(isinstance(part, Unknown) for part in leaves(bound))


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        (leaf("tiny", "LESS_THAN", 1000), "tiny IS NOT NULL"),
        (leaf("ratio", "GREATER_THAN", 0.1), "ratio > 0.1"),
        (leaf("nanos", "EQUAL", "2025-08-01T12:00:00"), "nanos = '2025-08-01T12:00:00'"),
        (leaf("instant", "EQUAL", {"$ms": 1}), "instant = '1970-01-01T00:00:00.001Z'"),
        (leaf("instant", "EQUAL", 1.5), "instant = '1970-01-01T00:00:01.5Z'"),
        (leaf("price", "EQUAL", "1.50"), "price = 1.50"),
    ],
)
def test_an_engines_json_is_of_the_values_that_it_compares(written: object, meaning: str) -> None:
    assert str(bind_json(written, FIELDS)) == meaning


@pytest.mark.parametrize(
    "written", [leaf("instant", "EQUAL", "2025-08-01T12:00:00"), leaf("at", "EQUAL", "2025-08-01T12:00:00Z")]
)
def test_a_clock_is_no_instant_in_json_either(written: object) -> None:
    assert isinstance(bind_json(written, FIELDS), Unknown)


@pytest.mark.parametrize(
    ("condition", "column", "position"),
    [
        ("day = 20250801", "day", 6),
        ("day IN (20250801, 20250802)", "day", 8),
        ("instant > 1754051415.5", "instant", 10),
        ("day = '2025-13-01'", "day", 6),
        ("big = 'abc'", "big", 6),
        ("flag = 2", "flag", 7),
        ("at = 'yesterday'", "at", 5),
        ("at = '2025-08-01 12:00:00 Europe/Vienna'", "at", 5),
        ("raw = X'0g'", "raw", 6),
        ("tiny LIKE '5%'", "tiny", 0),
    ],
)
def test_what_no_value_looks_like_is_refused_with_its_place(
    condition: str, column: str, position: int
) -> None:
    with pytest.raises(FilterError) as caught:
        bind_text(condition, FIELDS)

    assert (caught.value.column, caught.value.position) == (column, position)
