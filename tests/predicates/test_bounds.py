"""What bounds prove of a filter never contradicts the rows that they enclose."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.predicates.binding import bind
from app.predicates.bounds import ColumnBounds, Verdict, evaluate_bounds
from app.predicates.json_reader import read_json
from app.predicates.rows import matches
from app.predicates.sql_reader import read_sql
from app.types import DataField, TypeRoot, parse_type, sql_key
from app.types.data_types import FLOATING_ROOTS
from tests.filters import FIELDS, Filter, Row, filters, rows

if TYPE_CHECKING:
    from app.types import Value


def bounds_of(
    field: DataField, values: list[Value | None], *, counts_nan: bool, knows: set[str]
) -> ColumnBounds | None:
    """What some writer would record: strings cut, NaN left out or not, parts missing."""
    key = sql_key(field.type)
    present = [value for value in values if value is not None]
    may_hold_nan = field.type.root in FLOATING_ROOTS and not counts_nan
    ordered = sorted((each for each in present if not (may_hold_nan and each != each)), key=key)  # noqa: PLR0124 - NaN
    low, high = (ordered[0], ordered[-1]) if ordered else (None, None)
    if field.type.root is TypeRoot.VARCHAR and isinstance(low, bytes) and isinstance(high, bytes):
        low, high = low[:1], high[:1] + b"\xff"
    return ColumnBounds(
        low if "min" in knows else None,
        high if "max" in knows else None,
        len(values) - len(present) if "nulls" in knows else None,
        len(values),
        may_hold_nan,
    )


@settings(max_examples=400)
@given(
    written=filters(),
    table=st.lists(rows(), max_size=4),
    counts_nan=st.booleans(),
    missing=st.sets(st.sampled_from(["min", "max", "nulls"])),
)
def test_verdicts_hold_for_every_row(
    written: Filter,
    table: list[Row],
    *,
    counts_nan: bool,
    missing: set[str],
) -> None:
    predicate = bind(read_json(written.json()), FIELDS)
    knows = {"min", "max", "nulls"} - missing
    bounds = {
        field.id: bounds_of(field, [row[field.id] for row in table], counts_nan=counts_nan, knows=knows)
        for field in FIELDS
    }

    verdict = evaluate_bounds(predicate, lambda field: bounds[field.id])

    answers = [matches(predicate, row) for row in table]
    assert verdict is not Verdict.NONE or not any(answers)
    assert verdict is not Verdict.ALL or all(answers)


NUMBER = DataField(0, "c", parse_type("INT"))
RATIO = DataField(0, "c", parse_type("DOUBLE"))
TEXT = DataField(0, "c", parse_type("STRING"))


def verdict_of(field: DataField, condition: str, bounds: ColumnBounds | None) -> Verdict:
    return evaluate_bounds(bind(read_sql(f"c {condition}"), [field]), lambda _: bounds)


@pytest.mark.parametrize(
    ("condition", "verdict"),
    [
        ("= 9", "none"),
        ("= 10", "some"),
        ("<> 9", "all"),
        ("<> 15", "some"),
        ("< 10", "none"),
        ("< 21", "all"),
        ("<= 9", "none"),
        ("<= 20", "all"),
        ("> 20", "none"),
        ("> 9", "all"),
        (">= 21", "none"),
        (">= 10", "all"),
        ("BETWEEN 1 AND 9", "none"),
        ("BETWEEN 21 AND 30", "none"),
        ("BETWEEN 10 AND 20", "all"),
        ("BETWEEN 5 AND 15", "some"),
        ("IN (1, 9, 21)", "none"),
        ("IN (1, 15, 21)", "some"),
        ("NOT IN (1, 9, 21)", "all"),
        ("NOT IN (1, 15)", "some"),
        ("IS NULL", "none"),
        ("IS NOT NULL", "all"),
    ],
)
def test_bounds_of_numbers(condition: str, verdict: str) -> None:
    assert verdict_of(NUMBER, condition, ColumnBounds(10, 20, 0, 5)).value == verdict


@pytest.mark.parametrize(
    ("condition", "low", "high", "verdict"),
    [
        ("LIKE 'm%'", "l", "my", "some"),
        ("LIKE 'ma%'", "ma", "maz", "all"),
        ("LIKE 'ma%'", "ma", "mb", "some"),
        ("LIKE 'ma%'", "maa", "my", "some"),
        ("LIKE 'mz%'", "ma", "my", "none"),
        ("LIKE 'a%'", "ma", "my", "none"),
        ("LIKE 'z_'", "ma", "my", "none"),
        ("LIKE 'ma_'", "ma", "my", "some"),
        ("LIKE '%a%'", "ma", "my", "some"),
        ("LIKE '%a%'", "ma", "ma", "all"),
        ("LIKE '%a'", "ma", "my", "some"),
        ("LIKE '%z'", "ma", "ma", "none"),
    ],
)
def test_bounds_of_strings(condition: str, low: str, high: str, verdict: str) -> None:
    bounds = ColumnBounds(low.encode(), high.encode(), 0, 5)

    assert verdict_of(TEXT, condition, bounds).value == verdict


@pytest.mark.parametrize(
    "condition", ["> 1e300", ">= 30", "= CAST('NaN' AS DOUBLE)", "<> 10", "NOT IN (10, 20)"]
)
def test_a_maximum_without_nan_proves_nothing_of_what_nan_satisfies(condition: str) -> None:
    assert verdict_of(RATIO, condition, ColumnBounds(10.0, 10.0, 0, 5, may_hold_nan=True)) is not Verdict.NONE


def test_a_maximum_with_nan_does() -> None:
    assert verdict_of(RATIO, "> 1e300", ColumnBounds(10.0, 20.0, 0, 5)) is Verdict.NONE
    assert verdict_of(RATIO, "> 1e300", ColumnBounds(math.nan, math.nan, 0, 5)) is Verdict.ALL


def test_both_zeros_are_one_value() -> None:
    for zero, other in ((0.0, "-0.0D"), (-0.0, "0.0D")):
        assert verdict_of(RATIO, f"= {other}", ColumnBounds(zero, zero, 0, 5)) is Verdict.ALL


@pytest.mark.parametrize(
    "condition", ["= 1", "<> 1", "IN (1, 2)", "NOT IN (1, 2)", "IS NOT NULL", "BETWEEN 0 AND 9"]
)
def test_a_column_of_nulls_matches_is_null_only(condition: str) -> None:
    nulls = ColumnBounds(None, None, 5, 5)

    assert verdict_of(NUMBER, condition, nulls) is Verdict.NONE
    assert verdict_of(NUMBER, "IS NULL", nulls) is Verdict.ALL


@pytest.mark.parametrize("bounds", [None, ColumnBounds(None, None, None, 5), ColumnBounds(None, None, 3, 5)])
def test_unknown_bounds_prove_nothing(bounds: ColumnBounds | None) -> None:
    for condition in ("= 1", "<> 1", "IS NULL", "IS NOT NULL", "< 5", "NOT IN (1, 2)"):
        assert verdict_of(NUMBER, condition, bounds) is Verdict.SOME


def test_swapped_bounds_prove_nothing() -> None:
    assert verdict_of(NUMBER, "= 1", ColumnBounds(20, 10, 0, 5)) is Verdict.SOME


def test_a_file_without_rows_matches_nothing() -> None:
    assert verdict_of(NUMBER, "IS NULL", ColumnBounds(None, None, 0, 0)) is Verdict.NONE


def test_the_trace_tells_which_test_decided() -> None:
    looked_at: list[tuple[str, Verdict]] = []
    predicate = bind(read_sql("c > 0 AND c > 30 AND c = 5"), [NUMBER])

    verdict = evaluate_bounds(
        predicate,
        lambda _: ColumnBounds(10, 20, 0, 5),
        lambda leaf, found: looked_at.append((str(leaf), found)),
    )

    assert verdict is Verdict.NONE
    assert looked_at == [("c > 0", Verdict.ALL), ("c > 30", Verdict.NONE)]
