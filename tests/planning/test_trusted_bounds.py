"""Bounds of floating columns say of NaN what their writer lets them say."""

from __future__ import annotations

import math

import pytest

from app.planning.trusted_bounds import trusted_bounds
from app.predicates.bounds import Verdict, leaf_verdict
from app.predicates.model import BoundLeaf, Operator
from app.table.statistics import ColumnStatistics
from app.types import DataField, parse_type

_RATIO = DataField(0, "ratio", parse_type("FLOAT"))
_EQUALS_HALF = BoundLeaf(Operator.EQUAL, _RATIO, (0.5,))
_ABOVE_TEN = BoundLeaf(Operator.GREATER_THAN, _RATIO, (10.0,))
_IS_NAN = BoundLeaf(Operator.EQUAL, _RATIO, (math.nan,))


@pytest.mark.parametrize("name", ["data-1.orc", "data-1.avro", "data-1.parquet"])
@pytest.mark.parametrize("stated", [(math.nan, math.nan), (math.nan, 1.0), (0.0, math.nan)])
@pytest.mark.parametrize("leaf", [_EQUALS_HALF, _ABOVE_TEN, _IS_NAN])
def test_a_bound_that_is_nan_says_nothing(name: str, stated: tuple[float, float], leaf: BoundLeaf) -> None:
    bounds = trusted_bounds(ColumnStatistics(*stated, 2, 48), _RATIO.type, name)

    assert leaf_verdict(leaf, bounds) is Verdict.SOME


@pytest.mark.parametrize("name", ["data-1.orc", "data-1.avro"])
@pytest.mark.parametrize("leaf", [_ABOVE_TEN, _IS_NAN])
def test_nan_may_stand_above_the_maximum_of_orc_and_avro(name: str, leaf: BoundLeaf) -> None:
    bounds = trusted_bounds(ColumnStatistics(0.0, 1.0, 0, 48), _RATIO.type, name)

    assert leaf_verdict(leaf, bounds) is Verdict.SOME


@pytest.mark.parametrize("leaf", [_ABOVE_TEN, _IS_NAN])
def test_a_parquet_column_with_bounds_holds_no_nan(leaf: BoundLeaf) -> None:
    bounds = trusted_bounds(ColumnStatistics(0.0, 1.0, 0, 48), _RATIO.type, "data-1.parquet")

    assert leaf_verdict(leaf, bounds) is Verdict.NONE


def test_a_column_of_nulls_stays_decided_whatever_its_format() -> None:
    bounds = trusted_bounds(ColumnStatistics(None, None, 48, 48), _RATIO.type, "data-1.orc")

    assert leaf_verdict(_EQUALS_HALF, bounds) is Verdict.NONE
