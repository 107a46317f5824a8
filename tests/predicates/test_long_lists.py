"""Long lists of plain values are read at once, and mean what they mean when they are read one by one."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FilterError, LimitExceededError
from app.predicates.binding import bind
from app.predicates.json_reader import read_json_filter
from app.predicates.text import read_text
from app.predicates.unbound import FilterLimits, Leaf, Not, Predicate
from app.types import DataField
from tests.tables import columns_of

NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.integers(-200, 200).map(str),
    st.decimals(-(10**6), 10**6, allow_nan=False, places=3).map(str),
    st.sampled_from(["-0", "007", "+7", "1e3", ".5", "5."]),
)
TEXTS = st.text(st.sampled_from("ab,)( -\\'\"\n"), max_size=4).map(
    lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
)
OTHERS = st.sampled_from(["NULL", "TRUE", "DATE '2025-01-01'", "'a' 'b'", "5L", "y", "x + 1"])
BLANKS = st.sampled_from(["", " ", "\n ", " -- a, 1\n", "/* 1, */"])


@st.composite
def lists(draw: st.DrawFn) -> list[str]:
    plain = st.lists(draw(st.sampled_from([NUMBERS, TEXTS, st.one_of(NUMBERS, TEXTS)])), max_size=12)
    values = [*draw(plain), *draw(st.lists(OTHERS, max_size=1)), *draw(plain)] or ["1"]
    blank = draw(BLANKS)
    return [f"{blank}{value} " for value in values]


def outcome(condition: str) -> str:
    try:
        return repr(read_text(condition))
    except FilterError as error:
        return f"{error} at {error.position}"


def without_comments(text: str) -> str:
    """Blanks for comments that are empty, and for a part of one where the text is cut."""
    return re.sub(r"/\*\*/|/\*{0,2}(?=\.\.\.)", lambda comment: " " * len(comment[0]), text)


@given(lists(), st.sampled_from(["x IN ({})", "x NOT IN ({}) AND y = 1", "(x + 1) IN ({})", "f(x IN ({}))"]))
def test_a_list_is_read_as_one_value_after_the_other(values: list[str], condition: str) -> None:
    # Values with comments behind them are read one by one.
    one_by_one = outcome(condition.format("/**/,".join(values)))

    assert without_comments(outcome(condition.format("    ,".join(values)))) == without_comments(one_by_one)


def test_a_list_keeps_values_and_positions() -> None:
    text = "x IN (" + ", ".join(map(str, range(-5, 5_000))) + ")"

    found = read_text(text)

    assert isinstance(found, Leaf)
    assert [int(str(literal.value)) for literal in found.literals] == list(range(-5, 5_000))
    assert all(
        text[literal.position :].startswith(str(literal.value))
        for literal in found.literals
        if literal.position is not None
    )


@pytest.mark.parametrize("condition", ["x IN ({})", "f(x IN ({}))"])
def test_a_list_counts_its_values(condition: str) -> None:
    values = list(map(str, range(2_001)))

    read_text(condition.format(", ".join(values[1:])), FilterLimits(literals=2_000))
    with pytest.raises(LimitExceededError, match="more than 2000 literals"):
        read_text(condition.format(", ".join(values)), FilterLimits(literals=2_000))


COLUMNS = columns_of(
    """
    t: TINYINT; i: INT; l: BIGINT; s: STRING; c: CHAR(3); d: DECIMAL(4, 1); f: FLOAT; w: DOUBLE; b: BOOLEAN;
    day: DATE; at: TIMESTAMP(6); x: BYTES
    """
)
PLAIN_LISTS = st.one_of(
    st.lists(st.integers(-(1 << 70), 1 << 70) | st.integers(-200, 200), min_size=8, max_size=20),
    st.lists(st.text(st.characters(exclude_characters="\\'"), max_size=4), min_size=8, max_size=20),
    st.lists(st.sampled_from(["1", "0", "12", "2025-01-02", "true", " 5 ", "x"]), min_size=8, max_size=12),
)


def bound(predicate: Predicate, field: DataField) -> object:
    try:
        return bind(predicate, [field])
    except FilterError as error:
        return f"{error} at {error.position}"


@given(PLAIN_LISTS, st.sampled_from(COLUMNS), st.booleans())
def test_a_list_is_bound_as_its_literals_one_by_one(
    values: list[int] | list[str], field: DataField, negated: bool
) -> None:
    listed = ", ".join(str(each) if isinstance(each, int) else f"'{each}'" for each in values)
    column = {"name": "FIELD_REF", "fieldRef": {"name": field.name}}
    leaf = {"kind": "LEAF", "transform": column, "function": "NOT_IN" if negated else "IN"}

    for found in (
        read_text(f"{field.name} {'NOT ' if negated else ''}IN ({listed})"),
        read_json_filter({**leaf, "literals": values}),
    ):
        assert bound(found, field) == bound(one_by_one(found), field)


@pytest.mark.parametrize("at", [0, 4, 8])
@pytest.mark.parametrize("field", COLUMNS, ids=lambda field: field.name)
def test_a_number_among_strings_is_one_of_the_list(field: DataField, at: int) -> None:
    values = [f"'{number}'" for number in range(9)]
    values[at] = "17"

    found = bound(read_text(f"{field.name} IN ({'    ,'.join(values)})"), field)
    expected = bound(read_text(f"{field.name} IN ({'/**/,'.join(values)})"), field)
    assert without_comments(repr(found)) == without_comments(repr(expected))


def one_by_one(predicate: Predicate) -> Predicate:
    if isinstance(predicate, Not):
        return Not(one_by_one(predicate.child))
    assert isinstance(predicate, Leaf)
    assert not isinstance(predicate.literals, tuple)
    return replace(predicate, literals=tuple(predicate.literals))


def test_an_error_in_a_list_tells_where() -> None:
    text = "day IN (" + ", ".join(["'2025-01-01'"] * 10) + ", '2025-13-01')"

    with pytest.raises(FilterError) as caught:
        bind(read_text(text), COLUMNS)

    assert caught.value.position == text.index("'2025-13-01'")
