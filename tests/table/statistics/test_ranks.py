"""Ranks compare as the keys that they stand for, sorted as Python sorts tuples."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptMetadataError
from app.table import TableSchema
from app.table.statistics.ranks import key_ranks
from app.types import DataField, Value, parse_type, sql_key
from app.types.binary_row.row import serialize_row
from tests.examples import examples
from tests.tables import entry, manifest

Key = tuple["Value | None", ...]

VALUES: dict[str, st.SearchStrategy[Value]] = {
    "INT": st.integers(-2, 2),
    "STRING": st.binary(max_size=2),
    "DOUBLE": st.sampled_from([math.nan, 0.0, -0.0, 1.5, -math.inf]),
    "DECIMAL(38, 0)": st.sampled_from([-(10**37), -1, 0, 10**37]),
    "BOOLEAN": st.booleans(),
}


def keyed(*types: str, schema_id: int = 0) -> TableSchema:
    """Return a schema whose primary key are all of its columns."""
    fields = tuple(DataField(number, f"c{number}", parse_type(text)) for number, text in enumerate(types))
    return TableSchema(schema_id, fields, primary_keys=tuple(field.name for field in fields))


def files(schema: TableSchema, ranges: Sequence[tuple[Key, Key]]) -> Any:
    """Return a manifest of files with some ranges of keys, and its rows."""
    types = [field.type for field in schema.fields]
    entries = [
        entry(schema_id=schema.id, min_key=serialize_row(low, types), max_key=serialize_row(high, types))
        for low, high in ranges
    ]
    return manifest(entries), np.arange(len(entries))


def comparable(key: Key, schema: TableSchema) -> tuple[Any, ...]:
    """NULL first, then SQL's order."""
    return tuple(
        (value is not None, None if value is None else sql_key(field.type)(value))
        for value, field in zip(key, schema.fields, strict=True)
    )


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableSchema, list[list[tuple[Key, Key]]]]:
    """Return a schema, and the key ranges of several manifests."""
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    keys = st.tuples(*(st.none() | VALUES[text] for text in types))
    return keyed(*types), draw(st.lists(st.lists(st.tuples(keys, keys), max_size=5), max_size=3))


@examples(200)
@given(tables())
def test_ranks_compare_as_keys(table: tuple[TableSchema, list[list[tuple[Key, Key]]]]) -> None:
    schema, ranges = table
    low, high = key_ranks([files(schema, each) for each in ranges], lambda _: schema, schema)

    assert low.dtype == high.dtype == np.int64
    keys = [comparable(key, schema) for each in ranges for key, _ in each]
    keys += [comparable(key, schema) for each in ranges for _, key in each]
    ranks = [*low.tolist(), *high.tolist()]
    assert len(ranks) == len(keys)
    for rank, key in zip(ranks, keys, strict=True):
        for other, other_key in zip(ranks, keys, strict=True):
            assert (rank < other, rank == other) == (key < other_key, key == other_key)


def test_files_of_two_schemas_compare_in_the_type_of_today() -> None:
    old, new = keyed("INT"), keyed("DECIMAL(12, 2)", schema_id=1)
    parts = [files(new, [((150,), (250,))]), files(old, [((2,), (3,)), ((1,), (1,))])]

    low, high = key_ranks(parts, [old, new].__getitem__, new)

    # 1.50 to 2.50, 2 to 3 and 1 to 1
    assert (low - low.min()).tolist() == [1, 2, 0]
    assert (high - low.min()).tolist() == [3, 4, 0]


@pytest.mark.parametrize("old", [keyed("STRING"), keyed("INT", "INT")])
def test_a_key_that_does_not_compare_ranges_over_all_others(old: TableSchema) -> None:
    new = keyed("INT", schema_id=1)
    key: Key = (b"x",) if len(old.fields) == 1 else (1, 2)
    parts = [files(old, [(key, key)]), files(new, [((None,), (7,))])]

    low, high = key_ranks(parts, [old, new].__getitem__, new)

    assert low[0] < low[1] <= high[1] < high[0]


def test_a_key_without_columns_is_the_same_everywhere() -> None:
    schema = keyed()
    low, high = key_ranks([files(schema, [((), ()), ((), ())])], lambda _: schema, schema)
    assert low.tolist() == high.tolist() == [0, 0]


def test_no_files() -> None:
    schema = keyed("INT")
    low, high = key_ranks([], lambda _: schema, schema)
    assert len(low) == len(high) == 0


def test_only_the_rows_that_are_asked_for_count() -> None:
    schema = keyed("INT")
    columns, _ = files(schema, [((1,), (2,)), ((3,), (4,)), ((5,), (6,))])
    low, high = key_ranks([(columns, np.array([2, 0]))], lambda _: schema, schema)
    assert (high[1] < low[0], low[1] < high[1], low[0] < high[0]) == (True, True, True)


def test_a_broken_key_names_its_file() -> None:
    schema = keyed("INT")
    broken = manifest([entry(file_name="data-7.orc", min_key=b"\0\0\0\1", max_key=b"\0\0\0\1")])
    with pytest.raises(CorruptMetadataError, match=r"keys of data-7\.orc"):
        key_ranks([(broken, np.array([0]))], lambda _: schema, schema)


def test_keys_of_nanoseconds_meet_where_one_writer_cuts_them_to_microseconds() -> None:
    schema = keyed("TIMESTAMP(9)")
    key = 1_700_000_000_123_456_789
    cut, whole = [((0,), (key - 789,))], [((key,), (key + 10**9,))]
    parts = [files(schema, cut), files(schema, whole)]

    low, high = key_ranks(parts, {0: schema}.__getitem__, schema)

    assert low[1] <= high[0], "both may have the key"
