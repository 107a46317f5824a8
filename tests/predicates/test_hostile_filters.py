"""Whatever is sent as a filter is read or refused, by one family of exceptions."""

from contextlib import suppress
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from app.errors import RequestError
from app.predicates.binding import bind
from app.predicates.json_reader import read_json_filter
from app.predicates.text import read_text
from app.predicates.verdicts import evaluate_bounds
from tests.examples import examples
from tests.file_bounds import FileBounds, column_bounds
from tests.filters import FIELDS
from tests.row_matches import matches
from tests.tables import columns_of

ALL_FIELDS = (
    *FIELDS,
    *columns_of(
        "time: TIME(3); m: MAP<STRING, INT>; by: MAP<INT, INT>; list: ARRAY<INT>; row: ROW<a INT>", 100
    ),
    *columns_of("variant: VARIANT; nanos: TIMESTAMP(9)", 105),
)
NAMES = [field.name for field in ALL_FIELDS]
TEXT = r"""
( ) [ ] , . ; ! - + * / | % :: -> ? $ = <> <=> < >= ' ` -- /* */
AND OR NOT IN BETWEEN LIKE ESCAPE IS NULL TRUE DISTINCT FROM CASE WHEN THEN ELSE END SELECT
CAST AS INT DECIMAL DOUBLE DATE TIMESTAMP X upper interval exists unknown
date( year( date_sub( current_date now() INTERVAL DAYS MONTH EXISTS => && uper(
1 -1 1.5 1e5 2D 0.1F 3L 1e400 'a' 'it''s' '2025-08-01' '+99999-12-31' '\u12' r'%'
"""
STRANGE = ["9" * 50, '"', "\n", "\0", "é", "😀", "\ud800"]
WORDS = [*TEXT.split(), *STRANGE, *(f"`{name}`" for name in NAMES)]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**40, 10**500, -(10**500)])
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        ["2025-08-01", "12:00", "1_0", "٣", "1e999999999", "NaN", "-0.0", "\ud800", "0g", "9" * 500]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["$ms", "$nanos", "$days", "$hex", "$base64", "a"]), inner, max_size=2
        )
    ),
    max_leaves=4,
)
FUNCTIONS = st.sampled_from(
    ["EQUAL", "LESS_THAN", "IN", "NOT_IN", "BETWEEN", "NOT_BETWEEN", "LIKE", "STARTS_WITH"]
)
LEAVES = st.fixed_dictionaries(
    {
        "kind": st.just("LEAF"),
        "transform": st.fixed_dictionaries(
            {
                "name": st.sampled_from(["FIELD_REF", "UPPER"]),
                "fieldRef": st.fixed_dictionaries({"index": st.integers(), "name": st.sampled_from(NAMES)}),
            }
        ),
        "function": FUNCTIONS,
        "literals": st.lists(VALUES, max_size=3),
    }
)


def use(predicate: Any) -> None:
    bound = bind(predicate, ALL_FIELDS)
    str(bound)
    hash(bound)
    matches(bound, {field.id: None for field in ALL_FIELDS})
    unknown = FileBounds(None, None, 0, 1)
    evaluate_bounds(bound, lambda field, _: column_bounds(field.type, [unknown]), np.arange(1))


@examples(1_000)
@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
@example("x = \ud800")
def test_words_in_any_order(text: str) -> None:
    with suppress(RequestError):
        use(read_text(text))


@examples(300)
@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    with suppress(RequestError):
        use(read_text(text))


@examples(500)
@given(st.sampled_from(NAMES), st.sampled_from(["=", "<", "IN (1, ", "LIKE", "<=>"]), st.sampled_from(WORDS))
def test_every_column_meets_every_word(name: str, symbol: str, word: str) -> None:
    closing = ")" if "(" in symbol else ""
    with suppress(RequestError):
        use(read_text(f"`{name.replace('`', '``')}` {symbol} {word}{closing}"))


@examples(1_000)
@given(LEAVES)
def test_every_column_meets_every_json_value(written: Any) -> None:
    with suppress(RequestError):
        use(read_json_filter(written))


@examples(300)
@given(
    st.recursive(
        VALUES,
        lambda inner: st.fixed_dictionaries(
            {},
            optional={
                "kind": st.sampled_from(["LEAF", "COMPOUND", "TREE"]),
                "function": FUNCTIONS | st.sampled_from(["AND", "OR", "TRUE"]) | inner,
                "transform": inner,
                "literals": inner,
                "children": st.lists(inner, max_size=3) | inner,
            },
        ),
        max_leaves=8,
    )
)
def test_any_json(written: Any) -> None:
    with suppress(RequestError):
        use(read_json_filter(written))
