"""Bounds say what their writers let them say: of NaN, and of times whose fractions were cut."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from app.predicates.model import BoundLeaf, Operator
from app.predicates.verdicts import Verdict, leaf_verdicts
from app.table.statistics.trusted_bounds import trusted_bounds
from app.types import DataField, parse_type
from app.types.bytes_column import BytesColumn
from tests.file_bounds import FileBounds, by_file, column_bounds

RATIO = DataField(0, "ratio", parse_type("FLOAT"))
EQUALS_HALF = BoundLeaf(Operator.EQUAL, RATIO, (0.5,))
ABOVE_TEN = BoundLeaf(Operator.GREATER_THAN, RATIO, (10.0,))
IS_NAN = BoundLeaf(Operator.EQUAL, RATIO, (math.nan,))

FORMATS = [b"data-1.orc", b"data-1.avro", b"data-1.parquet"]


def verdicts(leaf: BoundLeaf, stated: FileBounds, names: list[bytes]) -> list[int]:
    bounds = column_bounds(RATIO.type, [stated] * len(names))
    found: list[int] = leaf_verdicts(leaf, trusted_bounds(bounds, RATIO.type, BytesColumn.of(names))).tolist()
    return found


@pytest.mark.parametrize("stated", [(math.nan, math.nan), (math.nan, 1.0), (0.0, math.nan)])
@pytest.mark.parametrize("leaf", [EQUALS_HALF, ABOVE_TEN, IS_NAN])
def test_a_bound_that_is_nan_says_nothing(stated: tuple[float, float], leaf: BoundLeaf) -> None:
    assert verdicts(leaf, FileBounds(*stated, 2, 48), FORMATS) == [Verdict.SOME] * 3


@pytest.mark.parametrize("leaf", [ABOVE_TEN, IS_NAN])
def test_only_of_parquet_the_maximum_has_no_nan_above_it(leaf: BoundLeaf) -> None:
    found = verdicts(leaf, FileBounds(0.0, 1.0, 0, 48), FORMATS)

    assert found == [Verdict.SOME, Verdict.SOME, Verdict.NONE]


def test_a_column_of_nulls_stays_decided_whatever_its_format() -> None:
    assert verdicts(EQUALS_HALF, FileBounds(None, None, 48, 48), FORMATS) == [Verdict.NONE] * 3


SECOND = 10**9
LATEST = 2**63 // 10**6 * 10**6


@pytest.mark.parametrize("name", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(4)"])
@pytest.mark.parametrize(
    ("high", "stands_for"),
    [
        (SECOND, SECOND + 999_999),
        (0, 999_999),
        (-SECOND, -SECOND + 999_999),
        (LATEST, LATEST + 999_999),
        (SECOND + 1000, SECOND + 1000),
        (-1000, -1000),
        (None, None),
    ],
)
def test_a_maximum_of_whole_milliseconds_in_orc_stands_for_its_millisecond(
    name: str, high: int | None, stands_for: int | None
) -> None:
    data_type = parse_type(name)
    stated = FileBounds(-SECOND, high, 0, 5)

    found = trusted_bounds(column_bounds(data_type, [stated] * 3), data_type, BytesColumn.of(FORMATS))

    assert by_file(found) == [replace(stated, high=stands_for), stated, stated]


@pytest.mark.parametrize("name", ["TIMESTAMP(9)", "TIMESTAMP_LTZ(7)"])
@pytest.mark.parametrize(
    ("high", "in_orc", "elsewhere"),
    [
        (SECOND, SECOND + 999_999, SECOND + 999),
        (SECOND + 5_000, SECOND + 5_999, SECOND + 5_999),
        (-1_000, -1, -1),
        (LATEST, LATEST + 999_999, LATEST + 999),
        (SECOND + 1, SECOND + 1, SECOND + 1),
        (None, None, None),
    ],
)
def test_a_maximum_of_whole_microseconds_stands_for_its_microsecond_in_every_format(
    name: str, high: int | None, in_orc: int | None, elsewhere: int | None
) -> None:
    data_type = parse_type(name)
    stated = FileBounds(-SECOND, high, 0, 5)

    found = trusted_bounds(column_bounds(data_type, [stated] * 3), data_type, BytesColumn.of(FORMATS))

    assert by_file(found) == [replace(stated, high=end) for end in (in_orc, elsewhere, elsewhere)]


@pytest.mark.parametrize("name", ["TIMESTAMP(3)", "TIMESTAMP_LTZ(0)", "DATE", "BIGINT"])
def test_columns_without_fractions_of_milliseconds_are_trusted_in_orc(name: str) -> None:
    bounds = column_bounds(parse_type(name), [FileBounds(0, SECOND, 0, 5)])

    assert trusted_bounds(bounds, parse_type(name), BytesColumn.of([b"data-1.orc"])) is bounds


def test_columns_of_other_types_are_trusted_as_they_are() -> None:
    bounds = column_bounds(parse_type("INT"), [FileBounds(1, 2, 0, 5)])

    assert trusted_bounds(bounds, parse_type("INT"), BytesColumn.of([b"data-1.orc"])) is bounds
