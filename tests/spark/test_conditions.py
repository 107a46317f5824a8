"""Conditions that a session has read, as predicates, against the rows that the session itself finds."""

import json
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import pytest

from app.predicates import bind, read_json_filter
from app.predicates.model import ALWAYS_TRUE, BoundPredicate
from app.types import DataField, Value, parse_json, parse_type
from tests.referee.literals import TYPES, Column, cell, condition, value
from tests.row_matches import matches
from tests.spark.sessions import Spark, SparkSession

pytestmark = pytest.mark.spark

ZONES: Final = ("UTC", "America/New_York", "Asia/Kolkata")
TABLES: Final = 3
CONDITIONS: Final = 25


def session_of(spark: Spark, zone: str, *, ansi: bool) -> SparkSession:
    return spark.session(zone, {"spark.sql.ansi.enabled": str(ansi).lower()})


def drawn_table(rng: Random) -> tuple[list[Column], list[list[str | None]]]:
    types = [*rng.sample(TYPES, 6), f"CHAR({rng.choice((1, 4))})"]
    rows = [[value(rng, written) for written in types] for _ in range(12)]
    columns: list[Column] = [
        (f"c{at}", written, [text for row in rows if (text := row[at]) is not None])
        for at, written in enumerate(types)
    ]
    return columns, rows


def in_spark(written: str, text: str | None) -> str:
    if text is not None and written == "DATE":
        return f"DATE '{text}'"
    if written.startswith("CHAR"):
        length = int(written[5:-1])
        return cell("STRING", None if text is None else text[:length].ljust(length))
    return cell(written, text)


def stored(rng: Random, field: DataField, text: str | None) -> Value | None:
    """Return a value as a file may have it, from which Spark reads ``text``."""
    if text is None:
        return None
    match field.type.root.name:
        case "CHAR":
            text = text[: field.type.precision]
            text += " " * rng.choice((0, field.type.precision - len(text)))
        case "BYTES" | "VARBINARY":
            return bytes.fromhex(text)
    return parse_json(text, field.type)


@pytest.mark.long
@pytest.mark.parametrize("ansi", [True, False])
@pytest.mark.parametrize("zone", ZONES)
def test_rows_of_a_predicate_are_those_of_the_session(spark: Spark, zone: str, *, ansi: bool) -> None:
    session, counts = session_of(spark, zone, ansi=ansi), Counter[str]()
    for seed in range(TABLES):
        rng = Random(f"{zone} {ansi} {seed}")  # noqa: S311 - draws cases
        columns, rows = drawn_table(rng)
        wheres = [condition(rng, columns) for _ in range(CONDITIONS)]
        for where, predicate, truths in read(session, columns, rows, wheres):
            counts.update(held(rng, columns, rows, where, predicate, truths))

    assert counts["decided"] > counts["undecided"]


def read(
    session: SparkSession, columns: Sequence[Column], rows: Sequence[Sequence[str | None]], wheres: list[str]
) -> list[tuple[str, str | None, list[bool]]]:
    cells = ", ".join(
        f"({', '.join(in_spark(c[1], text) for c, text in zip(columns, row, strict=True))})" for row in rows
    )
    names = ", ".join(name for name, _, _ in columns)
    table = f"SELECT * FROM VALUES {cells} AS t({names})"  # noqa: S608 - our own
    return session.conditions([(name, written) for name, written, _ in columns], table, wheres)


def held(
    rng: Random,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str | None]],
    where: str,
    written: str | None,
    truths: Sequence[bool],
) -> Counter[str]:
    fields = [DataField(at, name, parse_type(type_)) for at, (name, type_, _) in enumerate(columns)]
    bound: BoundPredicate = ALWAYS_TRUE
    if written is not None:
        bound = bind(read_json_filter(json.loads(written)), fields)
    counts = Counter[str]()
    for row, truth in zip(rows, truths, strict=True):
        answer = matches(bound, {field.id: stored(rng, field, row[field.id]) for field in fields})
        assert answer in (None, truth), (where, written, dict(zip(fields, row, strict=True)))
        counts["undecided" if answer is None else "decided"] += 1
    return counts


