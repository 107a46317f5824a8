"""Dates and years of columns, held to what Spark found near changes of clocks.

``tests/golden/spark_dates`` has the conditions, Spark's answers and the program that asked it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from app.types import DataField, parse_type
from app.types.session_zone import SessionZone, session_zone
from tests.row_matches import matches
from tests.sessions import bind_sql

GOLDEN: Final = json.loads(
    (Path(__file__).parents[1] / "golden" / "spark_dates" / "answers.json").read_text()
)
FIELDS: Final = tuple(
    DataField(number, name, parse_type(written))
    for number, (name, written) in enumerate(
        {"n": "TIMESTAMP(6)", "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "d": "DATE"}.items()
    )
)
MICROS: Final = {"n": 1_000, "z": 1_000, "d": 1}


@pytest.mark.parametrize("knows_zone", ["zone", "no zone"])
@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: str(case["zone"]))
def test_no_row_that_spark_finds_is_left_out_and_none_is_proven_that_it_does_not(
    case: dict[str, Any], knows_zone: str
) -> None:
    zone = session_zone(case["zone"]) if knows_zone == "zone" else None

    for condition, answers in case["answers"].items():
        assert_covered(condition, answers, rows(case["values"]), zone)


def assert_covered(
    condition: str, answers: list[str], values: list[dict[int, int]], zone: SessionZone | None
) -> None:
    bound = bind_sql(condition, FIELDS, zone)
    for row, *found in zip(values, *answers, strict=True):
        verdict = matches(bound, row)
        assert verdict is not False or "1" not in found, (condition, row, str(bound))
        assert verdict is not True or set(found) == {"1"}, (condition, row, str(bound))


def rows(values: dict[str, list[int]]) -> list[dict[int, int]]:
    columns = [[value * MICROS[field.name] for value in values[field.name]] for field in FIELDS]
    return [dict(enumerate(row)) for row in zip(*columns, strict=True)]
