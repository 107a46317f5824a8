import json
import re
from typing import Any

import pytest

from app.errors import FilterError, LimitExceededError
from app.predicates.binding import bind
from app.predicates.json_reader import read_json_filter, read_lists
from app.predicates.model import Unknown
from app.predicates.unbound import FilterLimits
from app.types import DataField, parse_type
from tests.tables import columns_of

FIELDS = columns_of(
    """
    score: INT; name: STRING; m: MAP<STRING, INT>; odd[name]: BIGINT; price: DECIMAL(9, 2); ratio: FLOAT;
    tags: ARRAY<STRING>
    """,
    1,
)


def field(name: str) -> dict[str, Any]:
    return {"index": 0, "name": name, "type": "INT"}


def leaf(function: str, *literals: Any, name: str = "score") -> dict[str, Any]:
    return computed({"name": "FIELD_REF", "fieldRef": field(name)}, function, *literals)


def computed(transform: dict[str, Any], function: str, *literals: Any) -> dict[str, Any]:
    return {"kind": "LEAF", "transform": transform, "function": function, "literals": list(literals)}


def compound(function: str, *children: Any) -> dict[str, Any]:
    return {"kind": "COMPOUND", "function": function, "children": list(children)}


def meaning(written: Any) -> str:
    return str(bind(read_json_filter(written), FIELDS))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (leaf("IN", 3, 1, 3, None), "score IN (1, 3)"),
        (leaf("IN", 3, 3), "score = 3"),
        (leaf("IN"), "FALSE"),
        (leaf("IN", None), "FALSE"),
        (leaf("NOT_IN", 3, 1, 3), "score NOT IN (1, 3)"),
        (leaf("NOT_IN", 3, None), "FALSE"),
        (leaf("NOT_IN"), "TRUE"),
        (leaf("BETWEEN", 5, 5), "score = 5"),
        (leaf("BETWEEN", 5, 1), "FALSE"),
        (leaf("BETWEEN", 5, None), "FALSE"),
        (leaf("NOT_BETWEEN", 1, None), "score < 1"),
        (leaf("EQUAL", None), "FALSE"),
        (leaf("EQUAL", 10**30), "FALSE"),
        (leaf("LESS_THAN", 10**30), "score IS NOT NULL"),
        (leaf("CONTAINS", "", name="name"), "name IS NOT NULL"),
        (leaf("LIKE", "a_b%", name="name"), "name LIKE 'a_b%'"),
        (leaf("LIKE", r"a\_b%", name="name"), "name STARTS WITH 'a_b'"),
        (leaf("LIKE", None, name="name"), "FALSE"),
        ({"kind": "LEAF", "function": "TRUE"}, "TRUE"),
        ({"kind": "LEAF", "function": "FALSE", "transform": {"name": "TRUE"}, "literals": []}, "FALSE"),
        (leaf("EQUAL", 1, name="SCORE"), "score = 1"),
        (leaf("EQUAL", 1, name="m[a]"), "m[a] = 1"),
        (leaf("EQUAL", 1, name="M[a[0]]"), "m[a[0]] = 1"),
        (leaf("EQUAL", 1, name="odd[name]"), "odd[name] = 1"),
        (leaf("GREATER_THAN", "1.234", name="price"), "price >= 1.24"),
        (leaf("EQUAL", 1.5, name="price"), "price = 1.50"),
        (leaf("GREATER_THAN", 0.1, name="ratio"), "ratio > 0.1"),
        (leaf("IS_NULL", name="tags"), "tags IS NULL"),
        (leaf("IS_NULL", name="m"), "m IS NULL"),
        (compound("AND", leaf("EQUAL", 1), leaf("IS_NULL", name="name")), "score = 1 AND name IS NULL"),
        (compound("OR", leaf("EQUAL", 1), leaf("EQUAL", 2), leaf("IN", 3)), "score IN (1, 2, 3)"),
        (compound("AND", leaf("EQUAL", None), leaf("EQUAL", 2)), "FALSE"),
        (compound("OR", leaf("EQUAL", None), leaf("EQUAL", 2)), "score = 2"),
    ],
)
def test_functions(written: Any, expected: str) -> None:
    assert meaning(written) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (leaf("SOUNDS_LIKE", 1, 2, 3), "SOUNDS_LIKE of score"),
        (
            computed({"name": "CONCAT", "inputs": [field("name"), "x"]}, "EQUAL", "ax"),
            "EQUAL of CONCAT(name)",
        ),
        (computed({"name": "CAST", "fieldRef": field("score")}, "EQUAL", 1), "EQUAL of CAST(score)"),
        (
            computed(
                {"name": "CONCAT", "inputs": [{"name": "UPPER", "inputs": [field("name")]}]}, "EQUAL", "A"
            ),
            "EQUAL of CONCAT(name)",
        ),
        (compound("XOR", leaf("EQUAL", 1), leaf("EQUAL", 2, name="ratio")), "XOR of 2 predicates"),
    ],
)
def test_what_no_index_can_use_is_unknown(written: Any, expected: str) -> None:
    bound = bind(read_json_filter(written), FIELDS)

    assert isinstance(bound, Unknown)
    assert bound.text == expected
    assert bound.reason


