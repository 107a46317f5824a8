"""Literals of another type than the column's: held against exact arithmetic and against Spark's casts.

Where Spark's modes disagree, a row that any of them selects must not be ruled out, and only a row that all
of them select may be proven.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FilterError
from app.predicates.model import Unknown
from app.types import DataField, DataType, Value, parse_type
from app.types.data_types import INTEGER_BITS
from app.types.values import integer_range, nearest_float32, next_float32
from tests.examples import examples
from tests.row_matches import matches
from tests.session_meaning import COMPARISONS
from tests.sessions import bind_sql

SYMBOLS: Final = st.sampled_from(sorted(COMPARISONS))

INTEGERS: Final = tuple(map(parse_type, ["TINYINT", "SMALLINT", "INT", "BIGINT"]))
SCALED: Final = (
    *INTEGERS,
    *map(parse_type, ["DECIMAL(5, 2)", "DECIMAL(15, 0)", "DECIMAL(18, 4)", "DECIMAL(38, 10)"]),
)


def ends(data_type: DataType) -> tuple[int, int]:
    if data_type.root in INTEGER_BITS:
        return integer_range(data_type)
    return 1 - 10**data_type.precision, 10**data_type.precision - 1


@st.composite
def scaled_values_near(draw: st.DrawFn, data_type: DataType, number: Fraction) -> int:
    """A value of the type around a number: what rounding wrongly would confuse it with."""
    low, high = ends(data_type)
    near = int(number * 10**data_type.scale) + draw(st.integers(-2, 2))
    return min(max(near, low), high)


def ask(data_type: DataType, condition: str, value: Value | None) -> bool | None:
    field = DataField(0, "c", data_type)
    return matches(bind_sql(f"c {condition}", [field]), {0: value})


def numbers() -> st.SearchStrategy[Decimal]:
    small = st.decimals(-200, 200, places=3, allow_nan=False)
    edges = st.sampled_from([2**7, 2**15, 2**24, 2**31, 2**53, 2**63, 10**13, 10**20])
    return small | st.builds(
        lambda edge, sign, off, places: Decimal(sign * edge + off) + Decimal(places).scaleb(-1),
        edges,
        st.sampled_from([1, -1]),
        st.integers(-2, 2),
        st.sampled_from([0, 5]),
    )


@examples(400)
@given(st.data(), st.sampled_from(SCALED), numbers(), SYMBOLS)
def test_scaled_columns_compare_exactly_with_sql_numbers(
    data: st.DataObject, data_type: DataType, number: Decimal, symbol: str
) -> None:
    value = data.draw(scaled_values_near(data_type, Fraction(number)))

    answer = ask(data_type, f"{symbol} {number:f}BD", value)

    expected = COMPARISONS[symbol](Fraction(value, 10**data_type.scale), Fraction(number))
    assert answer in (expected, None)
    digits = data_type.precision - data_type.scale + max(data_type.scale, 3)
    assert answer is not None or digits >= 38 - 3, "only numbers that need more than 38 digits are open"


@examples(400)
@given(st.data(), st.sampled_from(SCALED), numbers(), SYMBOLS, st.sampled_from("DF"))
def test_scaled_columns_compare_with_floating_literals_as_casts_do(
    data: st.DataObject, data_type: DataType, number: Decimal, symbol: str, suffix: str
) -> None:
    literal = float(number) if suffix == "D" else nearest_float32(Fraction(number))
    value = data.draw(scaled_values_near(data_type, Fraction(literal)))

    answer = ask(data_type, f"{symbol} {number:f}{suffix}", value)

    column = Fraction(value, 10**data_type.scale)
    casts = [float(column)]
    if suffix == "F" and data_type.root in INTEGER_BITS:
        casts.append(nearest_float32(column))  # only ANSI mode casts both sides to DOUBLE
    meanings = [COMPARISONS[symbol](cast, literal) for cast in casts]
    assert answer is not True or all(meanings)
    assert answer is not False or not any(meanings)


@examples(400)
@given(numbers(), st.integers(-2, 2), SYMBOLS, st.sampled_from(["", "D", "BD", "text"]))
def test_float_columns_compare_as_some_mode_of_spark_does(
    number: Decimal, steps: int, symbol: str, form: str
) -> None:
    nearest = nearest_float32(Fraction(number))
    value = nearest
    for _ in range(abs(steps)):
        value = next_float32(value, steps * float("inf"))

    answer = ask(
        parse_type("FLOAT"),
        f"{symbol} '{number:f}'" if form == "text" else f"{symbol} {number:f}{form}",
        value,
    )

    literals = [float(number)]
    if form == "text" or (form != "D" and number == number.to_integral_value()):
        literals.append(nearest)
    meanings = [COMPARISONS[symbol](value, literal) for literal in literals]
    assert answer is not True or all(meanings)
    assert answer is not False or not any(meanings)
    assert answer is not None or len(set(meanings)) > 1 or number != Decimal(nearest)


@given(numbers(), st.integers(-1, 1), SYMBOLS)
def test_double_columns_compare_with_the_nearest_double(number: Decimal, steps: int, symbol: str) -> None:
    value = float(number) + steps

    answer = ask(parse_type("DOUBLE"), f"{symbol} {number:f}BD", value)

    assert answer is COMPARISONS[symbol](value, float(number))


@pytest.mark.parametrize(
    ("column_type", "condition", "meaning"),
    [
        ("TINYINT", "BETWEEN -1000 AND 5", "c IS NOT NULL AND c <= 5"),
        ("TINYINT", "IN (1, 1000)", "c = 1"),
        ("TINYINT", "NOT IN (1, 1000)", "c <> 1"),
        ("INT", "BETWEEN 0.5 AND 3.5", "c BETWEEN 1 AND 3"),
        ("BIGINT", "< 99999999999999999999", "c IS NOT NULL OR (c IS NULL AND ?)"),
        ("BIGINT", ">= -9223372036854775808.5", "c IS NOT NULL OR (c IS NULL AND ?)"),
        ("BIGINT", "> 9223372036854775808", "FALSE"),
        ("BIGINT", "<= 9223372036854775807", "c <= 9223372036854775807"),
        ("BIGINT", "<> 99999999999999999999", "c IS NOT NULL"),
        ("TINYINT", "<= 9223372036854775808", "c IS NOT NULL OR (c IS NULL AND ?)"),
        ("TINYINT", "<= 9223372036854775807", "c IS NOT NULL"),
        ("TINYINT", "BETWEEN 5 AND 99999999999999999999", "c >= 5 AND (c IS NOT NULL OR (c IS NULL AND ?))"),
        ("TINYINT", "NOT BETWEEN 99999999999999999999 AND 5", "c IS NOT NULL OR (c IS NULL AND ?) OR c > 5"),
        ("DECIMAL(18, 0)", "< 99999999999999999999", "c IS NOT NULL"),
        ("INT", "= '2147483648'", "?"),
        ("INT", "<=> '2147483648'", "?"),
        ("DECIMAL(9, 0)", "<=> '1e30'", "?"),
        ("DECIMAL(9, 0)", "<> 'NaN'", "?"),
        # Spark compares a list in one type, to whose 38 digits it rounds 0.5.
        ("DECIMAL(9, 0)", "IN (99999999999999999999999999999999999999, 0.5)", "?"),
        ("BIGINT", "NOT IN (99999999999999999999999999999999999999, 0.5)", "?"),
        ("BIGINT", "IN (99999999999999999999999999999999999999, 5)", "c = 5"),
        ("DECIMAL(9, 2)", "< '1.005'", "?"),
        ("DECIMAL(9, 2)", "= '1.01'", "c = 1.01"),
        ("INT", "= '5'", "c = 5"),
        ("INT", "= '1.5'", "?"),
        ("INT", "NOT IN ('5')", "c <> 5"),
        ("INT", "NOT IN ('05')", "c IS NOT NULL AND ?"),
        ("INT", "= TRUE", "c = 1"),
        ("INT", "< CAST('NaN' AS DOUBLE)", "c IS NOT NULL"),
        ("INT", "> CAST('NaN' AS DOUBLE)", "FALSE"),
        ("BIGINT", "= 9007199254740993D", "?"),
        ("BIGINT", "< 1e30", "c IS NOT NULL"),
        ("DECIMAL(12, 2)", "= 1.2D", "c = 1.20"),
        ("DECIMAL(18, 4)", "= 1.5D", "?"),
        ("DECIMAL(38, 10)", "= 1.2D", "?"),
        ("DECIMAL(38, 10)", "= 1e29D", "FALSE"),
        ("INT", "= 16777216F", "?"),
        ("INT", "= 16777216D", "c = 16777216"),
        ("DOUBLE", "= '1e999999999'", "?"),
        ("DECIMAL(38, 10)", "= 0.1234567890", "c = 0.1234567890"),
        ("DECIMAL(38, 10)", "= 0.12345678901", "?"),
        ("DECIMAL(38, 38)", "> 0.5", f"c > 0.5{'0' * 37}"),
        ("DECIMAL(38, 37)", "> 9.5", f"c > 9.5{'0' * 36}"),
        ("DECIMAL(38, 37)", "> 12.5", "?"),
        ("FLOAT", "= 16777217", "c = 16777216.0 AND ?"),
        ("FLOAT", "= 'nan'", "c = NaN"),
        ("DOUBLE", "= '-Infinity'", "c = -Infinity"),
        ("BOOLEAN", "= 1", "c = TRUE"),
        ("BOOLEAN", "<> 0", "c = TRUE"),
        ("BOOLEAN", "= 2", "FALSE"),
        ("BOOLEAN", "= 'no'", "c = FALSE"),
        ("BOOLEAN", "NOT IN (TRUE)", "c = FALSE"),
        ("BOOLEAN", "NOT IN ('true')", "c = FALSE"),
        ("BOOLEAN", "NOT IN ('yes')", "c IS NOT NULL AND ?"),
        ("STRING", "= 5", "?"),
        ("STRING", "= DATE '2025-08-01'", "?"),
        ("BYTES", "= 'abc'", "?"),
        ("TIME(3)", "= '12:00:00'", "?"),
        ("DATE", "= '2025-08-01'", "c = '2025-08-01'"),
        ("DATE", "= '2025-08'", "c = '2025-08-01'"),
        ("DATE", "= '12345-1'", "c = '+12345-01-01'"),
        ("DATE", "> '5881580-07-10'", "c > '+5881580-07-10'"),
        ("DATE", "= DATE '-0001-01-01'", "c = '-0001-01-01'"),
        ("DATE", "NOT IN ('+12345-01-01')", "c <> '+12345-01-01'"),
        ("DATE", "NOT IN ('12345-01-01')", "c IS NOT NULL AND ?"),
        ("TIMESTAMP(3)", "= '0000-11-22'", "c = '0000-11-22T00:00:00'"),
        ("TIMESTAMP(3)", "< TIMESTAMP_NTZ '+294247-01-10 04:00'", "c < '+294247-01-10T04:00:00'"),
        ("TIMESTAMP_LTZ(3)", "= '-290308-12-22 00:00:00Z'", "c = '-290308-12-22T00:00:00Z'"),
        ("TIMESTAMP_LTZ", "= '-290308-12-21 19:59:05.224192Z'", "c = '-290308-12-21T19:59:05.224192Z'"),
        ("DATE", "> TIMESTAMP '2025-08-01 12:00:00'", "c >= '2025-08-02'"),
        ("DATE", "= TIMESTAMP '2025-08-01 00:00:00'", "c = '2025-08-01'"),
        ("DATE", "NOT IN ('2025-08-01')", "c <> '2025-08-01'"),
        ("DATE", "NOT IN ('2025-8-1')", "c IS NOT NULL AND ?"),
        (
            "DATE",
            "IN ('2025-08-01T', TIMESTAMP '2025-08-02 00:00:00')",
            "c IN ('2025-08-01', '2025-08-02') AND ?",
        ),
        ("DATE", "IN ('2025-08-01T', '2025-08-02 ?')", "c IN ('2025-08-01', '2025-08-02') AND ?"),
        ("TIMESTAMP(3)", "= DATE '2025-08-01'", "c = '2025-08-01T00:00:00'"),
        (
            "TIMESTAMP(3)",
            "< TIMESTAMP_NTZ '2025-08-01 00:00:00.0000001'",
            "c < '2025-08-01T00:00:00.0000001' AND ?",
        ),
        (
            "TIMESTAMP(3)",
            "= '2025-08-01 00:00:00+01:00'",
            "c IN ('2025-07-31T23:00:00', '2025-08-01T00:00:00') AND ?",
        ),
        (
            "TIMESTAMP(3)",
            "BETWEEN '2025-08-01 00:00:00+01:00' AND '2025-08-02T00:00:00Z'",
            "c >= '2025-07-31T23:00:00' AND ? AND c <= '2025-08-02T00:00:00'",
        ),
        ("TIMESTAMP_LTZ(3)", "= '2025-08-01 00:00:00+01:00'", "c = '2025-07-31T23:00:00Z'"),
        ("TIMESTAMP_LTZ(3)", "= '2025-08-01 00:00:00 Europe/Berlin'", "c = '2025-07-31T22:00:00Z'"),
        ("TIMESTAMP_LTZ(3)", "= TIMESTAMP_NTZ '2025-08-01 00:00:00'", "c = '2025-08-01T00:00:00Z'"),
        ("ARRAY<INT>", "= 1", "?"),
        ("ARRAY<INT>", "IS NULL", "c IS NULL"),
    ],
)
def test_sql_literals_of_other_types(column_type: str, condition: str, meaning: str) -> None:
    # The text of an unknown part is told from a bound one by its blanks.
    bound = bind_sql(f"c   {condition}", [DataField(0, "c", parse_type(column_type))])

    unknown = f"c   {condition}".replace("NOT ", "")
    assert str(bound).replace(unknown, "?") == meaning


@pytest.mark.parametrize(
    ("column_type", "condition"),
    [
        ("INT", "= 'abc'"),
        ("INT", "= '1\u00a0'"),
        ("BOOLEAN", "= 'yes\u2003'"),
        ("DOUBLE", "= '1\u00a0'"),
        ("DOUBLE", "= 'abc'"),
        ("DECIMAL(9, 2)", "= '1,5'"),
        ("BOOLEAN", "= 'maybe'"),
        ("DATE", "= '2025-13-01'"),
        ("DATE", "= 'abc'"),
        ("DATE", "= '-0100-02-29'"),
        ("DATE", "= '5881580-07-12'"),
        ("DATE", "= '12345678-01-01'"),
        ("DATE", "= '-044-01-01'"),
        ("TIMESTAMP", "= '0012345-01-01'"),
        ("TIMESTAMP", "= '294247-01-10 04:00:54.775808'"),
        ("TIMESTAMP_LTZ", "= '-290308-12-21 19:59:05.224191Z'"),
        ("TIMESTAMP", "= 'abc'"),
        ("TIMESTAMP", "= '2024-01-05T'"),
        ("TIMESTAMP", "= '2024-01-05 12:00Z'"),
        ("STRING", r"= '\uD83D'"),
    ],
)
def test_text_that_spark_cannot_cast_is_refused(column_type: str, condition: str) -> None:
    with pytest.raises(FilterError) as caught:
        bind_sql(f"c {condition}", [DataField(0, "c", parse_type(column_type))])

    assert (caught.value.column, caught.value.position) == ("c", 4)


def test_text_beside_an_instant_is_refused_as_by_itself() -> None:
    with pytest.raises(FilterError, match="not a timestamp"):
        bind_sql(
            "c IN ('abc', TIMESTAMP '2025-08-02 00:00:00')", [DataField(0, "c", parse_type("TIMESTAMP"))]
        )


def test_lists_with_a_floating_literal_compare_as_floating_point() -> None:
    field = DataField(0, "c", parse_type("BIGINT"))

    bound = bind_sql("c IN (9007199254740993, 1.5D)", [field])

    assert isinstance(bound, Unknown)
