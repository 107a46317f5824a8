import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FilterError
from app.types import parse_json, parse_type, sql_key, to_json
from app.types.json_values import parse_decimal, parse_integer
from app.types.values import to_float32
from tests.examples import examples
from tests.filters import FIELDS, values

DAY = 20_301
CLOCK = ((12 * 60 + 30) * 60 + 15) * 1_000_000_000 + 250_000_000
AT = DAY * 86_400_000_000_000 + CLOCK


def read(value: Any, written: str) -> Any:
    return parse_json(value, parse_type(written))


@pytest.mark.parametrize(
    ("written", "forms", "value"),
    [
        ("BOOLEAN", [True, "true", "TRUE"], True),
        ("TINYINT", [-128, "-128", -128.0, Decimal("-128.0")], -128),
        ("BIGINT", [2**63 - 1, str(2**63 - 1)], 2**63 - 1),
        ("FLOAT", [0.1, "0.1", Decimal("0.1")], 0.10000000149011612),
        ("FLOAT", [1e39, "Infinity", "1e39"], math.inf),
        ("DOUBLE", [1, "1", 1.0, "1e0", Decimal(1)], 1.0),
        ("DOUBLE", ["-Infinity", -(10**400), "-1e399"], -math.inf),
        ("DECIMAL(9, 2)", ["1.20", "1.2", 1.2, Decimal("1.200"), "12e-1"], 120),
        (
            "DECIMAL(38, 10)",
            ["-1234567890123456789012345678.0123456789"],
            -12345678901234567890123456780123456789,
        ),
        ("STRING", ["é😀"], "é😀".encode()),
        ("BYTES", [{"$hex": "00Ff"}, {"$base64": "AP8="}, "00ff"], b"\x00\xff"),
        ("DATE", ["2025-08-01", "2025-8-1", DAY, [2025, 8, 1], {"$days": DAY}], DAY),
        ("DATE", ["0000-11-22", "+0000-11-22", [0, 11, 22]], -719_202),
        ("DATE", ["+12345-01-01", "12345-01-01", "0012345-1-1", [12345, 1, 1]], 3_789_391),
        ("DATE", ["-0001-01-01", [-1, 1, 1]], -719_893),
        ("TIME(3)", ["12:30:15.25", [12, 30, 15, 250_000_000], CLOCK // 1_000_000], CLOCK // 1_000_000),
        ("TIME(3)", ["12:30", [12, 30], [12, 30, 0]], 45_000_000),
        (
            "TIMESTAMP(9)",
            [
                "2025-08-01T12:30:15.25",
                "2025-08-01 12:30:15.250000000",
                [2025, 8, 1, 12, 30, 15, 250_000_000],
                {"$ms": AT // 1_000_000},
                {"$ms": AT // 1_000_000, "$nanos": 0},
            ],
            AT,
        ),
        ("TIMESTAMP(9)", ["2025-08-01", "2025-08-01 00:00", [2025, 8, 1, 0, 0]], AT - CLOCK),
        (
            "TIMESTAMP_LTZ(9)",
            [
                "2025-08-01T12:30:15.25Z",
                "2025-08-01 12:30:15.25 UTC",
                "2025-08-01T14:30:15.25+02:00",
                "2025-08-01T14:30:15.25+0200",
                1754051415.25,
                Decimal(AT).scaleb(-9),
            ],
            AT,
        ),
        ("ARRAY<INT>", [None], None),
    ],
)
def test_every_form_of_a_value_means_the_same(written: str, forms: list[Any], value: Any) -> None:
    assert [read(form, written) for form in forms] == [value] * len(forms)


def test_special_floats() -> None:
    assert math.isnan(read("NaN", "FLOAT"))
    assert math.copysign(1, read("-0.0", "DOUBLE")) == -1
    assert math.copysign(1, read("-0.0", "FLOAT")) == -1


@pytest.mark.parametrize(
    ("written", "refused"),
    [
        ("BOOLEAN", [1, 0, "yes", []]),
        ("TINYINT", [128, 1.5, "1.5", "1_0", "٣", True, "", "1" * 50, math.inf, Decimal("1e400")]),
        ("DOUBLE", [True, "nan", "1_0", "0x10", "", [], "1" * 500]),
        (
            "DECIMAL(9, 2)",
            ["1.234", "12345678.90", 1e9, True, "NaN", math.nan, "1e999999999", 10**500, "1_0"],
        ),
        ("STRING", [5, True, {"$hex": "00"}, "\ud800"]),
        ("BYTES", ["0", "0g", {"$base64": "?"}, {"$hex": 5}, {"$hex": "00", "x": 1}, "é", 5]),
        (
            "DATE",
            [
                *("2025-13-01", "20250801", "٢٠٢٥-08-01", True, 1.0, 2**31, [2025, 8], [10**30, 1, 1]),
                *([2023, 2, 29], [-100, 2, 29], [5_881_580, 7, 12], "+5881580-07-12", "-5877641-06-22"),
                *("225-01-01", {"$days": "1"}),
            ],
        ),
        (
            "TIME(3)",
            ["24:00", "12:60", "12", "12:30:15.2505", -1, 86_400_000, [12], [12, 30, 15, 1], [1, 2, 3, 4, 5]],
        ),
        (
            "TIMESTAMP(3)",
            [
                *("2025-08-01T25:00", "2025-08-01T12:30Z", 5, 5.0, {"$ms": 1, "$nanos": 10**6}),
                *({"$ms": 2**63}, "+292278995-01-01", [-292_275_056, 1, 1, 0, 0]),
            ],
        ),
        (
            "TIMESTAMP(9)",
            ["+292278995-01-01", [-292_275_056, 1, 1, 0, 0], "+1000000000-01-01", [2025, 2, 29, 0, 0]],
        ),
        (
            "TIMESTAMP_LTZ(3)",
            [
                *("2025-08-01T12:30", "2025-08-01T12:30 Europe/Vienna"),
                "2025-08-01T12:30+19:00",
                "2025-08-01T12:30+01:60",
                5,
                -0.5,
                Decimal("0.0000000001"),
                math.nan,
            ],
        ),
        ("MAP<STRING, INT>", [{}, 1]),
        ("VARIANT", [1]),
    ],
)
def test_other_values_are_refused(written: str, refused: list[Any]) -> None:
    for value in refused:
        with pytest.raises(FilterError):
            read(value, written)


def test_wide_numbers_are_the_callers_matter() -> None:
    assert parse_integer(10**30, parse_type("INT")) == 10**30
    assert parse_decimal("1.23456", parse_type("DECIMAL(9, 2)")) == Decimal("1.23456")
    with pytest.raises(FilterError):
        parse_integer("a", parse_type("INT"))
    with pytest.raises(FilterError):
        parse_decimal("a", parse_type("DECIMAL(9, 2)"))


@examples(300)
@given(st.sampled_from(FIELDS).flatmap(lambda field: st.tuples(st.just(field.type), values(field.type))))
def test_answers_read_back_as_the_value(typed: Any) -> None:
    data_type, value = typed
    key = sql_key(data_type)

    again = parse_json(to_json(value, data_type), data_type)

    assert again is not None
    assert key(again) == key(value)


def test_instants_before_1970_are_read_as_the_engine_writes_them() -> None:
    assert read(-1.5, "TIMESTAMP_LTZ(3)") == -500_000_000
    assert read(-1.0, "TIMESTAMP_LTZ(3)") == -1_000_000_000


@given(st.floats(width=32))
def test_floats_are_written_so_that_fewer_digits_would_not_do(number: float) -> None:
    written = to_json(number, parse_type("FLOAT"))

    if isinstance(written, float) and written:
        digits = len(Decimal(repr(written)).normalize().as_tuple().digits)
        assert to_float32(written) == number
        assert digits == 1 or to_float32(float(f"{number:.{digits - 1}g}")) != number


@pytest.mark.parametrize(
    ("written", "value", "expected"),
    [
        ("FLOAT", 0.10000000149011612, 0.1),
        ("FLOAT", 16777216.0, 16777216.0),
        ("FLOAT", math.nan, "NaN"),
        ("DOUBLE", -0.0, "-0.0"),
        ("DOUBLE", -math.inf, "-Infinity"),
        ("DECIMAL(9, 2)", -5, "-0.05"),
        ("DECIMAL(38, 10)", 10**38 - 1, "9999999999999999999999999999.9999999999"),
        ("STRING", b"a\xff", "a\ufffd"),
        ("BYTES", b"\x00\xff", {"$hex": "00ff"}),
        ("DATE", DAY, "2025-08-01"),
        ("DATE", 10_000_000, "+29349-01-26"),
        ("DATE", -719_528, "0000-01-01"),
        ("DATE", -(1 << 31), "-5877641-06-23"),
        ("TIME(3)", 45_000_250, "12:30:00.25"),
        ("TIMESTAMP(6)", AT, "2025-08-01T12:30:15.25"),
        ("TIMESTAMP_LTZ(6)", AT, "2025-08-01T12:30:15.25Z"),
        ("TIMESTAMP(9)", -1, "1969-12-31T23:59:59.999999999"),
        ("TIMESTAMP(9)", -(10**20), "-1199-02-15T14:13:20"),
        ("TIMESTAMP_LTZ(9)", 10**24, "+31690708-07-05T01:46:40Z"),
        ("INT", None, None),
        ("BOOLEAN", True, True),
        ("INT", 5, 5),
    ],
)
def test_answers(written: str, value: Any, expected: Any) -> None:
    assert to_json(value, parse_type(written)) == expected
