"""What a filter is once parts that decide nothing are gone."""

from __future__ import annotations

import pytest

from app.types import DataField, parse_type
from tests.sessions import bind_sql

FIELDS = [DataField(at, name, parse_type("INT")) for at, name in enumerate("cd")]


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("c IS NOT NULL AND c = 5", "c = 5"),
        ("c > 5 AND c IS NOT NULL AND d IS NOT NULL AND d <> 1", "c > 5 AND d <> 1"),
        ("c IS NOT NULL AND c NOT IN (1, 2)", "c NOT IN (1, 2)"),
        ("c IS NOT NULL AND d = 5", "c IS NOT NULL AND d = 5"),
        ("c IS NOT NULL AND c IS NULL", "c IS NOT NULL AND c IS NULL"),
        ("c IS NOT NULL OR c = 5", "c IS NOT NULL OR c = 5"),
        ("c IS NOT NULL AND (c = 5 OR d = 5)", "c IS NOT NULL AND (c = 5 OR d = 5)"),
    ],
)
def test_not_null_is_left_out_beside_a_test_that_no_null_passes(written: str, left: str) -> None:
    assert str(bind_sql(written, FIELDS)) == left
