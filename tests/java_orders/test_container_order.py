from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.file_index.index_kinds import IndexKind
from app.java_orders.container_order import container_order
from tests import golden_file_index

_BY_ENGINE = [
    name
    for name in golden_file_index.names()
    if golden_file_index.load(name).document["writer"] == "data-file"
]
_KINDS = st.sampled_from(list(IndexKind))


@pytest.mark.parametrize("name", _BY_ENGINE)
def test_is_that_of_the_engines_data_file_writer(name: str) -> None:
    golden = golden_file_index.load(name)
    listed = {
        column: [index["name"] for index in indexes] for column, indexes in golden.document["indexes"].items()
    }

    ordered = container_order(listed)

    entries = golden.read().entries
    assert list(ordered.items()) == [
        (column, [entry.kind for entry in listed]) for column, listed in entries.items()
    ]


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
        | st.sampled_from("abc").map(lambda key: f"m[{key}]"),
        st.lists(_KINDS, unique=True, min_size=1),
        max_size=40,
    )
)
def test_keeps_every_index(columns: dict[str, list[str]]) -> None:
    ordered = container_order(columns)

    assert {column: set(kinds) for column, kinds in ordered.items()} == {
        column: set(kinds) for column, kinds in columns.items()
    }
    assert all(len(kinds) == len(set(kinds)) for kinds in ordered.values())


def test_columns_of_one_slot_are_turned_round_twice() -> None:
    # "Aa" and "BB" have one hash code in Java.
    assert list(container_order({"BB": ["bitmap"], "Aa": ["bitmap"]})) == ["BB", "Aa"]
