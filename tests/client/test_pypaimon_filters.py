"""Which tests of pypaimon's are sent: those that no row passes there and fails by the service."""

import datetime as dt
import json
import math
import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.types import DataField, parse_json, parse_type
from paimon_index.pypaimon.filters import to_json
from paimon_index.requests import post
from tests.client.literals import NOON, ODD_ZONE, OTHERS, VALUES
from tests.client.sent_filters import may_hold

# What pypaimon's row filter does with a value that is not None.
MEANINGS: dict[str, Callable[[Any, Sequence[Any]], bool]] = {
    "equal": lambda value, literals: value == literals[0],
    "notEqual": lambda value, literals: value != literals[0],
    "lessThan": lambda value, literals: value < literals[0],
    "lessOrEqual": lambda value, literals: value <= literals[0],
    "greaterThan": lambda value, literals: value > literals[0],
    "greaterOrEqual": lambda value, literals: value >= literals[0],
    "in": lambda value, literals: value in literals,
    "notIn": lambda value, literals: None not in literals and value not in literals,
    "between": lambda value, literals: literals[0] <= value <= literals[1],
    "notBetween": lambda value, literals: value < literals[0] or value > literals[1],
    "startsWith": lambda value, literals: isinstance(value, str) and value.startswith(literals[0]),
    "endsWith": lambda value, literals: isinstance(value, str) and value.endswith(literals[0]),
    "contains": lambda value, literals: isinstance(value, str) and literals[0] in value,
    "isNull": lambda *_: False,
    "isNotNull": lambda *_: True,
}


def leaf(method: str, *literals: Any, field: str = "c") -> SimpleNamespace:
    return SimpleNamespace(method=method, field=field, literals=list(literals))


def joined(method: str, *children: Any) -> SimpleNamespace:
    return SimpleNamespace(method=method, field=None, literals=list(children))


def is_sent(predicate: Any, type_text: str) -> bool:
    return to_json(predicate, {"c": type_text}, []) is not None


def passes(predicate: Any, value: Any) -> bool:
    """Whether pypaimon finds a row; what it cannot compare it does not find."""
    if predicate.method in ("and", "or"):
        return (all if predicate.method == "and" else any)(
            passes(child, value) for child in predicate.literals
        )
    if value is None:
        return bool(predicate.method == "isNull")
    try:
        return MEANINGS[predicate.method](value, predicate.literals)
    except (TypeError, ArithmeticError):
        return False


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, Any, Any]:
    type_text = draw(st.sampled_from([*VALUES]))
    literal = st.sampled_from([*VALUES[type_text], *OTHERS])
    leaves = st.builds(
        lambda method, literals: leaf(method, *([] if "ull" in method else literals)),
        st.sampled_from([*MEANINGS]),
        st.tuples(literal, literal),
    )
    predicate = leaves | st.builds(joined, st.sampled_from(["and", "or"]), leaves, leaves)
    value = st.none() | st.sampled_from(VALUES[type_text])
    return type_text, draw(predicate), draw(value)


@given(questions())
def test_no_row_that_passes_in_pypaimon_fails_by_the_service(question: tuple[str, Any, Any]) -> None:
    type_text, predicate, value = question
    # Tests of one literal look at the first, as pypaimon does.
    one = {"equal", "notEqual", "lessThan", "lessOrEqual", "greaterThan", "greaterOrEqual"}
    one |= {"startsWith", "endsWith", "contains"}
    for each in predicate.literals if predicate.method in ("and", "or") else [predicate]:
        each.literals = each.literals[:1] if each.method in one else each.literals
    if not passes(predicate, value):
        return

    sent = to_json(predicate, {"c": type_text}, [])

    field = DataField(0, "c", parse_type(type_text))
    written = json.loads(post("", {"filter": sent, "value": value}).body or b"")
    stored = parse_json(written.get("value"), field.type)
    assert sent is None or may_hold(written["filter"], field, stored), sent


@pytest.mark.parametrize(
    ("type_text", "literal"),
    [
        ("BOOLEAN", True),
        ("TINYINT NOT NULL", -128),
        ("BIGINT", (1 << 63) - 1),
        ("FLOAT", 0.5),
        ("FLOAT", math.inf),
        ("DOUBLE", 0.1),
        ("DOUBLE", 7),
        ("DECIMAL(9, 2)", Decimal("1.50")),
        ("DECIMAL(38, 10)", Decimal("-1234567890123456789012345654.0123456789")),
        ("DECIMAL(9, 2)", 7),
        ("STRING", "é"),
        ("VARCHAR(20) NOT NULL", ""),
        ("CHAR(6)", "a"),
        ("BYTES", b"\xff"),
        ("DATE", NOON.date()),
        ("TIMESTAMP(6)", NOON.replace(microsecond=1)),
        ("TIMESTAMP(3)", NOON.replace(microsecond=1_000)),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", NOON.replace(tzinfo=ODD_ZONE)),
        ("TIMESTAMP_LTZ(6)", NOON.replace(tzinfo=dt.UTC)),
    ],
)
def test_values_of_a_type_are_sent(type_text: str, literal: Any) -> None:
    for method in ("equal", "notEqual", "lessOrEqual", "in"):
        assert is_sent(leaf(method, literal), type_text)


