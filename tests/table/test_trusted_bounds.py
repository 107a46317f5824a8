"""Bounds of floating columns say of NaN what their writer lets them say."""

from __future__ import annotations

import math

import pytest

from app.predicates.model import BoundLeaf, Operator
from app.predicates.verdicts import Verdict, leaf_verdicts
from app.table.trusted_bounds import trusted_bounds
from app.types import DataField, parse_type
from app.types.bytes_column import BytesColumn
from tests.file_bounds import FileBounds, column_bounds

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


def test_columns_of_other_types_are_trusted_as_they_are() -> None:
    bounds = column_bounds(parse_type("INT"), [FileBounds(1, 2, 0, 5)])

    assert trusted_bounds(bounds, parse_type("INT"), BytesColumn.of([b"data-1.orc"])) is bounds
