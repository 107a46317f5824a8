"""Long lists of plain values are read at once, and mean what they mean when they are read one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FilterError, LimitExceededError
from app.predicates.limits import FilterLimits
from app.predicates.sql.reader import read_sql
from app.predicates.unbound import Leaf

NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(-(10**6), 10**6, allow_nan=False, places=3).map(str),
    st.sampled_from(["-0", "007", "- 7", "5L", "1e3", ".5", "5."]),
)
TEXTS = st.text(st.sampled_from("ab,)( -\\'\"\n"), max_size=4).map(
    lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
)
OTHERS = st.sampled_from(["NULL", "TRUE", "DATE '2025-01-01'", "'a' 'b'", "CAST('1' AS INT)", "y", "x + 1"])
BLANKS = st.sampled_from(["", " ", "\n ", " -- a, 1\n", "/* 1, */"])


@st.composite
def lists(draw: st.DrawFn) -> str:
    plain = st.lists(draw(st.sampled_from([NUMBERS, TEXTS, st.one_of(NUMBERS, TEXTS)])), max_size=12)
    values = [*draw(plain), *draw(st.lists(OTHERS, max_size=1)), *draw(plain)] or ["1"]
    blank = draw(BLANKS)
    return ",".join(f"{blank}{value} " for value in values)


def outcome(condition: str) -> str:
    try:
        return repr(read_sql(condition))
    except FilterError as error:
        return f"{error} at {error.position}"


@given(lists(), st.sampled_from(["x IN ({})", "x NOT IN ({}) AND y = 1", "(x + 1) IN ({})", "f(x IN ({}))"]))
def test_a_list_is_read_as_one_value_after_the_other(values: str, condition: str) -> None:
    # Behind a comment values are read one by one.
    one_by_one = outcome(condition.format("/**/" + values))

    assert outcome(condition.format("    " + values)) == one_by_one.replace("/**/", "    ")


def test_a_list_keeps_values_and_positions() -> None:
    text = "x IN (" + ", ".join(map(str, range(-5, 5_000))) + ")"

    found = read_sql(text)

    assert isinstance(found, Leaf)
    assert [int(str(literal.value)) for literal in found.literals] == list(range(-5, 5_000))
    assert all(
        text[literal.position :].startswith(str(abs(int(str(literal.value)))))
        for literal in found.literals
        if literal.position is not None
    )


def test_a_list_counts_its_values() -> None:
    with pytest.raises(LimitExceededError, match="more than 2000 literals"):
        read_sql("x IN (" + ", ".join(map(str, range(2_001))) + ")", FilterLimits(literals=2_000))