@pytest.mark.parametrize(
    ("type_text", "literal"),
    [
        ("INT", None),
        ("INT", True),
        ("INT", 5.0),
        ("INT", "5"),
        ("TINYINT", 128),
        ("BOOLEAN", 1),
        ("FLOAT", 0.1),
        ("FLOAT", 1e300),
        ("FLOAT", (1 << 24) + 1),
        ("FLOAT", math.nan),
        ("DOUBLE", math.nan),
        ("DOUBLE", (1 << 53) + 1),
        ("DOUBLE", Decimal("0.5")),
        ("DECIMAL(9, 2)", 0.5),
        ("DECIMAL(9, 2)", Decimal("0.001")),
        ("DECIMAL(9, 2)", Decimal(10_000_000)),
        ("DECIMAL(9, 2)", Decimal("1E+999999")),
        ("DECIMAL(9, 2)", Decimal("NaN")),
        ("STRING", 5),
        ("BINARY(8)", bytes(8)),
        ("DATE", NOON),
        ("DATE", "2024-01-01"),
        ("TIME(3)", dt.time(1, 2)),
        ("TIMESTAMP(3)", NOON.replace(microsecond=1)),
        ("TIMESTAMP(6)", NOON.replace(tzinfo=dt.UTC)),
        ("TIMESTAMP(6)", NOON.date()),
        ("TIMESTAMP(9)", NOON),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", NOON),
        ("ARRAY<INT>", 5),
        ("MAP<INT, INT>", 5),
    ],
)
def test_literals_that_are_no_values_of_a_type_are_not(type_text: str, literal: Any) -> None:
    for method in ("equal", "notEqual", "lessOrEqual", "in"):
        assert not is_sent(leaf(method, literal), type_text)


def test_nulls_in_lists_are_left_out_where_they_change_nothing() -> None:
    sent = to_json(leaf("in", 1, None), {"c": "INT"}, [])

    assert sent is not None
    assert sent["literals"] == [1]
    assert not is_sent(leaf("in", None), "INT")
    assert not is_sent(leaf("in"), "INT")
    assert not is_sent(leaf("notIn", 1, None), "INT")
    assert not is_sent(leaf("between", 1, None), "INT")


def test_zeros_that_pypaimon_tells_apart_are_not_sent() -> None:
    assert not is_sent(leaf("notIn", 0.0), "DOUBLE")
    assert is_sent(leaf("notIn", 0), "INT")


def test_texts_are_tested_in_columns_of_texts_alone() -> None:
    for method in ("startsWith", "endsWith", "contains", "like"):
        assert is_sent(leaf(method, "a"), "STRING")
        assert not is_sent(leaf(method, "a"), "INT")
        assert not is_sent(leaf(method, 1), "INT")
        assert not is_sent(leaf(method, b"a"), "BYTES")


def test_null_tests_are_sent_of_any_atomic_type() -> None:
    assert is_sent(leaf("isNull"), "BINARY(8)")
    assert is_sent(leaf("isNotNull"), "TIMESTAMP(9)")
    assert not is_sent(leaf("isNull"), "ARRAY<INT>")
    assert not is_sent(leaf("isNull", field="_ROW_ID"), "INT")


def test_what_is_not_sent_counts_as_true() -> None:
    sent, not_sent = leaf("equal", 1), leaf("equal", 1.5)

    both = to_json(joined("and", sent, not_sent), {"c": "INT"}, [])
    assert both is not None
    assert len(both["children"]) == 1
    assert not is_sent(joined("or", sent, not_sent), "INT")
    assert not is_sent(joined("and", not_sent), "INT")
    assert not is_sent(joined("and"), "INT")
    assert not is_sent(joined("or"), "INT")
    nested = to_json(joined("and", sent, joined("or", not_sent, sent)), {"c": "INT"}, [])
    assert nested is not None
    assert operator.itemgetter("function")(nested["children"][0]) == "EQUAL"


def test_an_or_of_partitions_and_other_columns_which_pypaimon_leaves_out_is_not_sent() -> None:
    def sent(predicate: Any) -> dict[str, Any] | None:
        return to_json(predicate, {"c": "INT", "day": "INT"}, ["day"])

    mixed = joined("or", leaf("equal", 1), leaf("equal", 2, field="day"))
    assert sent(mixed) is None
    assert sent(joined("or", joined("and", leaf("equal", 1), leaf("equal", 2, field="day")))) is None
    assert sent(joined("and", leaf("equal", 1), leaf("equal", 2, field="day"))) is not None
    assert sent(joined("or", leaf("equal", 1), leaf("equal", 2))) is not None
    assert sent(joined("or", *[leaf("equal", 1, field="day")] * 2)) is not None
    rest = sent(joined("and", mixed, leaf("equal", 1)))
    assert rest is not None
    assert len(rest["children"]) == 1


def test_names_of_tests_are_those_of_the_engine() -> None:
    for method, name in {
        "notBetween": "NOT_BETWEEN",
        "greaterOrEqual": "GREATER_OR_EQUAL",
        "in": "IN",
    }.items():
        sent = to_json(leaf(method, 1, 2), {"c": "INT"}, [])
        assert sent is not None
        assert sent["function"] == name
