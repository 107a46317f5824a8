"""Statistics of new files: no value lies outside of its bounds, which are cut as the table says."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from app.jobs.rows.statistics import collectors, row_statistics
from app.options.written_files import DataFileOptions
from app.types import DataField, Value, parse_type, sql_key
from app.types.binary_row.row import read_row
from tests.examples import examples
from tests.filters import FIELDS, values
from tests.key_columns import arrow_array


def bounds(field: DataField, array: pa.Array, mode: str) -> tuple[Value | None, Value | None, int | None]:
    options = DataFileOptions.parse({"metadata.stats-mode": mode}, has_key=True)
    collected = collectors([field], options)
    for each in collected:
        each.add(array[: len(array) // 2])
        each.add(array[len(array) // 2 :])
    found = row_statistics(collected, [field])
    ((low,), (high,)) = (read_row(row, [field.type]) for row in (found.min_values, found.max_values))
    return low, high, found.null_counts[0]


@given(st.data(), st.sampled_from(FIELDS), st.sampled_from(["truncate(1)", "truncate(2)", "full"]))
@examples(200)
def test_values_lie_within_their_bounds(data: st.DataObject, field: DataField, mode: str) -> None:
    drawn = data.draw(st.lists(st.none() | values(field.type), max_size=8))
    low, high, nulls = bounds(field, arrow_array(drawn, field.type), mode)

    assert nulls == drawn.count(None)
    known = [value for value in drawn if value is not None]
    order: Callable[[Value], Any] = sql_key(field.type)
    for value in known:
        assert low is None or order(low) <= order(value)
        assert high is None or order(value) <= order(high)
    is_unbounded = str(field.type) == "BYTES" or any(value != value for value in known)  # noqa: PLR0124 - NaN
    if known and not is_unbounded:
        assert low is not None
        if mode == "full":
            assert high is not None
            assert {order(low), order(high)} <= {order(value) for value in known}
    if not known or is_unbounded:
        assert low is None
        assert high is None


def test_strings_are_cut_after_characters_and_upper_bounds_raised() -> None:
    field = DataField(0, "s", parse_type("STRING"))
    cases = {
        ("déjà vu",): ("déj", "dék"),
        ("ab", "b"): ("ab", "b"),
        ("ab\ud7ffz",): ("ab\ud7ff", "ab\ue000"),
        ("a\U0010ffff\U0010ffffz",): ("a\U0010ffff\U0010ffff", "b"),
        ("\U0010ffff\U0010ffff\U0010ffffz",): ("\U0010ffff\U0010ffff\U0010ffff", None),
    }
    for texts, (low, high) in cases.items():
        found = bounds(field, pa.array(texts), "truncate(3)")
        assert found == (low.encode(), None if high is None else high.encode(), 0)


def test_zeros_are_bounded_whatever_their_sign() -> None:
    field = DataField(0, "d", parse_type("DOUBLE"))
    low, high, _ = bounds(field, pa.array([0.0, -0.0]), "full")
    assert (str(low), str(high)) == ("-0.0", "0.0")


def test_columns_without_statistics_are_left_out() -> None:
    columns = [DataField(at, name, parse_type("INT")) for at, name in enumerate("abc")]
    columns.append(DataField(3, "nested", parse_type("ARRAY<INT>")))

    def counted(options: dict[str, str]) -> list[str]:
        return [
            each.column.name for each in collectors(columns, DataFileOptions.parse(options, has_key=False))
        ]

    assert counted({}) == ["a", "b", "c"]
    assert counted({"metadata.stats-mode": "none", "fields.b.stats-mode": "counts"}) == ["b"]
    assert counted({"metadata.stats-keep-first-n-columns": "1"}) == ["a"]
    (only,) = collectors(columns[:1], DataFileOptions.parse({"metadata.stats-mode": "counts"}, has_key=False))
    only.add(pa.array([1, None], pa.int32()))
    found = row_statistics([only], columns[:2])
    assert read_row(found.max_values, [columns[0].type] * 2) == (None, None)
    assert found.null_counts == (1, None)
