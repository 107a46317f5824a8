"""Which indexes a filter asks, beside what its evaluation opens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.file_index import container
from app.file_index.evaluation import evaluate
from app.file_index.index_kinds import BLOOM_FILTER, KINDS, IndexKind, wanted_indexes
from app.file_index.stacked_index import FileIndex, StackedIndex
from app.predicates.binding import bind
from app.predicates.model import BoundAnd, BoundOr
from app.predicates.text import read_text
from app.types import DataField, Value, parse_type
from app.types.bytes_column import BytesColumn
from tests.examples import examples
from tests.file_index.strategies import columns, leaves
from tests.tables import payload

NUMBER, OTHER = DataField(0, "number", parse_type("INT")), DataField(1, "other", parse_type("INT"))
ROW_KINDS = {kind for kind in KINDS.values() if kind.tells_rows}


@pytest.mark.parametrize(
    ("written", "kinds"),
    [
        ("number = 1", {*ROW_KINDS, BLOOM_FILTER}),
        ("number IN (1, 2)", {*ROW_KINDS, BLOOM_FILTER}),
        ("number <> 1", ROW_KINDS),
        ("number > 1", ROW_KINDS),
        ("number IS NULL", ROW_KINDS),
        ("number = 1 OR number > 5", {*ROW_KINDS, BLOOM_FILTER}),
        ("TRUE", set()),
        ("abs(number) = 1", set()),
    ],
)
def test_bloom_filters_are_asked_for_values_only(written: str, kinds: set[IndexKind]) -> None:
    asked = wanted_indexes(bind(read_text(written), (NUMBER, OTHER)))

    assert asked & {("number", kind) for kind in {*ROW_KINDS, BLOOM_FILTER}} == {
        ("number", kind) for kind in kinds
    }


@given(data=st.data())
@examples(40)
def test_what_is_not_asked_changes_no_answer(data: st.DataObject) -> None:
    rows: dict[DataField, list[Value | None]] = {}
    for field in (NUMBER, OTHER):
        rows[field] = [None, *data.draw(columns(field.type))][:8]
    count = min(map(len, rows.values()))
    rows = {field: values[:count] for field, values in rows.items()}
    content = container.write(
        {
            field.name: [(kind, payload(kind, values, field)) for kind in KINDS.values()]
            for field, values in rows.items()
        }
    )
    index = FileIndex.read(content)
    leaf = st.one_of(*(leaves(field, values) for field, values in rows.items()))
    several = st.lists(leaf, min_size=1, max_size=3).map(tuple)
    predicate = data.draw(leaf | several.map(BoundAnd) | several.map(BoundOr))

    asked = wanted_indexes(predicate)
    payloads = {
        (entry.column, entry.kind): BytesColumn.of([index.payload(entry)])
        for listed in index.entries.values()
        for entry in listed
        if (entry.column, entry.kind) in asked
    }
    fetched = StackedIndex(index.stacked.heads, payloads).file_index(0)

    assert evaluate(predicate, fetched, row_count=count) == evaluate(predicate, index, row_count=count)
