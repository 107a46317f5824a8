import operator
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.predicates.binding import bind
from app.predicates.bounds_in_words import bound_texts, point_texts
from app.predicates.model import BoundLeaf, leaves
from app.predicates.text import read_text
from app.predicates.verdicts import Verdict, leaf_verdicts
from app.types import DataField, Value, parse_type
from tests.file_bounds import FileBounds, column_bounds
from tests.filters import FIELDS, Filter, filters, values

CITY: Final = DataField(0, "city", parse_type("STRING"))
COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
END: Final = re.compile(r"(min|max) (-?\d+) ([<>]=?) (-?\d+)$")


def leaf_of(condition: str, field: DataField) -> BoundLeaf:
    leaf = bind(read_text(condition), [field])
    assert isinstance(leaf, BoundLeaf)
    return leaf


def text_of(condition: str, file: FileBounds, field: DataField = CITY) -> str:
    leaf, bounds = leaf_of(condition, field), column_bounds(field.type, [file])
    (text,) = bound_texts(leaf, bounds, leaf_verdicts(leaf, bounds))
    return text


def file(low: Value | None, high: Value | None, nulls: int | None = 0) -> FileBounds:
    return FileBounds(low, high, nulls, 90)


@pytest.mark.parametrize(
    ("condition", "bounds", "expected"),
    [
        ("city = 'Wien'", file(b"Bonn", "Köln".encode()), "city min 'Bonn' max 'Köln' < 'Wien'"),
        ("city = 'Aachen'", file(b"Bonn", "Köln".encode()), "city max 'Köln' min 'Bonn' > 'Aachen'"),
        ("city = 'Bremen'", file(b"Bonn", "Köln".encode()), "city min 'Bonn' max 'Köln'"),
        ("city IN ('Ulm', 'Wien')", file(b"Bonn", b"Trier"), "city min 'Bonn' max 'Trier' < 'Ulm'"),
        ("city IN ('Aachen', 'Wien')", file(b"Bonn", b"Trier"), "city min 'Bonn' max 'Trier'"),
        ("city LIKE 'W%n'", file(b"Bonn", b"Trier"), "city min 'Bonn' max 'Trier' < 'W%n'"),
        ("city LIKE '%x'", file(b"Bonn", b"Bonn"), "city min 'Bonn' max 'Bonn'"),
        ("city = 'Trier%'", file(b"Bonn", b"Trier"), "city min 'Bonn' max 'Trier' < 'Trier%'"),
        ("city LIKE 'A%'", file(b"Bonn", b"Trier"), "city max 'Trier' min 'Bonn' > 'A'"),
        ("city <> 'Bonn'", file(b"Bonn", b"Bonn"), "city min 'Bonn' max 'Bonn'"),
        ("city < 'Bonn'", file(b"Bonn", b"Trier"), "city max 'Trier' min 'Bonn' >= 'Bonn'"),
        ("city > 'Trier'", file(b"Bonn", b"Trier"), "city min 'Bonn' max 'Trier' <= 'Trier'"),
        ("city > 'Trier'", file(None, b"Trier"), "city max 'Trier' <= 'Trier'"),
        ("city = 'Bonn'", file(None, None, 90), "city is NULL in 90 of 90 rows"),
        ("city IS NULL", file(b"Bonn", b"Trier", 3), "city is NULL in 3 of 90 rows"),
        ("city IS NULL", file(b"Bonn", b"Trier", None), "city min 'Bonn' max 'Trier'"),
        ("city = 'Bonn'", file(None, None, None), "city has no bounds"),
        ("city = 'Bonn'", file(b"\xff", b"\xff" * 200), f"city max '{'�' * 100}...' min '�' > 'Bonn'"),
    ],
)
def test_the_bound_that_decided_stands_beside_the_literal(
    condition: str, bounds: FileBounds, expected: str
) -> None:
    assert text_of(condition, bounds) == expected


@pytest.mark.parametrize(
    ("data_type", "low", "high", "expected"),
    [
        ("INT", -3, 57, "c min -3 max 57"),
        ("BOOLEAN", False, True, "c min FALSE max TRUE"),
        ("DATE", 18262, 18263, "c min '2020-01-01' max '2020-01-02'"),
        ("DECIMAL(12, 2)", -5843, 5843, "c min -58.43 max 58.43"),
        ("DECIMAL(38, 2)", 10**30, 10**31, f"c min 1{'0' * 28}.00 max 1{'0' * 29}.00"),
        ("DOUBLE", 0.5, 1e300, "c min 0.5 max 1e+300"),
        ("TIMESTAMP(3)", 0, 1_500 * 10**6, "c min '1970-01-01T00:00:00' max '1970-01-01T00:00:01.5'"),
        ("TIMESTAMP_LTZ(3)", 0, 10**9, "c min '1970-01-01T00:00:00Z' max '1970-01-01T00:00:01Z'"),
        ("BYTES", b"\x00", b"\xff", "c min X'00' max X'ff'"),
    ],
)
def test_bounds_of_every_type_are_written_as_sql_has_them(
    data_type: str, low: Value, high: Value, expected: str
) -> None:
    field = DataField(0, "c", parse_type(data_type))

    assert text_of("c IS NOT NULL", FileBounds(low, high, None, 90), field) == expected


numbers = st.integers(-3, 3)


@given(
    ends=st.lists(st.tuples(numbers, numbers).map(sorted), min_size=1, max_size=4),
    test=st.sampled_from(["= {}", "< {}", "<= {}", "> {}", ">= {}", "IN ({}, 2)", "BETWEEN {} AND 2"]),
    literal=numbers,
)
def test_what_is_said_of_the_bound_that_decided_is_true(
    ends: list[list[int]], test: str, literal: int
) -> None:
    field = DataField(0, "c", parse_type("INT"))
    leaf = bind(read_text(f"c {test.format(literal)}"), [field])
    if not isinstance(leaf, BoundLeaf):
        return
    bounds = column_bounds(field.type, [FileBounds(low, high, 0, 5) for low, high in ends])
    verdicts = leaf_verdicts(leaf, bounds)

    for text, verdict, (low, high) in zip(bound_texts(leaf, bounds, verdicts), verdicts, ends, strict=True):
        said = END.search(text)
        assert (said is None) or verdict == Verdict.NONE
        if said is not None:
            bound, number, sign, other = said.groups()
            assert int(number) == (low if bound == "min" else high)
            assert COMPARE[sign](int(number), int(other))
        elif verdict == Verdict.NONE:
            assert " IN " in str(leaf)


@given(data=st.data(), written=filters())
def test_bounds_of_whatever_type_can_be_told(data: st.DataObject, written: Filter) -> None:
    for leaf in leaves(bind(read_text(written.text()), FIELDS)):
        if not isinstance(leaf, BoundLeaf):
            continue
        ends = st.none() | values(leaf.field.type)
        files = [
            FileBounds(data.draw(ends), data.draw(ends), data.draw(st.none() | st.integers(0, 3)), 3)
            for _ in range(3)
        ]
        bounds = column_bounds(leaf.field.type, files)

        texts = bound_texts(leaf, bounds, np.array(list(Verdict), np.int8))

        assert len(texts) == len(files)
        assert all(text.startswith(leaf.field.name) for text in texts)


def test_a_partition_is_told_by_its_value() -> None:
    bounds = column_bounds(CITY.type, [FileBounds(b"Bonn", b"Bonn", 0, 1), FileBounds(None, None, 1, 1)])

    assert point_texts(CITY, bounds) == ["city is 'Bonn'", "city is NULL"]