@pytest.mark.parametrize(
    "written",
    [
        None,
        17,
        [],
        {},
        {"kind": "LEAVES"},
        {"kind": "LEAF"},
        {"kind": "LEAF", "function": 1},
        {"kind": "LEAF", "function": "EQUAL"},
        {"kind": "LEAF", "function": "EQUAL", "transform": "FIELD_REF", "literals": [1]},
        {"kind": "LEAF", "function": "EQUAL", "transform": {"name": "FIELD_REF"}, "literals": [1]},
        {"kind": "LEAF", "function": "EQUAL", "transform": {"name": "FIELD_REF", "fieldRef": {"name": 5}}},
        {**leaf("EQUAL"), "literals": 5},
        leaf("EQUAL"),
        leaf("EQUAL", 1, 2),
        leaf("BETWEEN", 1),
        leaf("IS_NULL", 1),
        {"kind": "COMPOUND", "function": "AND"},
        compound("AND"),
        {"kind": "COMPOUND", "function": 5, "children": [leaf("EQUAL", 1)]},
        compound("AND", leaf("EQUAL", 1), "score = 1"),
    ],
)
def test_other_shapes_are_refused(written: Any) -> None:
    with pytest.raises(FilterError):
        read_json_filter(written)


@pytest.mark.parametrize(
    ("written", "column"),
    [
        (leaf("EQUAL", 1, name="nowhere"), "nowhere"),
        (leaf("EQUAL", 1, name="name[a]"), "name[a]"),
        (leaf("EQUAL", "a"), "score"),
        (leaf("EQUAL", 1.5), "score"),
        (leaf("EQUAL", {}), "score"),
        (leaf("IN", *[True]), "score"),
        (leaf("EQUAL", 5, name="name"), "name"),
        (leaf("STARTS_WITH", "5"), "score"),
        (leaf("EQUAL", ["a"], name="tags"), "tags"),
        (leaf("IN", 1, name="m"), "m"),
    ],
)
def test_what_does_not_fit_the_table_is_refused_by_column(written: Any, column: str) -> None:
    with pytest.raises(FilterError) as caught:
        meaning(written)

    assert caught.value.column == column


def test_names_that_differ_in_case_only() -> None:
    fields = [DataField(1, "Id", parse_type("INT")), DataField(2, "ID", parse_type("INT"))]

    assert str(bind(read_json_filter(leaf("EQUAL", 1, name="ID")), fields)) == "ID = 1"
    with pytest.raises(FilterError, match="'Id' or 'ID'"):
        bind(read_json_filter(leaf("EQUAL", 1, name="id")), fields)


def test_compounds_nest_up_to_the_limit() -> None:
    def nested(depth: int) -> Any:
        written: Any = leaf("EQUAL", 0)
        for level in range(depth):
            written = compound("OR" if level % 2 else "AND", leaf("EQUAL", level, name="ratio"), written)
        return written

    bound = bind(read_json_filter(nested(200)), FIELDS)

    assert str(bound).count("ratio") == 200
    with pytest.raises(LimitExceededError) as caught:
        read_json_filter(nested(201))
    assert caught.value.limit == 200


def test_the_literals_of_all_leaves_count() -> None:
    limits = FilterLimits(literals=3)

    read_json_filter(compound("AND", leaf("IN", 1, 2), leaf("EQUAL", 3)), limits)

    with pytest.raises(LimitExceededError):
        read_json_filter(compound("AND", leaf("IN", 1, 2), leaf("BETWEEN", 3, 4)), limits)


def test_names_and_texts_may_have_so_many_characters() -> None:
    written = compound("AND", leaf("IN", "a" * 30, 2), leaf("EQUAL", "b" * 40))
    texts = sum(map(len, re.findall(r'"(.*?)"', json.dumps(written))))

    assert read_json_filter(written, FilterLimits(characters=texts)) == read_json_filter(written)
    with pytest.raises(LimitExceededError, match=f"{texts} characters, {texts - 1} are"):
        read_json_filter(written, FilterLimits(characters=texts - 1))


def test_lists_in_arrow_are_refused_with_what_to_send_instead() -> None:
    written = {**leaf("IN", name="id"), "literals": {"$arrow": ""}}

    with pytest.raises(FilterError, match="send the values as a JSON list"):
        read_json_filter(written)
    with pytest.raises(FilterError, match="send the values as a JSON list"):
        read_lists({"id": {"$arrow": ""}})
