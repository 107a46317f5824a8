"""Every index of random columns, asked random questions, against looking at every row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from app.file_index import container
from app.file_index.answers.result import KEEP, SKIP, Result, Rows
from app.file_index.bitmap import bitmap
from app.file_index.bloom_filter import bloom_filter
from app.file_index.bsi import bsi
from app.file_index.container import FileIndex
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import BITMAP, BLOOM_FILTER, BSI, KINDS, RANGE_BITMAP, IndexKind
from app.file_index.keys.keys import key_space
from app.file_index.range_bitmap import range_bitmap
from app.file_index.top_n import top_n
from app.predicates.model import ALWAYS_TRUE, BoundAnd, BoundOr, BoundPredicate, Operator
from app.types import DataField, DataType, TypeRoot, Value, parse_type, sql_key
from tests.brute_force import matching_rows
from tests.examples import examples
from tests.file_index.strategies import TYPES, columns, leaves
from tests.key_columns import key_column

INDEXED = [(kind, data_type) for kind in KINDS.values() for data_type in TYPES if kind.takes(data_type)]
RANGED = [
    data_type for kind, data_type in INDEXED if kind is RANGE_BITMAP and data_type.root is not TypeRoot.CHAR
]
"""Types by which a range bitmap ranks rows; stored values of CHAR may differ where Spark has them equal."""


_INT = parse_type("INT")
_NANOSECONDS = 9
_TEXT_TESTS = (Operator.ENDS_WITH, Operator.CONTAINS, Operator.LIKE)


@st.composite
def payloads_of(draw: st.DrawFn, kind: IndexKind, rows: Sequence[Value | None], data_type: DataType) -> bytes:
    """An index of the rows, written with whatever options there are."""
    column = key_column(rows, data_type)
    match kind:
        case "bloom-filter":
            return bloom_filter.write(column, items=20, fpp=0.05)
        case "bitmap":
            version, block_bytes = draw(st.sampled_from([1, 2])), draw(st.sampled_from([64, 16384]))
            return bitmap.write(column, version, block_bytes)
        case "range-bitmap":
            return range_bitmap.write(column, draw(st.sampled_from([0, 16, 16384])))
        case _:
            return bsi.write(column)


def indexes(
    kind: IndexKind, rows: Sequence[Value | None], data_type: DataType
) -> st.SearchStrategy[FileIndex]:
    """A container with one index, on column ``c``."""
    return payloads_of(kind, rows, data_type).map(
        lambda payload: FileIndex.read(container.write({"c": [(kind, payload)]}))
    )


def _selected(result: Result, row_count: int) -> BitMap:
    if isinstance(result, Rows):
        return result.positions
    return BitMap(range(row_count)) if result is KEEP else BitMap()


@pytest.mark.parametrize(("kind", "data_type"), INDEXED, ids=str)
@given(data=st.data())
@examples(20)
def test_holds_every_match_and_nothing_else_where_it_is_exact(
    kind: IndexKind, data_type: DataType, data: st.DataObject
) -> None:
    field = DataField(0, "c", data_type)
    rows = data.draw(columns(data_type, least_integer=kind is not BSI))
    index = data.draw(indexes(kind, rows, data_type))

    for _ in range(8):
        leaf = data.draw(leaves(field, rows))
        result = evaluate(leaf, index, row_count=len(rows))
        ours, truth = _selected(result, len(rows)), matching_rows(leaf, {"c": rows}, len(rows))
        assert truth <= ours
        is_exact = result is SKIP or (isinstance(result, Rows) and result.exact)
        if is_exact:
            assert ours == truth
        if kind is not BLOOM_FILTER and leaf.operator not in _TEXT_TESTS:
            assert is_exact or data_type.precision == _NANOSECONDS


@pytest.mark.parametrize(
    ("kind", "data_type"), [each for each in INDEXED if each[0] is not BLOOM_FILTER], ids=str
)
@given(data=st.data())
@examples(10)
def test_counts_the_rows_of_each_key(kind: IndexKind, data_type: DataType, data: st.DataObject) -> None:
    rows = data.draw(columns(data_type, least_integer=kind is not BSI))
    asked = data.draw(st.none() | st.sets(st.integers(0, max(0, len(rows) - 1))).map(BitMap))
    space = key_space(data_type)
    assert space is not None
    index = kind.read(data.draw(payloads_of(kind, rows, data_type)), space)

    counted = [
        value for row, value in enumerate(rows) if value is not None and (asked is None or row in asked)
    ]
    assert list(index.key_counts(asked)) == sorted(Counter(map(space.key, counted)).items())


@given(data=st.data())
@examples(150)
def test_combines_leaves_of_several_columns(data: st.DataObject) -> None:
    row_count = data.draw(st.integers(0, 20))
    kinds: dict[str, IndexKind | None] = {"a": RANGE_BITMAP, "b": BITMAP, "c": BLOOM_FILTER, "d": None}
    rows = {
        name: data.draw(st.lists(st.none() | st.integers(0, 3), min_size=row_count, max_size=row_count))
        for name in kinds
    }
    payloads = {
        name: [] if kind is None else [(kind, data.draw(payloads_of(kind, rows[name], _INT)))]
        for name, kind in kinds.items()
    }
    fields = [DataField(at, name, _INT) for at, name in enumerate(kinds)]
    leaf = st.sampled_from(fields).flatmap(lambda field: leaves(field, rows[field.name]))
    predicates: st.SearchStrategy[BoundPredicate] = st.recursive(
        leaf,
        lambda parts: (
            st.builds(BoundAnd, st.lists(parts, max_size=3).map(tuple))
            | st.builds(BoundOr, st.lists(parts, max_size=3).map(tuple))
        ),
        max_leaves=8,
    )
    predicate = data.draw(predicates)

    result = evaluate(predicate, FileIndex.read(container.write(payloads)), row_count=row_count)

    ours, truth = _selected(result, row_count), matching_rows(predicate, rows, row_count)
    assert truth <= ours
    if isinstance(result, Rows) and result.exact:
        assert ours == truth


@pytest.mark.parametrize("data_type", RANGED, ids=str)
@given(data=st.data())
@examples(30)
def test_top_n_keeps_the_first_rows(data_type: DataType, data: st.DataObject) -> None:
    field = DataField(0, "c", data_type)
    rows = data.draw(columns(data_type))
    index = data.draw(indexes(RANGE_BITMAP, rows, data_type))
    filters: st.SearchStrategy[BoundPredicate] = st.just(ALWAYS_TRUE) | leaves(field, rows)
    chosen = data.draw(filters)
    descending, nulls_first, strict = (data.draw(st.booleans()) for _ in range(3))
    limit = data.draw(st.integers(1, 12))
    selection = evaluate(chosen, index, row_count=len(rows))

    result = top_n(
        index,
        field,
        descending=descending,
        nulls_first=nulls_first,
        limit=limit,
        strict=strict,
        selection=selection,
    )

    if not isinstance(selection, Rows) or not selection.exact:
        assert result == selection
        return
    ours = _selected(result, len(rows))
    key = sql_key(data_type)
    nulls: list[tuple[Any, int]] = [(None, row) for row in selection.positions if rows[row] is None]
    valued = [(key(value), row) for row in selection.positions if (value := rows[row]) is not None]
    valued.sort(key=lambda one: one[0], reverse=descending)
    ordered = nulls + valued if nulls_first else valued + nulls
    last = ordered[:limit][-1][0]
    before = BitMap([row for at, row in ordered[:limit] if at != last])
    tied = BitMap([row for at, row in ordered if at == last])
    assert ours <= before | tied
    assert before <= ours
    if strict:
        assert len(ours) == min(limit, len(ordered))
    else:
        assert ours == before | tied
