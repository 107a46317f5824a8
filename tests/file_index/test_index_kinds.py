"""Which indexes a filter asks, beside what its evaluation opens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.file_index import container
from app.file_index.container import FileIndex
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import BITMAP, BSI, KINDS, RANGE_BITMAP, IndexKind, wanted_indexes
from app.predicates.binding.binding import bind
from app.predicates.model import BoundAnd, BoundOr
from app.predicates.sql.reader import read_sql
from app.types import DataField, Value, parse_type
from tests.examples import examples
from tests.file_index.strategies import columns, leaves
from tests.planning.made_tables import payload

NUMBER, OTHER = DataField(0, "number", parse_type("INT")), DataField(1, "other", parse_type("INT"))
ROW_KINDS = {BITMAP, RANGE_BITMAP, BSI}


@pytest.mark.parametrize(
    ("written", "kinds"),
    [
        ("number = 1", {*KINDS}),
        ("number IN (1, 2)", {*KINDS}),
        ("number <> 1", ROW_KINDS),
        ("number > 1", ROW_KINDS),
        ("number IS NULL", ROW_KINDS),
        ("number = 1 OR number > 5", {*KINDS}),
        ("TRUE", set()),
        ("abs(number) = 1", set()),
    ],
)
def test_bloom_filters_are_asked_for_values_only(written: str, kinds: set[IndexKind]) -> None:
    asked = wanted_indexes(bind(read_sql(written), (NUMBER, OTHER)))

    assert asked == {("number", kind) for kind in kinds}


@given(data=st.data())
@examples(40)
def test_what_is_not_asked_changes_no_answer(data: st.DataObject) -> None:
    rows: dict[DataField, list[Value | None]] = {}
    for field in (NUMBER, OTHER):
        rows[field] = [None, *data.draw(columns(field.type))][:8]
    count = min(map(len, rows.values()))
    rows = {field: values[:count] for field, values in rows.items()}
    index = FileIndex.read(
        container.write(
            {
                field.name: [(kind, payload(kind, values, field)) for kind in KINDS.values()]
                for field, values in rows.items()
            }
        )
    )
    leaf = st.one_of(*(leaves(field, values) for field, values in rows.items()))
    several = st.lists(leaf, min_size=1, max_size=3).map(tuple)
    predicate = data.draw(leaf | several.map(BoundAnd) | several.map(BoundOr))

    asked = wanted_indexes(predicate)
    payloads = {
        entry: found for entry, found in index.payloads.items() if (entry.column, entry.kind) in asked
    }
    fetched = FileIndex.of(index.size, index.entries, payloads)

    assert evaluate(predicate, fetched, row_count=count) == evaluate(predicate, index, row_count=count)
