"""The conditions that are taken, held to the verdicts of Spark's own parser.

``tests/golden/spark_conditions`` has the texts, Spark's verdicts and the program that asked it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from app.errors import FilterError
from app.predicates.sql.reader import read_sql
from app.predicates.unbound import Predicate

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
