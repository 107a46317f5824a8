"""Rows of Arrow arrays are those of the single values."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.types import Value, parse_type
from app.types.arrow_fields import field_values, serialized_rows
from app.types.binary_row.row import serialize_row
from tests.examples import examples
from tests.filters import FIELDS, values
from tests.key_columns import arrow_array

ROWS = st.lists(st.tuples(*(st.none() | values(field.type) for field in FIELDS)), max_size=4)


@given(ROWS)
@examples(60)
def test_rows_of_arrays_are_those_of_their_values(rows: list[tuple[Value | None, ...]]) -> None:
    types = [field.type for field in FIELDS]
    arrays = [arrow_array([row[at] for row in rows], each) for at, each in enumerate(types)]
    # Arrays are parts of others as often as not.
    arrays = [pa.concat_arrays([array[:1], array])[len(array[:1]) :] for array in arrays]

    found = serialized_rows([field_values(*each) for each in zip(arrays, types, strict=True)], len(rows))

    assert found.to_pylist() == [serialize_row(row, types) for row in rows]


@pytest.mark.parametrize("unscaled", [10**37, -(10**37), 10**17, -1, 0])
def test_decimals_of_38_digits_keep_them_all(unscaled: int) -> None:
    data_type = parse_type("DECIMAL(38, 3)")
    array = arrow_array([None, unscaled, 5], data_type)
    assert field_values(array, data_type).tolist() == [None, unscaled, 5]
    assert field_values(array[1:2], data_type).tolist() == [unscaled]


def test_a_table_without_partitions_has_rows_without_fields() -> None:
    assert serialized_rows([], 2).to_pylist() == [serialize_row((), ())] * 2
