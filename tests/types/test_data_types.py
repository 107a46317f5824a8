from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import RequestError
from app.types import TypeRoot, parse_type


@pytest.mark.parametrize(
    ("written", "root", "precision", "scale"),
    [
        ("BOOLEAN", TypeRoot.BOOLEAN, 0, 0),
        ("int", TypeRoot.INT, 0, 0),
        ("INTEGER", TypeRoot.INT, 0, 0),
        (" BIGINT ", TypeRoot.BIGINT, 0, 0),
        ("DECIMAL", TypeRoot.DECIMAL, 10, 0),
        ("DECIMAL(9)", TypeRoot.DECIMAL, 9, 0),
        ("NUMERIC ( 38 , 10 )", TypeRoot.DECIMAL, 38, 10),
        ("CHAR", TypeRoot.CHAR, 1, 0),
        ("CHAR(8)", TypeRoot.CHAR, 8, 0),
        ("VARCHAR(20)", TypeRoot.VARCHAR, 20, 0),
        ("STRING", TypeRoot.VARCHAR, 2**31 - 1, 0),
        ("BYTES", TypeRoot.VARBINARY, 2**31 - 1, 0),
        ("BINARY(4)", TypeRoot.BINARY, 4, 0),
        ("DATE", TypeRoot.DATE, 0, 0),
        ("TIME", TypeRoot.TIME, 0, 0),
        ("TIME(3)", TypeRoot.TIME, 3, 0),
        ("TIMESTAMP", TypeRoot.TIMESTAMP, 6, 0),
        ("TIMESTAMP(9)", TypeRoot.TIMESTAMP, 9, 0),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", TypeRoot.TIMESTAMP, 3, 0),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", TypeRoot.TIMESTAMP_LTZ, 3, 0),
        ("TIMESTAMP_LTZ(0)", TypeRoot.TIMESTAMP_LTZ, 0, 0),
        ("VARIANT", TypeRoot.OTHER, 0, 0),
        ("VECTOR<FLOAT, 3>", TypeRoot.OTHER, 0, 0),
        ("ROW<a INT, b ARRAY<INT>>", TypeRoot.ROW, 0, 0),
    ],
)
def test_types(written: str, root: TypeRoot, precision: int, scale: int) -> None:
    read = parse_type(written)

    assert (read.root, read.precision, read.scale, read.nullable) == (root, precision, scale, True)
    assert str(read) == written.strip()


@pytest.mark.parametrize(
    "written", ["INT NOT NULL", "INT not  null", "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"]
)
def test_not_null(written: str) -> None:
    assert not parse_type(written).nullable
    assert str(parse_type(written)).endswith(" NOT NULL")


def test_null_says_nothing() -> None:
    assert str(parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE NULL")) == "TIMESTAMP(3) WITH LOCAL TIME ZONE"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("MAP<STRING, INT NOT NULL> NOT NULL", "MAP<STRING, INT NOT NULL> NOT NULL"),
        (
            {"type": "MAP NOT NULL", "key": "STRING", "value": "INT NOT NULL"},
            "MAP<STRING, INT NOT NULL> NOT NULL",
        ),
        ({"type": "ARRAY", "element": {"type": "ARRAY", "element": "INT"}}, "ARRAY<ARRAY<INT>>"),
        ({"type": "ROW", "fields": []}, "ROW<...>"),
        ({"type": "ROW NOT NULL"}, "ROW<...> NOT NULL"),
        (
            {
                "type": "ROW",
                "fields": [
                    {"id": 1, "name": "a", "type": "INT NOT NULL", "description": "first"},
                    {"id": 2, "name": "b`", "type": {"type": "ARRAY", "element": "STRING"}},
                    {"id": 3, "name": "c", "type": "GEOMETRY 4326 NOT NULL"},
                ],
            },
            "ROW<`a` INT NOT NULL, `b``` ARRAY<STRING>, `c` GEOMETRY 4326 NOT NULL>",
        ),
        ({"type": "VECTOR", "element": "FLOAT", "length": 3}, "VECTOR<FLOAT, 3>"),
        ({"type": "SHAPE NOT NULL", "kind": "point"}, "SHAPE NOT NULL"),
    ],
)
def test_nested_types(written: Any, shown: str) -> None:
    assert str(parse_type(written)) == shown


def test_text_and_json_are_one_type() -> None:
    text = parse_type("MAP<STRING, MAP<INT, DECIMAL(9, 2)>>")
    json = parse_type(
        {"type": "MAP", "key": "STRING", "value": {"type": "MAP", "key": "INT", "value": "DECIMAL(9, 2)"}}
    )

    assert text.same_kind(json)
    assert [child.root for child in text.children] == [TypeRoot.VARCHAR, TypeRoot.MAP]
    assert not text.same_kind(parse_type("MAP<STRING, MAP<INT, DECIMAL(9, 3)>>"))


@pytest.mark.parametrize(
    "written",
    [
        "",
        "5",
        "INT x",
        "INT<5>",
        "DECIMAL(39, 2)",
        "DECIMAL(5, 6)",
        "DECIMAL(99999999999)",
        "TIMESTAMP(10)",
        "TIMESTAMP(3) WITH TIME ZONE",
        "MAP<STRING>",
        "ARRAY<INT, INT>",
        "ARRAY<" * 70 + "INT" + ">" * 70,
        {},
        {"type": 5},
        {"type": "ARRAY"},
        {"type": "MAP", "key": "STRING", "value": 5},
        {"type": "ROW", "fields": {}},
        {"type": "ROW", "fields": [5]},
        {"type": "ROW", "fields": [{"id": 1, "name": "a"}]},
        {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": {}}]},
    ],
)
def test_other_text_is_refused(written: Any) -> None:
    with pytest.raises(RequestError):
        parse_type(written)


@given(
    st.lists(
        st.sampled_from([*"<>(), 9é", "ARRAY", "MAP", "ROW", "INT", "DECIMAL", "TIME", "NOT", "NULL"])
    ).map("".join)
)
def test_any_text_is_read_or_refused(written: str) -> None:
    with suppress(RequestError):
        assert str(parse_type(written)).split() == written.split() or "NULL" in written.upper()


def test_what_is_stored_compactly() -> None:
    assert parse_type("DECIMAL(18, 4)").is_compact_decimal
    assert not parse_type("DECIMAL(19, 4)").is_compact_decimal
    assert parse_type("TIMESTAMP(3)").is_compact_timestamp
    assert not parse_type("TIMESTAMP(4)").is_compact_timestamp
    assert not parse_type("INT").is_compact_decimal
