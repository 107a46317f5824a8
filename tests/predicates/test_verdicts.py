"""What bounds prove of a filter: held to the rows that they enclose, and to its definition file by file."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.predicates.binding import bind
from app.predicates.json_reader import read_json_filter
from app.predicates.model import BoundLeaf, Operator, leaves
from app.predicates.text import read_text
from app.predicates.verdicts import ColumnBounds, Verdict, evaluate_bounds, leaf_verdicts
from app.types import DataField, TypeRoot, Value, parse_type, sql_key
from app.types.data_types import FLOATING_ROOTS
from tests.examples import examples
from tests.file_bounds import FileBounds, column_bounds
from tests.filters import FIELDS, Filter, Row, filters, rows, values
from tests.predicates.plain_verdicts import verdict_of, verdict_of_leaf
from tests.row_matches import matches


def written_bounds(
    field: DataField, held: list[Value | None], *, counts_nan: bool, knows: set[str]
) -> FileBounds:
    """Return what some writer would record: strings cut, NaN left out or not, parts missing."""
    key = sql_key(field.type)
    present = [value for value in held if value is not None]
    may_hold_nan = field.type.root in FLOATING_ROOTS and not counts_nan
    ordered = sorted((each for each in present if not (may_hold_nan and each != each)), key=key)  # noqa: PLR0124 - NaN
    low, high = (ordered[0], ordered[-1]) if ordered else (None, None)
    if field.type.root is TypeRoot.VARCHAR and isinstance(low, bytes) and isinstance(high, bytes):
        low, high = low[:1], high[:1] + b"\xff"
    return FileBounds(
        low if "min" in knows else None,
        high if "max" in knows else None,
        len(held) - len(present) if "nulls" in knows else None,
        len(held),
        may_hold_nan,
    )


KNOWS = st.sets(st.sampled_from(["min", "max", "nulls"]))


@examples(300)
@given(
    written=filters(),
    files=st.lists(st.tuples(st.lists(rows(), max_size=4), st.booleans(), KNOWS), min_size=1, max_size=4),
)
def test_verdicts_hold_for_every_row(written: Filter, files: list[tuple[list[Row], bool, set[str]]]) -> None:
    predicate = bind(read_json_filter(written.json()), FIELDS)
    bounds = {
        field.id: column_bounds(
            field.type,
            [
                written_bounds(field, [row[field.id] for row in table], counts_nan=counts_nan, knows=knows)
                for table, counts_nan, knows in files
            ],
        )
        for field in FIELDS
    }

    verdicts = evaluate_bounds(
        predicate, lambda field, some: bounds[field.id].take(some), np.arange(len(files))
    )

    for (table, _, _), verdict in zip(files, verdicts, strict=True):
        answers = [matches(predicate, row) for row in table]
        assert verdict != Verdict.NONE or not any(answers)
        assert verdict != Verdict.ALL or all(answers)


@st.composite
def arbitrary_bounds(draw: st.DrawFn, field: DataField) -> FileBounds:
    """Bounds of any kind, nonsense included."""
    end = st.none() | values(field.type)
    low = draw(end)
    return FileBounds(
        low,
        draw(st.just(low) | end),
        draw(st.none() | st.integers(0, 2)),
        draw(st.integers(0, 2)),
        field.type.root in FLOATING_ROOTS and draw(st.booleans()),
    )


@examples(400)
@given(written=filters(), size=st.integers(0, 5), data=st.data())
def test_many_files_at_once_are_judged_like_each_by_itself(
    written: Filter, size: int, data: st.DataObject
) -> None:
    predicate = bind(read_json_filter(written.json()), FIELDS)
    asked = {leaf.field.id: leaf.field for leaf in leaves(predicate) if isinstance(leaf, BoundLeaf)}
    plain = {
        number: data.draw(st.lists(arbitrary_bounds(field), min_size=size, max_size=size))
        for number, field in asked.items()
    }
    columns = {number: column_bounds(asked[number].type, files) for number, files in plain.items()}

    verdicts = evaluate_bounds(predicate, lambda field, some: columns[field.id].take(some), np.arange(size))

    assert verdicts.dtype == np.int8
    assert verdicts.tolist() == [
        verdict_of(predicate, {number: files[at] for number, files in plain.items()}) for at in range(size)
    ]


WIDE = DataField(0, "c", parse_type("DECIMAL(38, 0)"))
NUMBER = DataField(0, "c", parse_type("INT"))
BIG = DataField(0, "c", parse_type("BIGINT"))
RATIO = DataField(0, "c", parse_type("DOUBLE"))
TEXT = DataField(0, "c", parse_type("STRING"))
FLAG = DataField(0, "c", parse_type("BOOLEAN"))


@pytest.mark.parametrize("field", [WIDE, BIG, RATIO, TEXT])
@pytest.mark.parametrize("operator", [Operator.IN, Operator.NOT_IN])
@examples(60)
@given(data=st.data())
def test_long_lists(field: DataField, operator: Operator, data: st.DataObject) -> None:
    some: st.SearchStrategy[Any] = {
        "DECIMAL": st.integers(-4, 4).map(lambda number: number * 2**62),
        "BIGINT": st.integers(-40, 40),
        "DOUBLE": st.integers(-40, 40).map(float) | st.just(math.nan),
        "VARCHAR": st.binary(max_size=2),
    }[field.type.root]
    key: Any = sql_key(field.type)
    listed = data.draw(st.lists(some, min_size=5, max_size=60, unique_by=key))
    leaf = BoundLeaf(operator, field, tuple(sorted(listed, key=key)))
    end = st.none() | some
    files = [
        FileBounds(low, high, 0, 5) for low, high in data.draw(st.lists(st.tuples(end, end), max_size=8))
    ]

    verdicts = leaf_verdicts(leaf, column_bounds(field.type, files))

    assert verdicts.tolist() == [verdict_of_leaf(leaf, file) for file in files]


def verdict_of_sql(field: DataField, condition: str, file: FileBounds | None) -> Verdict:
    bounds = None if file is None else column_bounds(field.type, [file])
    found = evaluate_bounds(bind(read_text(f"c {condition}"), [field]), lambda _, __: bounds, np.arange(1))
    return Verdict(found[0])


@pytest.mark.parametrize(
    ("condition", "verdict"),
    [
        *(("= 9", "NONE"), ("= 10", "SOME"), ("<> 9", "ALL"), ("<> 15", "SOME"), ("< 10", "NONE")),
        *(("< 21", "ALL"), ("<= 9", "NONE"), ("<= 20", "ALL"), ("> 20", "NONE"), ("> 9", "ALL")),
        *((">= 21", "NONE"), (">= 10", "ALL"), ("BETWEEN 1 AND 9", "NONE"), ("BETWEEN 21 AND 30", "NONE")),
        *(("BETWEEN 10 AND 20", "ALL"), ("BETWEEN 5 AND 15", "SOME"), ("IN (1, 9, 21)", "NONE")),
        *(("IN (1, 15, 21)", "SOME"), ("NOT IN (1, 9, 21)", "ALL"), ("NOT IN (1, 15)", "SOME")),
        *(("IS NULL", "NONE"), ("IS NOT NULL", "ALL")),
    ],
)
def test_bounds_of_numbers(condition: str, verdict: str) -> None:
    assert verdict_of_sql(NUMBER, condition, FileBounds(10, 20, 0, 5)).name == verdict


@pytest.mark.parametrize(
    ("condition", "low", "high", "verdict"),
    [
        ("LIKE 'm%'", "l", "my", "SOME"),
        ("LIKE 'ma%'", "ma", "maz", "ALL"),
        ("LIKE 'ma%'", "ma", "mb", "SOME"),
        ("LIKE 'ma%'", "maa", "my", "SOME"),
        ("LIKE 'mz%'", "ma", "my", "NONE"),
        ("LIKE 'a%'", "ma", "my", "NONE"),
        ("LIKE 'z_'", "ma", "my", "NONE"),
        ("LIKE 'ma_'", "ma", "my", "SOME"),
        ("LIKE '%a%'", "ma", "my", "SOME"),
        ("LIKE '%a%'", "ma", "ma", "ALL"),
        ("LIKE '%a'", "ma", "my", "SOME"),
        ("LIKE '%z'", "ma", "ma", "NONE"),
    ],
)
def test_bounds_of_strings(condition: str, low: str, high: str, verdict: str) -> None:
    assert verdict_of_sql(TEXT, condition, FileBounds(low.encode(), high.encode(), 0, 5)).name == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(False, False, "NONE"), (True, True, "ALL"), (False, True, "SOME"), (None, True, "SOME")],
)
def test_bounds_of_truths(low: bool | None, high: bool | None, verdict: str) -> None:
    assert verdict_of_sql(FLAG, "= TRUE", FileBounds(low, high, 0, 5)).name == verdict


@pytest.mark.parametrize(
    "condition",
    [
        "> 1e300",
        ">= 30",
        "= 'NaN'",
        "BETWEEN 20 AND 'NaN'",
        "<> 10",
        "NOT IN (10, 20)",
    ],
)
def test_a_maximum_without_nan_proves_nothing_of_what_nan_satisfies(condition: str) -> None:
    file = FileBounds(10.0, 10.0, 0, 5, may_hold_nan=True)

    assert verdict_of_sql(RATIO, condition, file) is not Verdict.NONE


def test_a_maximum_with_nan_does() -> None:
    assert verdict_of_sql(RATIO, "> 1e300", FileBounds(10.0, 20.0, 0, 5)) is Verdict.NONE
    assert verdict_of_sql(RATIO, "> 1e300", FileBounds(math.nan, math.nan, 0, 5)) is Verdict.ALL


def test_both_zeros_are_one_value() -> None:
    for zero, other in ((0.0, "-0.0"), (-0.0, "0.0")):
        assert verdict_of_sql(RATIO, f"= {other}", FileBounds(zero, zero, 0, 5)) is Verdict.ALL


@pytest.mark.parametrize(
    "condition", ["= 1", "<> 1", "IN (1, 2)", "NOT IN (1, 2)", "IS NOT NULL", "BETWEEN 0 AND 9"]
)
def test_a_column_of_nulls_matches_is_null_only(condition: str) -> None:
    nulls = FileBounds(None, None, 5, 5)

    assert verdict_of_sql(NUMBER, condition, nulls) is Verdict.NONE
    assert verdict_of_sql(NUMBER, "IS NULL", nulls) is Verdict.ALL


@pytest.mark.parametrize("file", [None, FileBounds(None, None, None, 5), FileBounds(None, None, 3, 5)])
def test_unknown_bounds_prove_nothing(file: FileBounds | None) -> None:
    for condition in ("= 1", "<> 1", "IS NULL", "IS NOT NULL", "< 5", "NOT IN (1, 2)"):
        assert verdict_of_sql(NUMBER, condition, file) is Verdict.SOME


def test_swapped_bounds_prove_nothing() -> None:
    assert verdict_of_sql(NUMBER, "= 1", FileBounds(20, 10, 0, 5)) is Verdict.SOME


def test_a_file_without_rows_matches_nothing() -> None:
    assert verdict_of_sql(NUMBER, "IS NULL", FileBounds(None, None, 0, 0)) is Verdict.NONE


def asked_files(
    condition: str, files: Sequence[FileBounds]
) -> tuple[list[int], list[tuple[str, list[int], list[int]]]]:
    """Return the verdicts, and which test was looked at for which files with which verdicts."""
    looked_at: list[tuple[str, list[int], list[int]]] = []
    bounds = column_bounds(NUMBER.type, files)

    def note(
        leaf: BoundLeaf, some: NDArray[np.int64], found: NDArray[np.int8], known: ColumnBounds | None
    ) -> None:
        assert known is not None
        assert len(known) == len(some)
        looked_at.append((str(leaf), some.tolist(), found.tolist()))

    numbers = np.arange(len(files)) + 100
    predicate = bind(read_text(condition), [NUMBER])
    verdicts = evaluate_bounds(predicate, lambda _, some: bounds.take(some - 100), numbers, note)
    return verdicts.tolist(), looked_at


LOW, HIGH = FileBounds(10, 20, 0, 5), FileBounds(40, 50, 0, 5)


def test_and_looks_no_further_at_a_file_that_is_out() -> None:
    assert asked_files("c > 0 AND c > 30 AND c = 45", [LOW, HIGH, LOW]) == (
        [Verdict.NONE, Verdict.SOME, Verdict.NONE],
        [
            ("c > 0", [100, 101, 102], [Verdict.ALL] * 3),
            ("c > 30", [100, 101, 102], [Verdict.NONE, Verdict.ALL, Verdict.NONE]),
            ("c = 45", [101], [Verdict.SOME]),
        ],
    )


def test_or_looks_no_further_at_a_file_that_is_in() -> None:
    assert asked_files("c < 30 OR c > 60 OR c > 55", [LOW, HIGH]) == (
        [Verdict.ALL, Verdict.NONE],
        [
            ("c < 30", [100, 101], [Verdict.ALL, Verdict.NONE]),
            ("c > 60", [101], [Verdict.NONE]),
            ("c > 55", [101], [Verdict.NONE]),
        ],
    )


def test_nothing_is_asked_once_no_file_is_left() -> None:
    assert asked_files("c > 30 AND c > 0", [LOW]) == ([Verdict.NONE], [("c > 30", [100], [Verdict.NONE])])


def test_bounds_of_two_parts_and_of_some_files() -> None:
    wide = column_bounds(WIDE.type, [FileBounds(2**70, 2**71, 1, 5), FileBounds(None, 2**80, None, 6)])
    small = column_bounds(WIDE.type, [FileBounds(1, 2, 0, 7)])

    joined = ColumnBounds.concat([wide, small])
    some = joined.take(np.array([2, 0]))

    assert ColumnBounds.concat([small]) is small
    assert len(joined) == 3
    assert some.low.tolist() == [1, 2**70]
    assert some.high.tolist() == [2, 2**71]
    assert joined.has_low.tolist() == [True, False, True]
    assert some.null_count.tolist() == [0, 1]
    assert some.row_count.tolist() == [7, 5]
    assert joined.nbytes > wide.nbytes > small.nbytes > 0
