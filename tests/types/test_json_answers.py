from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.types import parse_type, type_json

NULLABILITY = st.sampled_from(["", " NOT NULL"])
SIMPLE = st.builds(
    str.__add__,
    st.sampled_from(
        ["INT", "STRING", "DECIMAL(9, 2)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "VARIANT", "BLOB"]
    ),
    NULLABILITY,
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def named(root: str) -> st.SearchStrategy[str]:
        return NULLABILITY.map(lambda nullability: root + nullability)

    field = st.fixed_dictionaries(
        {"id": st.integers(0, 99), "name": st.text(max_size=3), "type": inner},
        optional={"description": st.text(max_size=3)},
    )
    return st.one_of(
        st.fixed_dictionaries({"type": named("ARRAY") | named("MULTISET"), "element": inner}),
        st.fixed_dictionaries({"type": named("MAP"), "key": inner, "value": inner}),
        st.fixed_dictionaries({"type": named("ROW"), "fields": st.lists(field, min_size=1, max_size=3)}),
    )


@given(st.recursive(SIMPLE, nested, max_leaves=6))
def test_a_type_is_told_as_schema_files_write_it(written: Any) -> None:
    assert type_json(parse_type(written)) == written


def test_a_row_that_does_not_tell_its_fields_is_text() -> None:
    assert type_json(parse_type("ROW<a INT> NOT NULL")) == "ROW<a INT> NOT NULL"
    assert type_json(parse_type({"type": "ROW"})) == "ROW<...>"
