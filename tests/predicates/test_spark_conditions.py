"""The conditions that are taken, held to the verdicts of Spark's own parser.

``tests/golden/spark_conditions`` has the texts, Spark's verdicts and the program that asked it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from app.errors import FilterError
from app.predicates.sql.reader import read_sql

VERDICTS: Final = json.loads(
    (Path(__file__).parents[1] / "golden" / "spark_conditions" / "conditions.json").read_text()
)

USELESS: Final = {
    "?::INT = x": "a parameter, which has no value here",
    "x -> 'a'": "a function that is no argument",
    "a.b.* = 1": "all columns as one value",
    "* = 1": "all columns as one value",
    "x = *": "all columns as one value",
    "( x , y AS , z ) IN ( 1 )": "AS as a name behind AS",
}
"""What Spark's parser takes, but no useful query has."""

UNREAD: Final = {
    "x IS ! NULL": "Spark 3 takes it",
    "x ! BETWEEN 1 AND 2": "Spark 3 takes it",
    "x !IN (1)": "Spark 3 takes it",
    "x ! LIKE 'a%'": "Spark 3 takes it",
    "999999999999999999999999999999999999999 = x": "decided as a number out of range",
    "9223372036854775808L = x": "the number of the smallest BIGINT, whose sign is read apart",
    "INTERVAL 'foo' = x": "the text of intervals is not read",
    "INTERVAL '-1' '-1' DAY = x": "the text of intervals is not read",
    "timestampadd('HOUR', 1, x) > y": "a function like any other",
    "timestampadd ( 'HOUR' , 1 , x ) > y": "a function like any other",
    "x > ( WITH q , ( SELECT 1 AS a ) SELECT a FROM q )": "queries are not read",
    "x = ( SELECT max ( -> y ) FROM t , )": "queries are not read",
    "ü = 1": "letters of other alphabets, which Spark wants quoted",
    "名 = 1": "letters of other alphabets, which Spark wants quoted",
    "ü LIKE 'a' || '%'": "letters of other alphabets, which Spark wants quoted",
    "( 名 ( '454' , '999' ) ) IS NOT NULL": "letters of other alphabets, which Spark wants quoted",
}
"""What is taken although Spark 4.0 refuses it; its part of a filter keeps every row."""


def is_taken(text: str) -> bool:
    try:
        read_sql(text)
    except FilterError:
        return False
    return True


def test_every_condition_that_spark_parses_is_taken() -> None:
    # What is an expression, but has a value of another type, is taken as a part of a condition.
    wrongly = [
        text for text in VERDICTS["parsed"] if not is_taken(text) and not is_taken(f"({text}) IS NOT NULL")
    ]

    assert sorted(wrongly) == sorted(USELESS)


def test_what_spark_does_not_parse_is_refused() -> None:
    wrongly = [text for text in VERDICTS["refused"] if is_taken(text)]

    assert sorted(wrongly) == sorted(UNREAD)
