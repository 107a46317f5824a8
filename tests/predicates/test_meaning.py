"""Filters mean what SQL's three-valued logic says, in both forms, negated or not."""

from __future__ import annotations

import math

from hypothesis import given

from app.predicates.binding.binding import bind
from app.predicates.json_reader import read_json_filter
from app.predicates.model import Unknown, leaves
from app.predicates.sql.reader import read_sql
from app.predicates.verdicts import matches
from tests.examples import examples
from tests.filters import FIELDS, Filter, Joined, Row, Test, filters, rows


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
