"""Conditions held to the verdicts of Spark's own parser, and dates near changes of clocks to its answers.

``tests/golden/spark_conditions`` and ``spark_dates`` have texts, answers, and the programs that asked.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from app.errors import FilterError
from app.predicates.sql.reader import read_sql
from app.predicates.unbound import Predicate
from app.types.civil_time import date_text
from app.types.reader_rules import OWN_RELEASE
from app.types.session_zone import session_zone
from tests.row_matches import matches
from tests.sessions import bind_sql
from tests.tables import columns_of

VERDICTS: Final = json.loads(
    (Path(__file__).parents[1] / "golden" / "spark_conditions" / "conditions.json").read_text()
)

REFUSED: Final = {
    "?::INT = x": "a parameter, which has no value here",
    "and = 1": "AND as a name",
    "or = 1": "OR as a name",
}
"""What Spark's parser takes, but is refused; names can be quoted."""

DECIDED: Final = {
    "9223372036854775808L = x": "the number of the smallest BIGINT, whose sign is read apart",
    "ü = 1": "letters of other alphabets, which Spark wants quoted",
    "名 = 1": "letters of other alphabets, which Spark wants quoted",
    "999999999999999999999999999999999999999 = x": "a number out of every range",
}
"""What is read as if it were a test, although Spark 4.0 refuses it."""


def read(text: str) -> Predicate | None:
    try:
        return read_sql(text)
    except FilterError:
        return None


def test_every_condition_that_spark_parses_is_taken() -> None:
    # What is an expression, but has a value of another type, is taken as a part of a condition.
    wrongly = [
        text for text in VERDICTS["parsed"] if read(text) is None and read(f"({text}) IS NOT NULL") is None
    ]

    assert sorted(wrongly) == sorted(REFUSED)


def test_what_spark_does_not_parse_is_refused_or_keeps_every_row() -> None:
    wrongly = [
        text
        for text in VERDICTS["refused"]
        if (found := read(text)) is not None and "Unknown(" not in repr(found)
    ]

    assert sorted(wrongly) == sorted(DECIDED)


CASES: Final = [
    case
    for name in ("answers", "functions")
    for case in json.loads(
        (Path(__file__).parents[1] / "golden" / "spark_dates" / f"{name}.json").read_text()
    )["cases"]
]
FIELDS: Final = columns_of("n: TIMESTAMP(6); z: TIMESTAMP(6) WITH LOCAL TIME ZONE; d: DATE; s: STRING")
MICROS: Final = {"n": 1_000, "z": 1_000, "d": 1}


@pytest.mark.parametrize("knows_zone", ["release", "zone", "no zone"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['zone']}-{len(case['answers'])}")
def test_no_row_that_spark_finds_is_left_out_and_none_is_proven_that_it_does_not(
    case: dict[str, Any], knows_zone: str
) -> None:
    zone = None
    if knows_zone != "no zone":
        is_region = knows_zone == "release" and "/" in case["zone"]
        zone = session_zone(f"{case['zone']}@{OWN_RELEASE}" if is_region else case["zone"])

    for condition, answers in case["answers"].items():
        values = rows_of(case["values"])
        bound = bind_sql(condition, FIELDS, zone)
        for row, *found in zip(values, *answers, strict=True):
            verdict = matches(bound, row)
            assert verdict is not False or "1" not in found, (condition, row, str(bound))
            assert verdict is not True or set(found) == {"1"}, (condition, row, str(bound))


def rows_of(values: dict[str, list[int]]) -> list[dict[int, int | bytes]]:
    columns = [[value * MICROS[name] for value in values[name]] for name in MICROS]
    texts = [date_text(day).encode() for day in values["d"]]
    return [dict(enumerate(row)) for row in zip(*columns, texts, strict=True)]
