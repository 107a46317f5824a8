"""Filters mean what SQL's three-valued logic says, in both forms, negated or not."""

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.predicates.binding import bind
from app.predicates.json_reader import read_json_filter
from app.predicates.model import BoundLeaf, BoundPredicate, Unknown, leaves
from app.predicates.text import read_text
from app.types import TIMESTAMP_ROOTS, DataField, TypeRoot, parse_type
from tests import golden_cases
from tests.bound_filters import bind_json, bind_text
from tests.examples import examples
from tests.filters import FIELDS, Filter, Joined, Row, Test, filters, rows
from tests.golden_checks import for_each, together
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
    """Return the text of a filter, without needless parentheses, some of its tests as what cannot be read."""
    if isinstance(written, Test):
        return data.draw(st.sampled_from(("{0}", "{0}", "NOT NOT {0}", *UNREAD))).format(written.text())
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
        assert matches(bind(read_text(text), FIELDS), row) in (None, written.truth(row) is truth)


@given(filters())
def test_both_forms_bind_to_one_predicate(written: Filter) -> None:
    # NaN differs from itself, so the texts are compared.
    assert repr(bind(read_text(written.text()), FIELDS)) == repr(
        bind(read_json_filter(written.json()), FIELDS)
    )


def test_what_is_written_twice_stands_once_even_of_nan() -> None:
    (ratio,) = (field for field in FIELDS if field.name == "ratio")
    one = Test("EQUAL", ratio, (math.nan,))
    twice = Joined("AND", (one, one))

    for found in (bind(read_text(twice.text()), FIELDS), bind(read_json_filter(twice.json()), FIELDS)):
        assert repr(found) == repr(bind(read_json_filter(one.json()), FIELDS))


@examples(300)
@given(filters(), rows())
def test_a_filter_selects_the_rows_where_it_is_true(written: Filter, row: Row) -> None:
    assert matches(bind(read_json_filter(written.json()), FIELDS), row) is (written.truth(row) is True)


@examples(300)
@given(filters(), rows())
def test_a_negated_filter_selects_the_rows_where_it_is_false(written: Filter, row: Row) -> None:
    negated = bind(read_text(f"NOT ({written.text()})"), FIELDS)

    answer = matches(negated, row)

    undecided = any(isinstance(leaf, Unknown) for leaf in leaves(negated))
    assert answer is (written.truth(row) is False) or (undecided and answer is None)


@given(filters(), rows())
def test_what_is_missing_of_a_row_leaves_the_answer_open(written: Filter, row: Row) -> None:
    known = {number: value for number, value in row.items() if number % 2}

    answer = matches(bind(read_json_filter(written.json()), FIELDS), known)

    assert answer in (None, written.truth(row) is True)


MICROSECONDS = 6

_LONG_NUMBERS = ("DECIMAL(38", "TIMESTAMP(9) WITH LOCAL")


"""Types of which the engine writes numbers with more digits than the floats that these tests read keep."""


def planning_fields(document: dict[str, Any], query: dict[str, Any]) -> Sequence[DataField]:
    at = {key: query[key] for key in ("snapshot_id", "tag", "branch")}
    version = next(each for each in document["versions"] if each["at"] == at)
    schemas = {schema["id"]: schema for schema in document["schemas"]}
    schema = schemas.get(version["schema_id_used"], document["schema"])
    return [DataField(each["id"], each["name"], parse_type(each["type"])) for each in schema["fields"]]


@for_each("table", golden_cases.tables())
def test_filters_of_tables(table: str) -> None:
    document = golden_cases.expected(table)
    for query in document["queries"]:
        if query["predicate"] is None:
            continue
        fields = planning_fields(document, query)
        from_json = bind_json(query["predicate"], fields)
        if query["filter_sql"] is not None and not _differs(from_json):
            assert repr(bind_text(query["filter_sql"], fields)) == repr(from_json), query["filter_sql"]


@together("kind", "name", golden_cases.index_names_by_kind())
def test_filters_of_index_files(name: str) -> None:
    golden = golden_cases.load_index(name)
    for check in golden.document["checks"]:
        sql = check["sql"]
        from_json = golden.bind(check["predicate"])
        # A call of concat stands for a long string where JSON spells it out.
        if sql is not None and "concat(" not in sql and not _differs(from_json):
            assert repr(bind_text(sql, golden.fields)) == repr(from_json), sql


def _differs(predicate: BoundPredicate) -> bool:
    """Whether readers pad or cut values, so that a text decides less than JSON: ``test_doubts.py``."""
    return any(
        isinstance(leaf, Unknown)
        or (
            isinstance(leaf, BoundLeaf)
            and (
                leaf.field.type.root is TypeRoot.CHAR
                or (leaf.field.type.root in TIMESTAMP_ROOTS and leaf.field.type.precision > MICROSECONDS)
            )
        )
        for leaf in leaves(predicate)
    )


def test_the_engines_own_json_is_read() -> None:
    compared = 0
    for table in golden_cases.tables():
        document = golden_cases.expected(table)
        for query in document["queries"]:
            engine = query.get("predicate_engine")
            if engine is None or any(written in str(engine) for written in _LONG_NUMBERS):
                continue
            fields = planning_fields(document, query)
            assert repr(bind_json(engine, fields)) == repr(bind_json(query["predicate"], fields))
            compared += 1

    assert compared > 100
