"""Filters mean what SQL's three-valued logic says, in both forms, negated or not."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from app.predicates.binding.binding import bind
from app.predicates.json_reader import read_json_filter
from app.predicates.model import Unknown, leaves
from app.predicates.sql.reader import read_sql
from tests.examples import examples
from tests.filters import FIELDS, Filter, Joined, Row, Test, filters, rows
from tests.row_matches import matches

UNREAD = (
    "({0}) = TRUE",
    "({0}) NOT BETWEEN FALSE AND FALSE",
    "TRUE IN (({0}) OR FALSE)",
    "CASE WHEN {0} THEN TRUE WHEN NOT ({0}) THEN FALSE END",
    "CASE WHEN {0} THEN TRUE WHEN NOT {0} OR FALSE THEN FALSE END = TRUE",
)
"""What means the same as a test, but cannot be read."""


def partly_unread(written: Filter, data: st.DataObject) -> str:
    """The SQL form of a filter, without needless parentheses, some of its tests as what cannot be read."""
    if isinstance(written, Test):
        return data.draw(st.sampled_from(("{0}", "{0}", "NOT NOT {0}", *UNREAD))).format(written.sql())
    parts = [partly_unread(child, data) for child in written.children]
    return f" {written.function} ".join(
        f"({part})" if isinstance(child, Joined) or data.draw(st.booleans()) else part
        for child, part in zip(written.children, parts, strict=True)
    )


@examples(300)
@given(filters(), rows(), st.data())
def test_no_row_is_left_out_for_what_is_not_read(written: Filter, row: Row, data: st.DataObject) -> None:
    condition = partly_unread(written, data)

    for text, truth in ((condition, True), (f"NOT ({condition})", False)):
        assert matches(bind(read_sql(text), FIELDS), row) in (None, written.truth(row) is truth)


@given(filters())
def test_both_forms_bind_to_one_predicate(written: Filter) -> None:
    # NaN differs from itself, so the texts are compared.
    assert repr(bind(read_sql(written.sql()), FIELDS)) == repr(bind(read_json_filter(written.json()), FIELDS))


def test_what_is_written_twice_stands_once_even_of_nan() -> None:
    (ratio,) = (field for field in FIELDS if field.name == "ratio")
    one = Test("EQUAL", ratio, (math.nan,))
    twice = Joined("AND", (one, one))

    for found in (bind(read_sql(twice.sql()), FIELDS), bind(read_json_filter(twice.json()), FIELDS)):
        assert repr(found) == repr(bind(read_json_filter(one.json()), FIELDS))


@examples(300)
@given(filters(), rows())
def test_a_filter_selects_the_rows_where_it_is_true(written: Filter, row: Row) -> None:
    assert matches(bind(read_json_filter(written.json()), FIELDS), row) is (written.truth(row) is True)


@examples(300)
@given(filters(), rows())
def test_a_negated_filter_selects_the_rows_where_it_is_false(written: Filter, row: Row) -> None:
    negated = bind(read_sql(f"NOT ({written.sql()})"), FIELDS)

    answer = matches(negated, row)

    undecided = any(isinstance(leaf, Unknown) for leaf in leaves(negated))
    assert answer is (written.truth(row) is False) or (undecided and answer is None)


@given(filters(), rows())
def test_two_negations_are_none(written: Filter, row: Row) -> None:
    twice = bind(read_sql(f"NOT (NOT ({written.sql()}))"), FIELDS)

    assert matches(twice, row) is (written.truth(row) is True)


@given(filters(), rows())
def test_what_is_missing_of_a_row_leaves_the_answer_open(written: Filter, row: Row) -> None:
    known = {number: value for number, value in row.items() if number % 2}

    answer = matches(bind(read_json_filter(written.json()), FIELDS), known)

    assert answer in (None, written.truth(row) is True)