def test_an_expression_is_a_condition_too(spark: Spark) -> None:
    session, rows = spark.session(), "SELECT * FROM VALUES (1), (5) AS t(c0)"
    columns = [("c0", "INT")]

    [(_, predicate, truths)] = session.conditions(columns, rows, [{"column": "c0", "equals": 5}])

    assert json.loads(str(predicate))["children"][-1]["literals"] == [5]
    assert truths == [False, True]


@pytest.mark.parametrize(
    ("where", "predicate"),
    [
        ("1 = 2", "FALSE"),
        ("1 = 1", "every row"),
        ("5 < a", "a IS_NOT_NULL [] AND a GREATER_THAN [5]"),
        ("NOT (a = 5 AND b)", "a NOT_EQUAL [5] OR b NOT_EQUAL [True]"),
        ("NOT (t <=> 'x')", "t IS_NULL [] OR t NOT_EQUAL ['x']"),
        ("a IN (1, 2, NULL)", "a IN [1, 2, None]"),
        ("a = 3000000000", "FALSE"),
        ("f < 5.5", "f IS_NOT_NULL [] AND f LESS_THAN ['5.5']"),
        ("c = 'ab'", "c IS_NOT_NULL [] AND c EQUAL ['ab   ']"),
        ("bin = X'00ff'", "bin IS_NOT_NULL [] AND bin EQUAL [{'$hex': '00ff'}]"),
        ("m['k'] = 5", "m IS_NOT_NULL [] AND m[k] EQUAL [5]"),
        # The clock shows this twice.
        (
            "ts >= '2024-11-03 01:30:00'",
            "ts IS_NOT_NULL [] AND ts GREATER_OR_EQUAL [{'$ms': 1730611800000, '$nanos': 0}]",
        ),
        (
            "nanos > TIMESTAMP_NTZ '1970-01-01 00:00:00'",
            "nanos IS_NOT_NULL [] AND nanos GREATER_THAN [{'$ms': 0, '$nanos': 999}]",
        ),
        ("t LIKE 'a!%' ESCAPE '!'", "t IS_NOT_NULL [] AND ?conditions.t LIKE 'a!%' ESCAPE '!'"),
        (
            "upper(t) = 'X' AND a = 5",
            "t IS_NOT_NULL [] AND a IS_NOT_NULL [] AND ?(upper(conditions.t) = 'X') AND a EQUAL [5]",
        ),
    ],
)
def test_a_condition_is_what_spark_makes_of_it(spark: Spark, where: str, predicate: str) -> None:
    columns = [
        ("a", "INT"),
        ("b", "BOOLEAN"),
        ("t", "STRING"),
        ("f", "FLOAT"),
        ("c", "CHAR(5)"),
        ("bin", "BYTES"),
        ("ts", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("nanos", "TIMESTAMP(9)"),
        ("m", {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}),
    ]
    nulls = [
        in_spark(written, None) if isinstance(written, str) else "CAST(NULL AS MAP<STRING, INT>)"
        for _, written in columns
    ]
    none = ", ".join(f"{null} AS {name}" for null, (name, _) in zip(nulls, columns, strict=True))

    [(_, written, _)] = spark.session("America/New_York").conditions(columns, f"SELECT {none}", [where])

    assert shown(None if written is None else json.loads(written)) == predicate


def test_null_is_found_where_spark_does_not_fold_it(spark: Spark) -> None:
    rule = "org.apache.spark.sql.catalyst.optimizer.NullPropagation"
    session = spark.session("UTC", {"spark.sql.optimizer.excludedRules": rule})
    rows = "SELECT * FROM VALUES (1), (NULL) AS t(a)"

    told = session.conditions([("a", "INT")], rows, ["a <=> NULL", "NOT (a <=> NULL)"])

    assert [shown(json.loads(str(predicate))) for _, predicate, _ in told] == [
        "a IS_NULL []",
        "a IS_NOT_NULL []",
    ]
    assert [truths for _, _, truths in told] == [[False, True], [True, False]]


def shown(predicate: dict[str, Any] | None) -> str:
    match predicate:
        case None:
            return "every row"
        case {"kind": "COMPOUND", "function": function, "children": children}:
            return f" {function} ".join(map(shown, children))
        case {"function": function, "transform": {"fieldRef": {"name": name}}, "literals": literals}:
            return f"{name} {function} {literals}"
        case {"function": function, "transform": _}:
            return f"?{function}"
    return str(predicate["function"])
