import pytest

from app.predicates.model import Unknown
from app.types import DataField, parse_type
from tests.sessions import bind_sql

FIELDS = (DataField(0, "x", parse_type("INT")), DataField(1, "d", parse_type("DATE")))


@pytest.mark.parametrize(
    ("condition", "meaning"),
    [
        ("x = 2 + 3", "x = 5"),
        ("x = 2 + 3 * 4", "x = 14"),
        ("x = 2 - 3 - 4", "x = -5"),
        ("x = - 5 + - 3", "x = -8"),
        ("x < (2 * 3)", "x < 6"),
        ("2 * 3 >= x", "x <= 6"),
        ("x IN (1, 1 + 1)", "x IN (1, 2)"),
        ("x IN (1, 2, 3, 4, 5, 6, 7, 8, 9 + 1)", "x IN (1, 2, 3, 4, 5, ...)"),
        ("x BETWEEN 1 + 1 AND 2 * 5", "x BETWEEN 2 AND 10"),
        ("2 + 3 = 5", "TRUE"),
        ("x = 2147483646 + 1", "x = 2147483647"),
        ("d = DATE '2025-01-31' + 1", "d = '2025-02-01'"),
        ("d = DATE '2025-01-31' - INTERVAL 3 DAYS", "d = '2025-01-28'"),
        ("d = DATE '2025-01-31' - INTERVAL '-1' WEEK", "d = '2025-02-07'"),
        ("d = DATE '2024-01-31' + INTERVAL '1 month'", "d = '2024-02-29'"),
        ("d = DATE '2024-02-29' - INTERVAL 1 YEAR + 1", "d = '2023-03-01'"),
        ("d = date_add(DATE '2025-01-31', 1 + 1)", "d = '2025-02-02'"),
        ("d = add_months(DATE '2025-03-31', -1)", "d = '2025-02-28'"),
    ],
)
def test_literals_are_added_as_spark_adds_them(condition: str, meaning: str) -> None:
    assert str(bind_sql(condition, FIELDS)) == meaning


@pytest.mark.parametrize(
    "condition",
    [
        "x = 2147483647 + 1",
        "x = 2147483648 - 1",
        "x = 100000 * 100000",
        # A TINYINT overflows earlier, and types with a point round.
        "x = 100Y + 100Y",
        "x = 1L + 1",
        "x = 1.0 + 1",
        "x = CAST('1' AS TINYINT) + 1",
        "x = 7 / 2",
        "x = 7 % 2",
        "x = 2 + 7 % 2",
        "x = 2 + x",
        "x = 2 + NULL",
        "x IN (1, 7 % 2)",
        "d = DATE '2025-01-31' + INTERVAL 3 HOURS",
        "d = DATE '2025-01-31' + INTERVAL 1 DAY 2 HOURS",
        "d = DATE '2025-01-31' + INTERVAL '1-2' YEAR TO MONTH",
        "d = DATE '2025-01-31' + INTERVAL '1.5' DAY",
        "d = DATE '2025-01-31' - DATE '2025-01-30'",
        "d = date_add('2025-01-31', 1)",
        "x = INTERVAL",
    ],
)
def test_other_sums_are_not_decided(condition: str) -> None:
    fields = (*FIELDS, DataField(2, "interval", parse_type("INT")))

    assert isinstance(bind_sql(condition, fields), Unknown)
